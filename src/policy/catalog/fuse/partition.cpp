#include "policy/catalog/fuse/partition.h"

#include <algorithm>
#include <map>
#include <set>

namespace lathe::catalog {
namespace {

/// A kernel takes 24 arguments; the rest is for what its results need on the way.
constexpr std::size_t kMostOperandsAndDims = 18, kMostWithResults = 22;
constexpr std::size_t kMostReals = 8;  // of the operands: a processor passes these in registers

bool takes_epilogue(Kind kind) {
  return kind == Kind::kContract || kind == Kind::kConvolve || kind == Kind::kPool;
}

Placement identity(const std::vector<Expr>& shape) {
  Placement place(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) place[i] = is_one(shape[i]) ? -1 : static_cast<int>(i);
  return place;
}

/// Whether two values run along the same axes; a view may have added or dropped extents of 1.
bool run_alike(Placement a, Placement b) {
  std::erase(a, -1);
  std::erase(b, -1);
  return a == b;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, bool fuse) : graph_(graph), fuse_(fuse) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      for (const std::string& operand : graph.nodes[i].in) readers_[operand].push_back(static_cast<int>(i));
  }

  Partition run() {
    find_dead();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].kind == Kind::kView || dead_.contains(graph_.nodes[i].out)) continue;
      const bool joins = fuse_ && !graph_.nodes[i].apart && join_some_group(static_cast<int>(i));
      if (!joins) start_group(static_cast<int>(i));
    }
    return {std::move(groups_)};
  }

 private:
  const Primitive& node(int index) const { return graph_.nodes[static_cast<std::size_t>(index)]; }

  void find_dead() {
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      const std::string& out = graph_.nodes[i].out;
      const auto used = graph_.consumers(out);
      if (graph_.is_output(out)) continue;
      if (std::ranges::all_of(used, [&](int user) { return dead_.contains(node(user).out); }))
        dead_.insert(out);
    }
  }

  void start_group(int index) {
    const Primitive& start = node(index);
    Group group;
    const bool reduce = start.kind == Kind::kReduce;
    group.space = reduce ? graph_.type_of(start.in[0]).shape : start.type.shape;
    group.reduced.assign(group.space.size(), false);
    if (start.kind == Kind::kApply || reduce) {
      if (reduce) group.places[start.in[0]] = identity(group.space);
      const bool fits = try_add(group, index);
      (void)fits;
    } else {
      group.nodes = {index};
      group.places[start.out] = identity(group.space);
    }
    groups_.push_back(std::move(group));
  }

  /// The group of the producer of `value`, or -1 for the task's inputs.
  int group_of(const std::string& value) const {
    const std::string root = root_of(graph_, value);
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const int index : groups_[g].nodes)
        if (node(index).out == root) return static_cast<int>(g);
    return -1;
  }

  bool join_some_group(int index) {
    const Primitive& joining = node(index);
    if (joining.kind != Kind::kApply && joining.kind != Kind::kReduce) return false;
    std::set<int> producers;
    for (const std::string& operand : joining.in) producers.insert(group_of(operand));
    producers.erase(-1);
    if (producers.empty()) return false;
    const int last = *producers.rbegin();
    producers.erase(last);
    for (const int earlier : producers)
      if (merge(earlier, last)) return join_some_group(index);
    Group grown = groups_[static_cast<std::size_t>(last)];
    if (!try_add(grown, index) || !has_few_arguments(grown)) return false;
    groups_[static_cast<std::size_t>(last)] = std::move(grown);
    return true;
  }

  /// Moves nest `from` into the later nest `into`, if the spaces agree and nobody between reads it.
  bool merge(int from, int into) {
    const Group& a = groups_[static_cast<std::size_t>(from)];
    const Group& b = groups_[static_cast<std::size_t>(into)];
    if (!is_nest(a) || a.space.size() != b.space.size()) return false;
    if (node(a.nodes[0]).exact != node(b.nodes[0]).exact) return false;
    for (std::size_t i = 0; i < a.space.size(); ++i)
      if (!equal(a.space[i], b.space[i])) return false;
    for (int between = from + 1; between < into; ++between)
      for (const int user : groups_[static_cast<std::size_t>(between)].nodes)
        for (const std::string& operand : node(user).in)
          if (group_of(operand) == from) return false;
    if (a.reduces() && (!b.reduces() || a.reduced != b.reduced)) return false;
    if (!is_nest(b) && (a.reduces() || reads(into, from) || !can_end_with_more(b))) return false;
    Group merged = b;
    std::vector<int> order = a.nodes;
    order.insert(order.end(), b.nodes.begin(), b.nodes.end());
    if (is_nest(b)) std::ranges::sort(order);
    if (!is_nest(b)) order = b.nodes, order.insert(order.end(), a.nodes.begin(), a.nodes.end());
    merged.nodes = order;
    for (const auto& [value, place] : a.places) {
      const auto [known, added] = merged.places.emplace(value, place);
      if (!added && known->second != place) return false;
    }
    if (!has_few_arguments(merged)) return false;
    groups_[static_cast<std::size_t>(into)] = std::move(merged);
    groups_.erase(groups_.begin() + from);
    return true;
  }

  bool has_few_arguments(const Group& group) const {
    std::set<std::string> made, arguments;
    for (const int index : group.nodes) made.insert(node(index).out);
    for (const int index : group.nodes) {
      for (const std::string& operand : node(index).in) {
        const std::string root = root_of(graph_, operand);
        if (!made.contains(root) && !graph_.iotas.contains(root)) arguments.insert(root);
        for (const Expr& extent : graph_.type_of(operand).shape) arguments.merge(extent.symbols());
      }
    }
    const auto reals = std::ranges::count_if(
        arguments, [&](const std::string& argument) { return is_real_scalar(argument); });
    const auto results =
        std::ranges::count_if(made, [&](const std::string& value) { return is_needed_outside(made, value); });
    return static_cast<std::size_t>(reals) <= kMostReals && arguments.size() <= kMostOperandsAndDims &&
           arguments.size() + static_cast<std::size_t>(results) <= kMostWithResults;
  }

  bool is_real_scalar(const std::string& value) const {
    const TensorDecl* tensor = graph_.task->find_tensor(value);
    return tensor != nullptr && tensor->role == Role::kScalar && info(tensor->dtype).is_float;
  }

  /// Whether the value, or a view of it, is an output or read by a node that is not among `made`.
  bool is_needed_outside(const std::set<std::string>& made, const std::string& value) const {
    if (graph_.is_output(value)) return true;
    const auto readers = readers_.find(value);
    if (readers == readers_.end()) return false;
    return std::ranges::any_of(readers->second, [&](int index) {
      const Primitive& reader = node(index);
      if (dead_.contains(reader.out)) return false;
      return reader.kind == Kind::kView ? is_needed_outside(made, reader.out) : !made.contains(reader.out);
    });
  }

  bool reads(int reader, int program) const {
    for (const int user : groups_[static_cast<std::size_t>(reader)].nodes)
      for (const std::string& operand : node(user).in)
        if (group_of(operand) == program) return true;
    return false;
  }

  bool is_nest(const Group& group) const {
    const Kind kind = node(group.nodes[0]).kind;
    return kind == Kind::kApply || kind == Kind::kReduce;
  }

  /// Whether the special primitive that the group is made of computes elementwise ones as well.
  bool can_end_with_more(const Group& group) const {
    const Primitive& special = node(group.nodes[0]);
    return takes_epilogue(special.kind) && !special.exact;
  }

  /// Adds the node if its loops are the group's; on failure the group is unspecified.
  bool try_add(Group& group, int index) const {
    const Primitive& joining = node(index);
    const bool special = !group.nodes.empty() && !is_nest(group);
    if (!group.nodes.empty() && node(group.nodes[0]).exact != joining.exact) return false;
    if (special && (!can_end_with_more(group) || joining.kind != Kind::kApply)) return false;
    for (const std::string& operand : joining.in)
      if (!operand_is_reachable(group, operand)) return false;
    const bool added = joining.kind == Kind::kReduce ? add_reduce(group, joining) : add_apply(group, joining);
    if (!added) return false;
    if (special && !run_alike(group.places.at(joining.out), group.places.at(node(group.nodes[0]).out)))
      return false;
    group.nodes.push_back(index);
    return true;
  }

  /// A value that the group computes must be read as such, not through a reshaping view.
  bool operand_is_reachable(const Group& group, const std::string& operand) const {
    const std::string root = root_of(graph_, operand);
    const bool inside = std::ranges::any_of(group.nodes, [&](int index) { return node(index).out == root; });
    return !inside || computed_in(graph_, group, operand) != nullptr;
  }

  /// Where a value runs, if the group knows: through views that add or drop extents of 1.
  std::optional<Placement> known_place(const Group& group, const std::string& value) const {
    const auto found = group.places.find(value);
    if (found != group.places.end()) return found->second;
    const Primitive* inside = computed_in(graph_, group, value);
    if (inside == nullptr) return std::nullopt;
    Placement used;
    for (const int axis : group.places.at(inside->out))
      if (axis >= 0) used.push_back(axis);
    Placement place;
    std::size_t next = 0;
    for (const Expr& extent : graph_.type_of(value).shape) {
      if (is_one(extent)) place.push_back(-1);
      if (!is_one(extent)) place.push_back(next < used.size() ? used[next++] : -1);
    }
    return place;
  }

  bool add_reduce(Group& group, const Primitive& reduce) const {
    const auto place = known_place(group, reduce.in[0]);
    if (!place) return false;
    std::vector<bool> reduced(group.space.size(), false);
    Placement result;
    for (std::size_t i = 0; i < place->size(); ++i) {
      const bool gone = std::ranges::find(reduce.axes, static_cast<int>(i)) != reduce.axes.end();
      if (gone && (*place)[i] >= 0) reduced[static_cast<std::size_t>((*place)[i])] = true;
      if (!gone) result.push_back((*place)[i]);
      if (gone && reduce.type.shape.size() == place->size()) result.push_back(-1);
    }
    if (group.reduces() && group.reduced != reduced) return false;
    for (std::size_t axis = 0; axis < reduced.size(); ++axis)
      if (reduced[axis] && std::ranges::find(*place, static_cast<int>(axis)) == place->end()) return false;
    group.reduced = reduced;
    group.places[reduce.out] = result;
    return true;
  }

  bool add_apply(Group& group, const Primitive& apply) const {
    const std::vector<Expr>& shape = apply.type.shape;
    Placement place(shape.size(), -1);
    for (const std::string& operand : apply.in) {
      const auto known = known_place(group, operand);
      if (!known) continue;
      const std::size_t shift = shape.size() - known->size();
      for (std::size_t i = 0; i < known->size(); ++i) {
        if ((*known)[i] < 0) continue;
        if (place[i + shift] == (*known)[i]) continue;
        // A column and the same values as a row run along one axis of the group, and a table's two.
        if (place[i + shift] >= 0 || std::ranges::find(place, (*known)[i]) != place.end()) return false;
        place[i + shift] = (*known)[i];
      }
    }
    if (!complete(group, shape, place)) return false;
    for (const std::string& operand : apply.in) {
      const std::vector<Expr>& own = graph_.type_of(operand).shape;
      Placement aligned(own.size());
      for (std::size_t i = 0; i < own.size(); ++i)
        aligned[i] = is_one(own[i]) ? -1 : place[i + shape.size() - own.size()];
      if (computed_in(graph_, group, operand) != nullptr) continue;
      const auto [known, added] = group.places.emplace(operand, aligned);
      if (!added && known->second != aligned) return false;
    }
    group.places[apply.out] = place;
    return true;
  }

  /// Gives the axes that no operand fixed to equal axes of the space at the same distance from the
  /// end.
  static bool complete(const Group& group, const std::vector<Expr>& shape, Placement& place) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (place[i] >= 0 || is_one(shape[i])) continue;
      const auto axis =
          static_cast<std::int64_t>(i + group.space.size()) - static_cast<std::int64_t>(shape.size());
      if (axis < 0 || !equal(group.space[static_cast<std::size_t>(axis)], shape[i])) return false;
      if (std::ranges::find(place, static_cast<int>(axis)) != place.end()) return false;
      place[i] = static_cast<int>(axis);
    }
    return true;
  }

  const Graph& graph_;
  bool fuse_;
  std::vector<Group> groups_;
  std::set<std::string> dead_;
  std::map<std::string, std::vector<int>> readers_;  // of each value
};

}  // namespace

Partition partition(const Graph& graph, bool fuse) { return Partitioner(graph, fuse).run(); }

}  // namespace lathe::catalog
