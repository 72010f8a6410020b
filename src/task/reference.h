#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "task/bound_task.h"
#include "task/products.h"

namespace lathe {

/// What sums elements are made of, which says how small their RMS error must be.
enum class Sums {
  kUnknown,      ///< they may share a sum, or few may have nearly all of the error
  kNone,         ///< none, or of inputs with a structure, which may bias every rounding: the bound is all
  kShared,       ///< of inputs without a structure: they share sums of what products gave
  kAmplified,    ///< and each has a sum of its own, but some elements may be far less exact than others
  kJumping,      ///< the same, and few may be on a jump's other side
  kConvolution,  ///< and each has a sum of its own, which Winograd's algorithms compute less exactly
  kOwn,          ///< and each has a sum of its own
};

/// How far indices may point from the right values where those are products' sums of inputs without
/// a structure: no rounding in the order of the sums moves them further. RMS over those that do not
/// point at a right value.
struct OrderLimit {
  double of_values = 0;  ///< a share of the values' RMS; 0: the bounds are all
  double of_bounds = 0;  ///< a share of the bounds of both values, if that is more

  bool applies() const { return of_values > 0; }
};

/// Elements of an output that lie one behind the other.
struct KnownRange {
  std::size_t element = 0;  ///< the first
  std::size_t count = 0;
  std::size_t value = 0;  ///< where their values begin

  friend bool operator==(const KnownRange&, const KnownRange&) = default;
};

/// The expected values of one output, or of a part of it. For kArgmax and kArgsort, `source` holds
/// the compared values with the axis last, and `value` the index.
struct Expected {
  std::string name;
  DType dtype = DType::kF32;
  CompareKind compare = CompareKind::kBound;
  Value value;                  ///< err is the tolerance: (propagated bound + rounding) * task.tolerance; for
                                ///< kArgsort that of the value of this rank
  Value source;                 ///< only for kArgmax and kArgsort
  std::size_t line_length = 1;  ///< for kArgsort: elements of the output that belong to one line
  std::size_t line_stride = 1;  ///< for kArgsort: from one of them to the next
  std::vector<KnownRange> known;  ///< whose values these are, in order, none empty; no range: all are known
  std::size_t of = 0;             ///< elements of the output, where there are ranges
  double range_share = 0;  ///< the largest share of its dtype's range that a finite value on the way may
                           ///< take: above 1 it may overflow
  Sums sums = Sums::kUnknown;
  std::vector<double> unrounded;  ///< of long sums of inputs without a structure, in a dtype narrower than
                                  ///< the arithmetic: their errors but for one rounding to it, which must
                                  ///< not hide what they are off by; else empty
  OrderLimit order = {};          ///< for kArgmax and kArgsort

  std::size_t elements() const { return known.empty() ? value.data.size() : of; }
  std::size_t bytes() const { return elements() * info(dtype).bytes; }
  /// Calls visit(KnownRange) for those that hold the known values [begin, begin + count), in order.
  template <class Visit>
  void for_ranges(std::size_t begin, std::size_t count, Visit visit) const {
    if (known.empty()) return visit(KnownRange{begin, count, begin});
    const auto is_behind = [](std::size_t place, const KnownRange& range) { return place < range.value; };
    auto at = std::prev(std::upper_bound(known.begin(), known.end(), begin, is_behind));
    for (const std::size_t end = begin + count; begin < end; ++at) {
      const std::size_t skipped = begin - at->value, here = std::min(end - begin, at->count - skipped);
      visit(KnownRange{at->element + skipped, here, begin});
      begin += here;
    }
  }
};

/// A part of an output, scattered over it: what is left out of the output anywhere is left out of
/// some of it.
struct Part {
  double elements = 0;       ///< about as many, or more
  std::uint64_t secret = 0;  ///< draws where they are
};

/// How many elements of a part are neighbours: enough ranges that none is missed, not so many that
/// fetching them one by one takes long.
std::size_t elements_together(double elements);

/// Ranges that hold `wanted` of `extent` places (at most all), `together` neighbours in each but
/// the last, in order.
std::vector<KnownRange> draw_ranges(std::size_t extent, std::size_t wanted, std::size_t together,
                                    std::uint64_t secret);

/// Evaluates a task in fp64. Thread-safe. Never runs in a process that runs candidate code.
class Reference {
 public:
  virtual ~Reference() = default;
  virtual Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                                 const Numerics& numerics) const = 0;
  /// evaluate() that ends early, with kCancelled, where that is possible.
  virtual Result<std::vector<Expected>> evaluate_unless(const CancelToken& cancel, const BoundTask& task,
                                                        std::span<const HostTensor> inputs,
                                                        const Numerics& numerics) const {
    (void)cancel;
    return evaluate(task, inputs, numerics);
  }
  /// evaluate() for a part of each output. Evaluates everything if the task cannot be sliced
  /// (task/slices.h).
  virtual Result<std::vector<Expected>> evaluate_part(const BoundTask& task,
                                                      std::span<const HostTensor> inputs,
                                                      const Numerics& numerics, const Part& part) const {
    (void)part;
    return evaluate(task, inputs, numerics);
  }
  /// The share of the task that such a part makes up; 1 for the whole.
  virtual double part_share(const BoundTask& task, double elements) const {
    (void)task, (void)elements;
    return 1;
  }
};

/// The arithmetic that kernels of this task may use: a task whose floating-point values are all
/// fp64 must be computed in fp64.
Numerics numerics_for(const TaskSpec& spec, Numerics numerics = {});

/// The same of one node: whole numbers are computed exactly, with the errors of their inputs alone.
Numerics numerics_of(const NodeDecl& node, Numerics numerics);

/// Makes the reference that the task declares; `products`, if given, must outlive it. Errors: a
/// native source that does not compile.
Result<std::unique_ptr<Reference>> make_reference(const TaskSpec& spec, ProductEngine* products = nullptr);

/// Makes a reference from C++ source: `extern "C" void reference(const double* const* in, double*
/// const* out, const long long* dims)`, row-major, in the order of the task's tensors, outputs and
/// dims. The source belongs to the task's author and is trusted; it runs in a child process under a
/// time limit. Without an error analysis, the tolerance of each element is tolerance * (64 u |y| +
/// 8 u max|y|). Errors: the source is missing or does not compile.
Result<std::unique_ptr<Reference>> make_native_reference(const TaskSpec& spec);

/// Options for evaluating a graph.
struct GraphEvaluation {
  std::string_view override_node = {};  ///< if not empty, evaluated by `mutant` instead of its op
  const OpMutant* mutant = nullptr;
  ProductEngine* products = nullptr;
};

/// Every node's value by name, for lint and tests (graph tasks only).
Result<std::map<std::string, Value>> evaluate_graph(const BoundTask& task, std::span<const HostTensor> inputs,
                                                    const Numerics& numerics,
                                                    const GraphEvaluation& how = {});

}  // namespace lathe
