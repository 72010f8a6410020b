#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/catalog/cost/cost_model.h"
#include "policy/catalog/ir/graph.h"
#include "policy/catalog/schedule/choices.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// What blocks of a launch have beyond threads.
struct BlockOptions {
  int cluster = 1;       ///< so many blocks share an item
  int shared_bytes = 0;  ///< dynamic
};

/// Collects kernels, launches and scratch into one candidate text.
class Program {
 public:
  Program(const Graph& graph, const Target& target);

  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  int lanes() const { return target_.lanes; }
  int team() const { return target_.team; }
  bool cuda() const { return target_.cuda; }
  bool fixed() const { return target_.fixed; }
  /// How many elements `vectors` vectors hold; on CPUs the same with AVX2 and AVX-512.
  int block_floats(int vectors) const { return (target_.cuda ? target_.lanes : 16) * vectors; }

  /// The argument that holds `value`: an input, an output, or a scratch buffer made on first use.
  std::string buffer(const std::string& value);
  /// Scratch that is no value of the graph: packed or padded copies. The name is made unique.
  std::string scratch(const std::string& name, const Expr& floats);
  /// 32-bit counters that are zero before and after each call.
  std::string counters(const std::string& name, const Expr& count);
  /// An integer that kernels' bodies may use by this name: an expression over dims and device facts.
  void value(const std::string& name, const Expr& expr) { values_.insert_or_assign(name, expr); }
  /// "p_x": how a kernel's body names the buffer of a value.
  std::string parameter(const std::string& value) { return "p_" + buffer(value); }

  /// Adds `extern "C" void kernel(..., begin, end) { body }` and its launch; for a GPU, a kernel whose teams
  /// find `begin` and `end` by their number. Parameters are what the body names: buffers as p_<name>, and
  /// dims. `written` lists buffers (not values).
  /// `when` is a plan condition, in the task's names; empty for always.
  void launch(const std::string& kernel, const Expr& items, const std::set<std::string>& written,
              const std::string& body, const std::string& when = {});

  /// For a GPU: a kernel whose blocks of `threads` threads, or clusters of such blocks, take one `item` each.
  void launch_blocks(const std::string& kernel, const Expr& items, int threads,
                     const std::set<std::string>& written, const std::string& body,
                     const BlockOptions& options = {});

  void add_work(const Work& work) { work_.push_back(work); }
  const std::vector<Work>& work() const { return work_; }
  void add_pattern(const std::string& name);
  const std::string& pattern() const { return pattern_; }

  std::size_t kernels() const { return gpu_kernels_.size(); }
  /// `chained`, for a GPU: a kernel's blocks start while the one before ends, and wait for its results.
  std::string finish(const Schedule& schedule, bool chained = false) const;

 private:
  struct Scratch {
    std::string name;
    Expr bytes;
    bool counter = false;
  };
  struct GpuKernel {
    std::string launch, head, body;
  };
  struct Signature {
    std::string parameters;  ///< each with a comma behind it
    std::string args;        ///< quoted, separated by commas
    std::string fixed;       ///< declarations of what is compiled in
  };
  void launch_teams(const std::string& kernel, const Expr& items, const std::set<std::string>& written,
                    const std::string& body);
  void add_gpu_kernel(const std::string& kernel, const Expr& blocks, int threads, const std::string& args,
                      const std::string& parameters, const std::string& body,
                      const BlockOptions& options = {});
  Signature signature(const std::string& body, const std::set<std::string>& written) const;
  std::string fixed_names(const std::string& body) const;
  /// For the plan, and for the text before what it includes.
  std::pair<std::string, std::string> fixed_dims(const std::string& kernels) const;
  std::string declaration(const std::string& buffer, bool written) const;
  std::string scratch_name(std::string name) const;

  const Graph& graph_;
  Target target_;
  std::map<std::string, std::string> buffers_;  ///< of root values
  std::map<std::string, DType> dtypes_;         ///< of buffers
  std::map<std::string, Expr> values_;
  std::vector<Scratch> scratch_;
  std::vector<Work> work_;
  std::string launches_;
  std::string kernels_;
  std::vector<GpuKernel> gpu_kernels_;
  std::string pattern_;
};

}  // namespace lathe::catalog
