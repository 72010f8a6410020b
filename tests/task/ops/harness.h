#pragma once

#include <functional>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/op.h"

namespace lathe {

/// What a test's own formula computes with: T is double for the truth, float for an honest fp32
/// kernel.
template <class T>
struct Array {
  Shape shape;
  std::vector<T> data;

  std::int64_t extent(int axis) const {
    return shape[static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(shape.size()) : axis)];
  }
  /// Element at a row-major index.
  template <class... Index>
  T at(Index... index) const {
    const std::int64_t indices[] = {static_cast<std::int64_t>(index)...};
    std::int64_t flat = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + indices[axis];
    return data[static_cast<std::size_t>(flat)];
  }
  T operator[](std::int64_t flat) const { return data[static_cast<std::size_t>(flat)]; }
  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
};

/// Adds terms up in a random order, as some kernel may.
struct Summer {
  Rng rng{Seed::from_number(1)};

  template <class T>
  T sum(std::vector<T> terms) {
    rng.shuffle(terms);
    return std::accumulate(terms.begin(), terms.end(), T(0));
  }
};

/// How a case draws its inputs: uniform in [low, high], or whole numbers in [0, limit).
struct Draw {
  double low = -2;
  double high = 2;
  std::int64_t index_limit = 0;
  Order order = Order::kAny;  ///< of indices
  bool binary = false;
  std::optional<DType> whole = {};  ///< whole numbers of the dtype in [low, high]
};
inline constexpr Draw kPositive{0.1, 2};

template <class T>
using Formula = std::function<std::vector<T>(const std::vector<Array<T>>&, Summer&)>;

/// One op at one site, with a formula written down a second time.
struct OpCase {
  std::string label;
  std::string op;
  std::vector<Shape> in;
  Attrs attrs;
  Formula<double> truth;
  Formula<float> kernel;
  std::vector<Draw> draws;       ///< for each input; the last serves the rest
  double looseness = 200;        ///< the bound may be this many times the largest error seen
  bool ill_conditioned = false;  ///< sums cancel, so the bound says little about one sample
};

inline void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.label; }

/// `formula` is generic: it is called with vectors of Array<double> and of Array<float>.
template <class Generic>
OpCase make_case(std::string op, std::vector<Shape> in, Attrs attrs, Generic formula) {
  OpCase result;
  result.label = op;
  result.op = std::move(op);
  result.in = std::move(in);
  result.attrs = std::move(attrs);
  result.truth = formula;
  result.kernel = formula;
  return result;
}

/// Attrs from pairs: attrs({{"axis", 1}}).
struct AttrPair {
  AttrPair(std::string n, int v) : name(std::move(n)), value(std::int64_t{v}) {}
  AttrPair(std::string n, double v) : name(std::move(n)), value(v) {}
  AttrPair(std::string n, bool v) : name(std::move(n)), value(v) {}
  AttrPair(std::string n, const char* v) : name(std::move(n)), value(std::string(v)) {}
  AttrPair(std::string n, std::vector<std::int64_t> v) : name(std::move(n)), value(std::move(v)) {}
  AttrPair(std::string n, std::vector<std::string> v) : name(std::move(n)), value(std::move(v)) {}
  std::string name;
  AttrValue value;
};
Attrs attrs(std::vector<AttrPair> pairs);

/// The result of infer for inputs of fixed extents; those drawn with an index_limit are int64,
/// binary ones bool.
Result<SymbolicType> infer(const Op& op, const Attrs& attrs, const std::vector<SymbolicType>& in);
SymbolicType fixed_type(const Shape& shape, DType dtype = DType::kF32);
Shape shape_of(const SymbolicType& type);

/// Inputs that fp32 holds exactly.
std::vector<Value> draw_inputs(const OpCase& op_case, Rng& rng);
OpSite site_of(const OpCase& op_case);
Value evaluate(const OpCase& op_case, const std::vector<Value>& in, const Numerics& numerics);
std::vector<const Value*> pointers(const std::vector<Value>& values);

std::vector<OpCase> elementwise_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> rowwise_cases();
std::vector<OpCase> contraction_cases();
std::vector<OpCase> stencil_cases();
std::vector<OpCase> move_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> all_cases();

}  // namespace lathe
