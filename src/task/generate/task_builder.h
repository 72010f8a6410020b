#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "task/generate/generate.h"

namespace lathe {

/// A task under construction. Values have names and extents given by dims; the next step applies to
/// the current value, which is the latest one.
class TaskBuilder {
 public:
  using Extents = std::vector<std::string>;

  TaskBuilder(Rng& rng, std::int64_t max_elements) : rng_(rng), max_elements_(max_elements) {}

  Rng& rng() { return rng_; }
  std::int64_t max_elements() const { return max_elements_; }
  /// Adds a dim with its scored extent and the lowest extent that the graph allows.
  std::string dim(const std::string& stem, std::int64_t extent, std::int64_t low = 1);
  std::int64_t extent(const std::string& dim) const;
  void halve(const std::string& dim);

  /// Adds a tensor; `details` are further keys, such as `role = "parameter"`.
  std::string tensor(const std::string& stem, const Extents& shape, const std::string& details = "");
  std::string parameter(const std::string& stem, const Extents& shape, const std::string& generator = "");
  /// Applies an op to the current value; its result becomes current. `rest` holds further inputs
  /// and attributes.
  void apply(const std::string& op, const std::string& rest = "") { node(op, current_, rest, shape_); }
  void apply_reshaping(const std::string& op, const std::string& rest, Extents shape) {
    node(op, current_, rest, std::move(shape));
  }
  /// Applies an op to another value and returns the result's name; the current value stays.
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

/// Draws one task, which may be degenerate.
TaskBuilder sample_task(Rng& rng, const GenerateOptions& options);

}  // namespace lathe
