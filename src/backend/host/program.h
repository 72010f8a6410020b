#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "sandbox/memfd.h"
#include "task/bound_task.h"

namespace lathe::host {

/// Where tensors lie in a memory, one behind the other.
struct Layout {
  nlohmann::json tensors = nlohmann::json::array();  ///< as device/host/worker.py reads them
  std::vector<std::size_t> offsets, sizes;
  std::size_t bytes = 0;  ///< of them all, a multiple of the page's
};
Layout lay_out_inputs(const BoundTask& task);
Layout lay_out_outputs(const BoundTask& task);

/// What a task's module is made of at one shape: the arguments of its constructor and its
/// parameters, which a candidate's module gets too.
struct Model {
  nlohmann::json init = nlohmann::json::array();
  nlohmann::json state = nlohmann::json::array();
  UniqueFd state_memory;  ///< read-only; invalid without parameters
  /// Of each input what a call that warms up may get, from no secret seed; empty where any numbers
  /// will do.
  std::vector<std::string> samples;
};
std::vector<std::string> sample_inputs(const BoundTask& task);

/// What all programs say of themselves.
struct ProgramText {
  std::string text, entry;
  bool trusted = false;  ///< a reference: its child writes into the outputs' memory
  std::uint64_t seed = 0;
};
/// What a program is to serve: a shape of its task.
struct Section {
  const BoundTask* task = nullptr;
  const Model* model = nullptr;  ///< null for a task without a module
};
/// The samples of all sections, where the program says that they are.
std::string samples_of(std::span<const Section> sections);
/// A program as device/host/zygote.py takes it; callers add what is their own.
nlohmann::json describe_program(const ProgramText& program, std::span<const Section> sections);

}  // namespace lathe::host
