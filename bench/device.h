#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/broker/cuda_backend.h"

namespace lathe {

inline CLI::Option* add_device(CLI::App& app, std::string& device) {
  return app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
}

inline Result<std::unique_ptr<Backend>> open_device(const std::string& device) {
  return device == "cuda" ? make_cuda_backend({}) : make_cpu_backend({});
}

}  // namespace lathe
