#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "library/package.h"

namespace lathe {
namespace {

bool is_include(std::string_view line) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_blanks();
  if (!line.starts_with('#')) return false;
  line.remove_prefix(1);
  skip_blanks();
  return line.starts_with("include");
}

/// The includes, and the text with blank lines in their place.
std::pair<std::string, std::string> split_includes(std::string_view text) {
  std::string includes, rest;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (is_include(line)) {
      includes += std::string(line) + "\n";
    } else {
      rest += line;
    }
    rest += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {includes, rest};
}

}  // namespace

std::vector<KernelVariant> kernel_variants(const ExportRequest& request) {
  std::vector<KernelVariant> variants;
  for (const NamedShape& shape : request.task->shapes) {
    Dims constants;
    for (const std::string& name : request.candidate->plan().constants) constants[name] = shape.dims.at(name);
    const bool known = std::any_of(variants.begin(), variants.end(), [&](const KernelVariant& variant) {
      return variant.constants == constants;
    });
    if (!known) variants.push_back({request.candidate, constants, "_v" + std::to_string(variants.size())});
  }
  if (request.fallback) variants.push_back({request.fallback, {}, "_fallback", true});
  return variants;
}

std::set<std::string> kernels_of(const KernelVariant& variant) {
  std::set<std::string> kernels;
  for (const PlanStep& step : variant.candidate->plan().steps) kernels.insert(step.kernel);
  return kernels;
}

std::string kernel_symbol(const std::string& package, const KernelVariant& variant,
                          const std::string& kernel) {
  return "lathe_" + package + variant.suffix + "_" + kernel;
}

std::string text_file(const std::string& package, const KernelVariant& variant) {
  return package + (variant.fallback ? "_fallback" : "") + ".lathe.cpp";
}

std::string variant_source(const std::string& package, const KernelVariant& variant) {
  const auto [includes, body] = split_includes(variant.candidate->text);
  std::string source = "#include <lathe/cpu.h>\n" + includes + "\n";
  for (const auto& [name, value] : variant.constants) source += fmt::format("#define {} {}\n", name, value);
  for (const std::string& kernel : kernels_of(variant))
    source += fmt::format("#define {} {}\n", kernel, kernel_symbol(package, variant, kernel));
  return source + fmt::format("\nnamespace lathe_{}{} {{\n#line 1 \"{}\"\n{}\n}}\n", package, variant.suffix,
                              text_file(package, variant), body);
}

}  // namespace lathe
