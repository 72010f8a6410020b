#pragma once

#include <set>
#include <string>
#include <vector>

#include "candidate/template.h"
#include "policy/catalog/cost/cost_model.h"
#include "policy/catalog/ir/graph.h"
#include "policy/catalog/schedule/choices.h"
#include "policy/catalog/schedule/target.h"

namespace lathe::catalog {

/// A map of a 16-bit tensor for the tensor memory accelerator, in boxes with 128-byte swizzle;
/// extents from the innermost on. A kernel takes it by its name.
struct TensorMapDecl {
  std::string name;
  std::string value;
  std::vector<Expr> dims;
  std::vector<int> box;
};

/// One kernel as a pattern writes it. Its parameters are what its text names: buffers as p_<name>,
/// dims as n_<name>, and values.
struct Kernel {
  std::string name;
  Expr items;
  std::set<std::string> written;  ///< buffers, not values
  std::string body;               ///< of one `item`
  std::string before = {};        ///< what a call's items have in common
  std::string when = {};          ///< a plan's condition, in the task's names; empty for always
  std::string reach = {};  ///< for a GPU: when vectors fit all tensors; the body is compiled for both cases
  std::vector<TensorMapDecl> maps = {};
};

/// For a GPU: the block, or the cluster of blocks, that takes an item.
struct Block {
  int threads = 256;
  int cluster = 1;
  int shared_bytes = 0;  ///< dynamic
  int blocks = 1;        ///< that the compiler must let fit a multiprocessor
};

/// What kernels call the type.
std::string c_type(DType dtype);

/// Collects kernels, launches and scratch into one candidate text.
class Program {
 public:
  Program(const Graph& graph, const Target& target);

  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  /// What templates for both targets need to say differently: `#pragma $unroll 8`,
  /// `[&](...)$inlined {`.
  const Holes& words() const { return words_; }

  /// The argument that holds `value`: an input, an output, or a scratch buffer made on first use.
  std::string buffer(const std::string& value);
  /// Scratch that is no value of the graph: packed or padded copies. The name is made unique.
  std::string scratch(const std::string& name, const Expr& floats);
  /// 32-bit counters that are zero before and after each call.
  std::string counters(const std::string& name, const Expr& count);
  /// An integer that kernels may use by this name: an expression over dims and device facts.
  void value(const std::string& name, const Expr& expr) { values_.insert_or_assign(name, expr); }
  /// "p_x": how a kernel names the buffer of a value.
  std::string parameter(const std::string& value) { return "p_" + buffer(value); }

  /// A kernel that a processor's threads call for stretches of items, and of which a GPU's team
  /// takes one.
  void launch(const Kernel& kernel);
  /// A kernel whose body sees `begin` and `end`, the first item and the one behind the last.
  void launch_ranges(const Kernel& kernel);
  /// A kernel whose body sees `item`, which a block takes.
  void launch_blocks(const Kernel& kernel, const Block& block);
  /// An expression of a kernel as the plan says it.
  std::string in_task(const Expr& expr) const { return to_task(graph_, expr).to_string(); }

  /// A header besides those that every candidate has.
  void include(const std::string& header) { headers_.insert(header); }
  void add_work(const Work& work) { work_.push_back(work); }
  const std::vector<Work>& work() const { return work_; }
  void add_pattern(const std::string& name) { patterns_.push_back(name); }
  const std::vector<std::string>& patterns() const { return patterns_; }  ///< of each group

  std::size_t kernels() const { return kernels_.size(); }
  /// `chained`, for a GPU: a kernel's blocks start while the one before ends, and wait for its
  /// results.
  std::string finish(const Schedule& schedule, bool chained = false) const;

 private:
  struct Scratch {
    std::string name;
    Expr bytes;
    bool counter = false;
  };
  /// A kernel's [[launch]] and its text, which may begin with `chain`.
  struct Finished {
    std::string launch, head, body;
  };
  struct Signature {
    std::vector<std::string> parameters, args;
    std::string fixed;  ///< declarations of what is compiled in
  };
  void add_gpu_kernel(const Kernel& kernel, const Expr& blocks, const Block& block, Signature signature,
                      const std::string& text);
  std::string for_each_reach(const Kernel& kernel, const std::string& text) const;
  void add_cpu_kernel(const Kernel& kernel, const std::string& text);
  Signature signature(const Kernel& kernel) const;
  std::string fixed_names(const std::string& text) const;
  /// The type of a buffer's parameter, up to its name.
  std::string declaration(const std::string& buffer, bool written) const;
  std::string scratch_name(std::string name) const;

  const Graph& graph_;
  Target target_;
  Holes words_;
  std::map<std::string, std::string> buffers_;  ///< of root values
  std::map<std::string, DType> dtypes_;         ///< of buffers
  std::map<std::string, Expr> values_;
  std::vector<Scratch> scratch_;
  std::vector<std::string> maps_;  ///< tables of the plan
  std::set<std::string> headers_;
  std::vector<Work> work_;
  std::vector<Finished> kernels_;
  std::vector<std::string> patterns_;
};

}  // namespace lathe::catalog
