#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"

namespace lathe {
namespace {

constexpr double kNodeWidth = 190, kNodeHeight = 46, kGapX = 22, kGapY = 22, kMargin = 10;
constexpr double kSide = 60;  // room for edges that skip generations
constexpr std::size_t kMaxShownNodes = 60;

struct Node {
  const Experience* experience;
  int generation = 0;  ///< 0 if no parent is shown
  double x = 0;
  double y = 0;
};

/// The nearest ancestors of the best kernel and itself, oldest evaluation first.
std::vector<Node> ancestry(const RunView& view) {
  std::set<const Experience*> seen = {view.best};
  std::deque<const Experience*> queue = {view.best};
  while (!queue.empty() && seen.size() < kMaxShownNodes) {
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
  // The best kernel may have been measured again after its children were; it still comes last.
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

/// Lays out the best kernel on top and older generations below. Returns the chart's size.
std::pair<double, double> place(std::vector<Node>& nodes) {
  std::vector<int> width_of;
  for (Node& node : nodes) {
    for (const Digest& parent : node.experience->lineage.parents) {
      if (const Node* older = find(nodes, parent); older && older < &node)
        node.generation = std::max(node.generation, older->generation + 1);
    }
    if (width_of.size() <= static_cast<std::size_t>(node.generation)) width_of.resize(node.generation + 1, 0);
    node.x = kMargin + (kNodeWidth + kGapX) * width_of[node.generation]++;
  }
  const int last = static_cast<int>(width_of.size()) - 1;
  const int widest = *std::max_element(width_of.begin(), width_of.end());
  for (Node& node : nodes) {
    node.x += kSide + (widest - width_of[node.generation]) * (kNodeWidth + kGapX) / 2;
    node.y = kMargin + (kNodeHeight + kGapY) * (last - node.generation);
  }
  return {2 * (kMargin + kSide) + widest * (kNodeWidth + kGapX) - kGapX,
          2 * kMargin + (last + 1) * (kNodeHeight + kGapY) - kGapY};
}

/// An edge to the previous generation is a short curve; one that skips generations goes around the
/// side.
std::string edge_path(const Node& older, const Node& node) {
  if (node.generation == older.generation + 1) {
    const double x1 = node.x + kNodeWidth / 2, y1 = node.y + kNodeHeight, x2 = older.x + kNodeWidth / 2;
    const double bend = (y1 + older.y) / 2;
    return fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, x1, bend, x2, bend,
                       x2, older.y);
  }
  const double x1 = node.x + kNodeWidth, y1 = node.y + kNodeHeight / 2;
  const double x2 = older.x + kNodeWidth, y2 = older.y + kNodeHeight / 2;
  const double out = std::max(x1, x2) + std::min(kSide, 14.0 + 8 * (node.generation - older.generation));
  return fmt::format("M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x1, y1, out, y1, out, y2, x2,
                     y2);
}

void draw_edges(Svg& svg, std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    for (const Digest& parent : node.experience->lineage.parents) {
      if (const Node* older = find(nodes, parent); older && older < &node)
        svg.path(edge_path(*older, node), "edge");
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
  Svg svg(width, height, "The best kernel and its ancestors, the oldest at the bottom",
          static_cast<int>(0.8 * width), static_cast<int>(width));
  draw_edges(svg, nodes);
  for (const Node& node : nodes) draw_node(svg, view, node);
  return "<div class=\"lineage\">" + svg.finish() + "</div>\n";
}

}  // namespace lathe
