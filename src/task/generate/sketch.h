#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/generate/generate.h"

namespace lathe {

/// A task in the making: values are named, have extents as dim names, and the latest one is what the next
/// step works on.
class Sketch {
 public:
  using Extents = std::vector<std::string>;

  Sketch(Rng& rng, std::int64_t max_elements) : rng_(rng), max_elements_(max_elements) {}

  Rng& rng() { return rng_; }
  std::int64_t max_elements() const { return max_elements_; }
  /// A new dim with its scored extent and the lowest one that the graph can bear.
  std::string dim(const std::string& stem, std::int64_t extent, std::int64_t low = 1);
  std::int64_t extent(const std::string& dim) const;
  void halve(const std::string& dim);

  /// A new tensor; `details` are further keys, such as `role = "parameter"`.
  std::string tensor(const std::string& stem, const Extents& shape, const std::string& details = "");
  std::string parameter(const std::string& stem, const Extents& shape, const std::string& generator = "");
  /// Appends a node on the current value and makes its result current. `rest` is what follows the first
  /// input.
  void apply(const std::string& op, const std::string& rest = "") { node(op, current_, rest, shape_); }
  void apply_reshaping(const std::string& op, const std::string& rest, Extents shape) {
    node(op, current_, rest, std::move(shape));
  }
  /// Appends a node on another value and returns its name; the current value stays.
  std::string side_node(const std::string& op, const std::string& input);
  void start(const std::string& name, Extents shape);

  const Extents& shape() const { return shape_; }
  const std::string& last_op() const { return last_op_; }
  int node_count() const { return static_cast<int>(lines_.size()); }
  /// An earlier value of the current shape, or "".
  std::string earlier_of_same_shape();

  std::string to_toml(const std::string& name) const;

 private:
  struct Named {
    std::string name;
    Extents shape;
  };
  struct Dim {
    std::string name;
    std::int64_t extent;
    std::int64_t low;
  };

  void node(const std::string& op, const std::string& input, const std::string& rest, Extents shape);
  std::string fresh(const std::string& stem);

  Rng& rng_;
  std::int64_t max_elements_;
  std::vector<Dim> dims_;
  std::vector<std::string> tensors_;  ///< TOML inline tables
  std::vector<std::string> lines_;
  std::vector<Named> values_;
  std::vector<std::string> names_;
  std::string current_;
  std::string last_op_;
  Extents shape_;
};

/// One attempt; it may turn out degenerate.
Sketch sample_sketch(Rng& rng, const GenerateOptions& options);

}  // namespace lathe
