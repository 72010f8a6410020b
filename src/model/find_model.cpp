#include "model/find_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace lathe {

Result<std::string> find_model(const std::string& name) {
  std::error_code code;
  if (std::filesystem::exists(name, code)) return name;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string folder = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
  const std::string fetched = folder + "/lathe/models/" + name + ".gguf";
  if (name.find('/') == std::string::npos && std::filesystem::exists(fetched, code)) return fetched;
  return Error{
      ErrorCode::kNotFound, fmt::format("there is no model '{}'", name),
      "name a GGUF file or a folder of safetensors, or fetch one: scripts/fetch_models.sh smollm2-135m"};
}

}  // namespace lathe
