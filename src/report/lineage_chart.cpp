#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "report/charts.h"
#include "report/html.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kNodeWidth = 190, kNodeHeight = 46, kGapX = 22, kGapY = 34, kMargin = 10;
constexpr std::size_t kMaxNodes = 60;

struct Node {
  const Experience* experience;
  int generation = 0;  ///< 0 for those without a parent in the picture
  double x = 0;
  double y = 0;
};

/// The nearest ancestors of the best kernel and itself, oldest evaluation first.
std::vector<Node> ancestry(const RunView& view) {
  std::set<const Experience*> seen = {view.best};
  std::deque<const Experience*> queue = {view.best};
  while (!queue.empty() && seen.size() < kMaxNodes) {
    const Experience* e = queue.front();
    queue.pop_front();
    for (const Digest& parent : e->lineage.parents) {
      const auto found = view.by_candidate.find(parent);
      if (found != view.by_candidate.end() && seen.insert(found->second).second)
        queue.push_back(found->second);
    }
  }
  std::vector<Node> nodes;
  for (const Experience* e : seen) nodes.push_back({.experience = e});
  // The best kernel may have been measured again later than its children: it still comes last.
  std::sort(nodes.begin(), nodes.end(), [&](const Node& a, const Node& b) {
    return std::pair(a.experience == view.best, a.experience->sequence) <
           std::pair(b.experience == view.best, b.experience->sequence);
  });
  return nodes;
}

Node* find(std::vector<Node>& nodes, const Digest& candidate) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return node.experience->candidate == candidate; });
  return found == nodes.end() ? nullptr : &*found;
}

/// Generations run downwards. Returns the picture's size.
std::pair<double, double> place(std::vector<Node>& nodes) {
  std::vector<int> width_of;
  for (Node& node : nodes) {
    for (const Digest& parent : node.experience->lineage.parents) {
      if (const Node* above = find(nodes, parent); above && above < &node)
        node.generation = std::max(node.generation, above->generation + 1);
    }
    if (width_of.size() <= static_cast<std::size_t>(node.generation)) width_of.resize(node.generation + 1, 0);
    node.x = kMargin + (kNodeWidth + kGapX) * width_of[node.generation]++;
    node.y = kMargin + (kNodeHeight + kGapY) * node.generation;
  }
  const int widest = *std::max_element(width_of.begin(), width_of.end());
  for (Node& node : nodes) node.x += (widest - width_of[node.generation]) * (kNodeWidth + kGapX) / 2;
  return {2 * kMargin + widest * (kNodeWidth + kGapX) - kGapX,
          2 * kMargin + static_cast<double>(width_of.size()) * (kNodeHeight + kGapY) - kGapY};
}

void draw_edges(Svg& svg, std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    for (const Digest& parent : node.experience->lineage.parents) {
      const Node* above = find(nodes, parent);
      if (above == nullptr || above >= &node) continue;
      const double x1 = above->x + kNodeWidth / 2, y1 = above->y + kNodeHeight;
      const double x2 = node.x + kNodeWidth / 2, bend = (y1 + node.y) / 2;
      svg.path(fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, x1, bend, x2,
                           bend, x2, node.y),
               "edge");
    }
  }
}

void draw_node(Svg& svg, const RunView& view, const Node& node) {
  const Experience& e = *node.experience;
  const bool best = &e == view.best;
  const auto ratio = view.speedup(e);
  const std::string title = fmt::format("#{} {}", e.sequence + 1, e.lineage.operation);
  const std::string result =
      e.verdict.passed() && ratio ? format_ratio(ratio->mid) : std::string(name(e.verdict.outcome));
  svg.rect(node.x, node.y, kNodeWidth, kNodeHeight, best ? "node node-best" : "node",
           fmt::format("{}\n{} by {}\n{}", e.candidate.short_hex(), e.lineage.operation, e.lineage.policy,
                       e.lineage.description));
  svg.text(node.x + 10, node.y + 19, shorten(title, 20), "label");
  svg.text(node.x + kNodeWidth - 10, node.y + 19, result, "label strong", "end");
  svg.text(node.x + 10, node.y + 36, shorten(e.lineage.description, 28), "tick");
}

}  // namespace

std::string lineage_chart(const RunView& view) {
  if (view.best == nullptr) return "<p class=\"empty\">No kernel has passed.</p>\n";
  std::vector<Node> nodes = ancestry(view);
  const auto [width, height] = place(nodes);
  Svg svg(width, height, "Ancestors of the best kernel, the oldest at the top", static_cast<int>(0.8 * width),
          static_cast<int>(width));
  draw_edges(svg, nodes);
  for (const Node& node : nodes) draw_node(svg, view, node);
  return svg.finish();
}

}  // namespace lathe
