#include "gemm/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fd.h"
#include "base/output.h"
#include "gemm/sizes.h"
#include "record/json.h"
#include "record/json_integer.h"

namespace lathe::gemm {
namespace {

using nlohmann::json;

json size_json(const Size& size) { return {size.m, size.n, size.k}; }
Size size_of(const json& entry) {
  const json& size = entry.at("size");
  return {json_integer<std::int64_t>(size.at(0)), json_integer<std::int64_t>(size.at(1)),
          json_integer<std::int64_t>(size.at(2))};
}

}  // namespace

Result<Journal> Journal::open(const std::string& path) {
  Journal journal(path);
  if (!std::filesystem::exists(path)) return journal;
  LATHE_TRY(const std::string text, read_file(path, std::size_t{256} << 20));
  LATHE_CHECK_OK(journal.read(text));
  return journal;
}

Status Journal::read(const std::string& text) {
  int number = 0;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    ++number;
    end = text.find('\n', begin);
    if (end == std::string::npos) {
      // A session was killed while it wrote: the next one begins where that line did.
      if (::truncate(path_.c_str(), static_cast<off_t>(begin)) != 0)
        return errno_error("cannot write to " + path_);
      break;
    }
    const json entry = json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                   text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    try {
      const std::string what = entry.at("what").get<std::string>();
      if (what == "device") {
        device_ = entry.at("name").get<std::string>();
        track_.half_sums = entry.value("accumulate", "fp32") == "fp16";
        if (!layout_of(entry.value("layout", "tn"), track_.layout))
          return Error{ErrorCode::kCorrupt,
                       "this journal is of an unknown layout",
                       "name another file",
                       {path_, number, 0}};
      }
      if (what == "bad") bad_.insert(entry.at("kernel").get<std::string>());
      if (what == "start") running_ = entry.at("kernel").get<std::string>();
      if (what == "end") running_.clear();
      if (what == "trial")
        trials_.push_back(
            {size_of(entry), entry.at("kernel").get<std::string>(), entry.at("ns").get<double>()});
      if (what == "choice")
        keep({size_of(entry), entry.at("kernel").get<std::string>(), entry.at("ns").get<double>(),
              entry.at("lt").get<std::string>(), entry.at("lt_ns").get<double>(),
              json_integer<int>(entry.at("tried")), entry.at("seconds").get<double>()});
    } catch (const json::exception&) {
      return Error{ErrorCode::kInvalid,
                   "this line is no entry of a tuning journal",
                   "name another file, or remove the line",
                   {path_, number, 0}};
    }
  }
  if (!running_.empty()) bad_.insert(running_);
  return Ok{};
}

const Choice* Journal::choice(const Size& size) const {
  const auto found = by_size_.find(size);
  return found == by_size_.end() ? nullptr : &choices_[found->second];
}

void Journal::keep(const Choice& choice) {
  const auto [at, fresh] = by_size_.emplace(choice.size, choices_.size());
  if (fresh)
    choices_.push_back(choice);
  else
    choices_[at->second] = choice;
}

Status Journal::begin(const DeviceFacts& device, const Track& track) {
  if (!device_.empty() && device_ != device.name)
    return invalid(fmt::format("{} was tuned on a {}, this is a {}", path_, device_, device.name),
                   "name another journal");
  if (!device_.empty() && track_ != track)
    return invalid(fmt::format("{} was tuned for {}, not for {}", path_, name_of(track_), name_of(track)),
                   "name another journal");
  if (!device_.empty()) return Ok{};
  device_ = device.name, track_ = track;
  return write(json_text({{"what", "device"},
                          {"name", device.name},
                          {"layout", name_of(track.layout)},
                          {"accumulate", track.half_sums ? "fp16" : "fp32"}}));
}

Status Journal::add(const Choice& c) {
  keep(c);
  return write(json_text({{"what", "choice"},
                          {"size", size_json(c.size)},
                          {"kernel", c.kernel},
                          {"ns", c.kernel_ns},
                          {"lt", c.lt},
                          {"lt_ns", c.lt_ns},
                          {"tried", c.tried},
                          {"seconds", c.seconds}}));
}

Status Journal::add(const Trial& trial) {
  trials_.push_back(trial);
  return write(json_text(
      {{"what", "trial"}, {"size", size_json(trial.size)}, {"kernel", trial.kernel}, {"ns", trial.ns}}));
}

Status Journal::add_bad(const std::string& kernel, const std::string& why) {
  bad_.insert(kernel);
  return write(json_text({{"what", "bad"}, {"kernel", kernel}, {"why", why}}));
}

Status Journal::starting(const std::string& kernel) {
  return write(json_text({{"what", "start"}, {"kernel", kernel}}));
}
Status Journal::ended() { return write(json_text({{"what", "end"}})); }

Status Journal::write(const std::string& line) {
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) return errno_error("cannot write to " + path_);
  return write_all(file.get(), line + "\n", path_);
}

}  // namespace lathe::gemm
