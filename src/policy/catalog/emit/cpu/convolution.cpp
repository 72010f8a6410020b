#include "policy/catalog/emit/cpu/tile.h"
#include "policy/catalog/emit/epilogue.h"
#include "policy/catalog/emit/loops.h"
#include "policy/catalog/emit/patterns.h"

// Direct convolution over a padded copy of the input. The copy splits rows and columns by their
// remainder modulo the stride, so that each tap reads neighbours, and output positions count
// through padded rows, so that a tile runs across row ends (its few positions between rows are
// computed in vain). A transposed convolution is one of stride 1 over an input spread by zeros,
// with the kernel turned round.

namespace lathe::catalog {
namespace {

Expr number(std::int64_t value) { return Expr::constant(value); }
std::string text(std::int64_t value) { return std::to_string(value); }

/// The input's planes, [N, C, stride, stride, phase rows, phase columns].
constexpr std::string_view kPaddedCopy = R"(
$plane
for (int64_t i = 0; i < $whole_phase_rows; ++i) {
  float* to = $padded + (item * $phase_rows + i) * $phase_columns;
  const int64_t h = i * $stride_height + ph - $before_height;
  if (${outside}h < 0 || h % $spread_height != 0 || h / $spread_height >= $height) {
    fill_row(to, 0.0f, $whole_phase_columns);
    continue;
  }
  const $type* row = from + h / $spread_height * $width;
  $copy_row
}
)";

constexpr std::string_view kPlane = R"(
$pair
const $type* from = $x + $channel * $height * $width;
const int64_t ph = item % $planes / $stride_width, pw = item % $stride_width;
)";

/// A slice of a volume, [N, C, stride, stride, stride, phase slices, phase rows, phase columns].
constexpr std::string_view kPaddedSlice = R"(
const int64_t block = item / $phase_slices, pd = block % $planes / ($stride_height * $stride_width);
const int64_t ph = block % ($stride_height * $stride_width) / $stride_width, pw = block % $stride_width;
const int64_t d = item % $phase_slices * $stride_depth + pd - $before_depth;
$pair
const bool outside = d < 0 || d % $spread_depth != 0 || d / $spread_depth >= $depth;
const $type* from = $x + ($channel * $depth + (outside ? 0 : d / $spread_depth)) * $height * $width;
)";

constexpr std::string_view kCopyRow = R"(
for (int64_t j = 0; j < $whole_phase_columns; j += kLanes) {
  const int64_t w = j * $stride_width + pw - $before_width;
  const maskv in = inside(w, $stride_width, $width);
  store(to + j, $load, first_lanes($whole_phase_columns - j));
}
)";

constexpr std::string_view kSpreadRow = R"(
fill_row(to, 0.0f, $whole_phase_columns);
for (int64_t w = 0; w < $width; ++w) {
  const int64_t j = w * $spread_width + $before_width;
  if (j >= 0 && j < $whole_phase_columns) to[j] = $number;
}
)";

/// [group][panel of kR outputs][tap][kR].
constexpr std::string_view kWeights = R"(
const int64_t group = item / cdiv($outputs, kR), first = item % cdiv($outputs, kR) * kR;
float* to = $packed + item * kR * $taps;
$pack
)";

constexpr std::string_view kPackWeights = R"(
pack_across<kR>(to, $outputs - first, $taps, [&](int64_t r, int64_t k, maskv lanes) {
  return load($w + (group * $outputs + first + r) * $taps + k, lanes);
});
)";

/// Of one tap: inputs follow each other.
constexpr std::string_view kPackPairedPoints = R"(
pack_across<kR>(to, $outputs - first, $taps, [&](int64_t r, int64_t k, maskv lanes) {
  return pairs_along($w + (group * $outputs + first + r) * $inputs + 2 * k, $inputs - 2 * k);
});
)";

/// Pairs of two inputs' taps: one input's follow each other.
constexpr std::string_view kPackPairedWeights = R"(
for (int64_t c = 0; c < $whole_inputs; c += 2)
  pack_across<kR>(to + c / 2 * $area * kR, $outputs - first, $area, [&](int64_t r, int64_t k, maskv lanes) {
    return pairs_across($w + ((group * $outputs + first + r) * $inputs + c) * $area + k, $area, $inputs - c, lanes);
  });
)";

constexpr std::string_view kTurnPairedWeights = R"(
for (int64_t k = 0; k < $taps; ++k)
  for (int64_t r = 0; r < kR; ++r) {
    const int64_t c = k / $area * 2;
    to[k * kR + r] = first + r < $outputs
        ? pair_across($w + ((group * $inputs + c) * $outputs + first + r) * $area + $area - 1 - k % $area,
                      $outputs * $area, $inputs - c)
        : 0.0f;
  }
)";

constexpr std::string_view kTurnWeights = R"(
for (int64_t k = 0; k < $taps; ++k)
  for (int64_t r = 0; r < kR; ++r)
    to[k * kR + r] = first + r < $outputs
        ? $w[((group * $inputs + k / $area) * $outputs + first + r) * $area + $area - 1 - k % $area]
        : 0.0f;
)";

/// The products of one channel's plane, or of a slice of its volume.
constexpr std::string_view kPlaneTaps = R"(
for (int64_t kh = 0; kh < $kernel_height; ++kh) {
  for (int64_t kw = 0; kw < $kernel_width; ++kw) {
    const int64_t u = kh * $dilation_height, v = kw * $dilation_width;
    $multiply(PackedRows{weight, kR},
              WholeColumns{$from + (u % $stride_height * $stride_width + v % $stride_width) * $phase +
                               u / $stride_height * $phase_columns + v / $stride_width,
                           kW},
              $count, acc);
    weight += kR;
  }
}
)";

constexpr std::string_view kVolumeTaps = R"(
for (int64_t kd = 0; kd < $kernel_depth; ++kd) {
  const int64_t s = kd * $dilation_depth;
  const float* slice = channel + s % $stride_depth * $stride_height * $stride_width * $phase +
                       s / $stride_depth * $phase_rows * $phase_columns;
  $taps
}
)";

/// Where a tile's position t lies; the rows between two slices are no outputs.
constexpr std::string_view kPlanePosition = R"(
const int64_t oh = (p + t) / $phase_columns, j0 = (p + t) % $phase_columns;
)";

constexpr std::string_view kVolumePosition = R"(
const int64_t line = (p + t) / $phase_columns, j0 = (p + t) % $phase_columns;
const int64_t od = line / $phase_rows, oh = line % $phase_rows;
if (oh >= $rows) {
  t += ($phase_rows - oh) * $phase_columns - j0;
  continue;
}
)";

/// Tiles of kR outputs by kW positions; what of a tile are outputs, runs of positions inside one
/// output row, goes through the epilogue.
constexpr std::string_view kConvolve = R"(
const int64_t blocks = cdiv($positions, kBlock), n = item / blocks, p0 = item % blocks * kBlock;
for (int64_t group = 0; group < $groups; ++group) {
  const float* image = $padded + (n * $channels + group * $steps) * $plane;
  for (int64_t first = 0; first < $outputs; first += kR) {
    const float* weights = $weights + (group * cdiv($outputs, kR) * kR + first) * $taps;
    for (int64_t p = p0; p < min(p0 + kBlock, $positions); p += kW) {
      f32v acc[kR][kV];
      gemm_clear(acc);
      $begin_parts
      const float* weight = weights;
      for (int64_t c = 0; c < $whole_steps; ++c) {
        const float* channel = image + c * $planes * $phase + p;
        $channel_taps
        $end_part
      }
      $add_parts
      gemm_suspend(acc, &tile[0][0], kW, kR, kW);
      for (int64_t t = 0; t < min(kW, $positions - p);) {
        $position
        if (j0 >= $columns) {
          t += $phase_columns - j0;
          continue;
        }
        const int64_t run = min(min(kW, $positions - p) - t, $columns - j0);
        for (int64_t r = 0; r < min(kR, $whole_outputs - first); ++r) {
          const int64_t oc = group * $outputs + first + r;
          for (int64_t s = 0; s < run; s += kLanes) {
            const int64_t j = j0 + s;
            const maskv lanes = first_lanes(run - s);
            const f32v x = load(&tile[r][t + s], lanes);
            $epilogue
          }
        }
        t += run;
      }
    }
  }
}
)";

/// What makes a long sum of parts, which wait in the tile.
constexpr std::string_view kSuspend = "gemm_suspend(acc, &tile[0][0], kW, kR, kW);\n";
constexpr std::string_view kAddParts = "gemm_add(acc, &tile[0][0], kW, kR, kW);\n";
constexpr std::string_view kEndPart = R"(
if ((c + 1) % $steps_of_part == 0) {
  $add
  $suspend
  gemm_clear(acc);
}
)";

/// The sizes of a convolution over the padded copy.
struct Geometry {
  const Window& window;
  const std::vector<Expr>&x, &w, &y;
  bool volume;                          ///< three axes; else the first of each three below has extent 1
  bool pairs;                           ///< of bf16: two channels are one of the copy
  std::array<Expr, 3> in, kernel, out;  ///< depth, height, width
  std::array<std::int64_t, 3> stride{}, spread{};
  std::array<Expr, 3> before, phase;
  Expr outputs, inputs;  ///< of a group
  Expr steps;            ///< a group's channels of the copy
  Expr taps;             ///< of an output, in steps
  Expr planes;           ///< that a channel is split into
  Expr positions;        ///< of an image's output, gaps between rows and slices among them

  Expr area() const { return kernel[0] * kernel[1] * kernel[2]; }
  Expr channels() const { return pairs ? window.groups * steps : x[1]; }
};

Geometry geometry_of(const Site& site) {
  const Primitive& node = site.node();
  const std::size_t rank = node.type.shape.size();
  const bool pairs = site.graph.type_of(node.in[0]).dtype == DType::kBF16;
  Geometry g{node.window, site.shape_of_input(0), site.shape_of_input(1), node.type.shape, rank == 5, pairs};
  for (std::size_t a = 0; a < 3; ++a) {
    const bool present = a > 0 || g.volume;
    const std::size_t axis = rank - 3 + a;
    g.in[a] = present ? g.x[axis] : number(1);
    g.kernel[a] = present ? g.w[axis] : number(1);
    g.out[a] = present ? g.y[axis] : number(1);
    const Expr reach = (g.kernel[a] - number(1)) * number(g.window.dilation[a]);
    const Expr padding = number(g.window.padding[a]);
    g.stride[a] = g.window.transposed ? 1 : g.window.stride[a];
    g.spread[a] = g.window.transposed ? g.window.stride[a] : 1;
    g.before[a] = g.window.transposed ? reach - padding : padding;
    const Expr needed = (g.out[a] - number(1)) * number(g.stride[a]) + reach + number(1);
    g.phase[a] = Expr::apply("cdiv", needed, number(g.stride[a]));
  }
  g.outputs = Expr::apply("/", g.y[1], g.window.groups);
  g.inputs = Expr::apply("/", g.x[1], g.window.groups);
  g.steps = pairs ? Expr::apply("cdiv", g.inputs, number(2)) : g.inputs;
  g.taps = g.steps * g.kernel[0] * g.kernel[1] * g.kernel[2];
  g.planes = number(g.stride[0] * g.stride[1] * g.stride[2]);
  const Expr rows = g.volume ? (g.out[0] - number(1)) * g.phase[1] + g.out[1] : g.out[1];
  g.positions = (rows - number(1)) * g.phase[2] + g.out[2];
  return g;
}

struct ConvolutionPlan {
  Tile tile;
  int tiles;    ///< of positions, in an item
  double cost;  ///< of the tile, by the model
};

ConvolutionPlan choose_convolution(const Site& site, const Geometry& g) {
  const double m = static_cast<double>(site.headline(g.outputs)),
               n = static_cast<double>(site.headline(g.positions));
  const Tile tile = choose_tile(site, m, n);
  return {tile, site.knob("nc", {1, 2, 4, 8}, 2), tile_cost(tile, site.target.lanes, m, n)};
}

/// What several of the kernels name.
Holes names_of(const Geometry& g) {
  return {{"type", g.pairs ? "bfloat16" : "float"},
          {"outputs", factor(g.outputs)},
          {"inputs", factor(g.inputs)},
          {"whole_inputs", g.inputs.to_string()},
          {"steps", factor(g.steps)},
          {"whole_steps", g.steps.to_string()},
          {"area", factor(g.area())},
          {"taps", factor(g.taps)},
          {"planes", factor(g.planes)},
          {"depth", factor(g.in[0])},
          {"height", factor(g.in[1])},
          {"width", factor(g.in[2])},
          {"rows", factor(g.out[1])},
          {"stride_depth", text(g.stride[0])},
          {"stride_height", text(g.stride[1])},
          {"stride_width", text(g.stride[2])},
          {"spread_depth", text(g.spread[0])},
          {"kernel_depth", g.kernel[0].to_string()},
          {"kernel_height", g.kernel[1].to_string()},
          {"kernel_width", g.kernel[2].to_string()},
          {"dilation_depth", text(g.window.dilation[0])},
          {"dilation_height", text(g.window.dilation[1])},
          {"dilation_width", text(g.window.dilation[2])},
          {"phase", factor(g.phase[0] * g.phase[1] * g.phase[2])},
          {"phase_slices", factor(g.phase[0])},
          {"phase_rows", factor(g.phase[1])},
          {"phase_columns", factor(g.phase[2])},
          {"whole_phase_columns", g.phase[2].to_string()},
          {"before_depth", factor(g.before[0])},
          {"before_width", factor(g.before[2])}};
}

/// The first of two channels, or of one, that are left of a group.
constexpr std::string_view kPair = R"(
const int64_t pair = $item / $planes % $steps * 2, left = $inputs - pair;
const int64_t channel = $item / $planes / $steps * $inputs + pair;
)";

/// How a row is read: numbers, or pairs of two channels.
std::string load_text(const Geometry& g) {
  const std::int64_t stride = g.stride[2];
  if (!g.pairs) return stride == 1 ? "load(row + w, in)" : "load_strided(row + w, " + text(stride) + ", in)";
  const std::string plane = (g.in[0] * g.in[1] * g.in[2]).to_string();
  if (stride == 1) return "pairs_across(row + w, " + plane + ", left, in)";
  return "pairs_across_strided(row + w, " + text(stride) + ", " + plane + ", left, in)";
}

/// Returns the scratch that holds the copy, and what the last tile may read beyond it.
std::string launch_pad(const Site& site, Program& program, const Geometry& g) {
  const Expr plane = g.phase[0] * g.phase[1] * g.phase[2];
  const std::string padded =
      program.scratch(site.prefix + "_padded", g.x[0] * g.channels() * g.planes * plane + number(512));
  const Holes names = names_of(g);
  const std::string plane_of_x = (g.in[0] * g.in[1] * g.in[2]).to_string();
  const std::string number_text = g.pairs ? "pair_across(row + w, " + plane_of_x + ", left)" : "row[w]";
  const std::string copy =
      g.spread[2] == 1
          ? expand(kCopyRow, {{"load", load_text(g)}}, names)
          : expand(kSpreadRow, {{"spread_width", text(g.spread[2])}, {"number", number_text}}, names);
  const std::string item = g.volume ? "block" : "item";
  const std::string pair = g.pairs ? expand(kPair, {{"item", item}}, names) : "";
  const std::string channel = g.pairs ? "channel" : item + " / " + factor(g.planes);
  program.launch(
      {.name = site.prefix + "_pad",
       .items = g.x[0] * g.channels() * g.planes * g.phase[0],
       .written = {padded},
       .body = expand(
           kPaddedCopy,
           {{"plane",
             expand(g.volume ? kPaddedSlice : kPlane,
                    {{"x", program.parameter(site.node().in[0])}, {"pair", pair}, {"channel", channel}},
                    names)},
            {"outside", g.volume ? "outside || " : ""},
            {"padded", "p_" + padded},
            {"whole_phase_rows", g.phase[1].to_string()},
            {"before_height", factor(g.before[1])},
            {"spread_height", text(g.spread[1])},
            {"copy_row", copy}},
           names)});
  return padded;
}

std::string_view weights_text(const Geometry& g) {
  if (g.window.transposed) return g.pairs ? kTurnPairedWeights : kTurnWeights;
  if (!g.pairs) return kPackWeights;
  return is_one(g.area()) ? kPackPairedPoints : kPackPairedWeights;
}

/// Returns the scratch that holds the packed weights.
std::string launch_weights(const Site& site, Program& program, const Geometry& g, const Tile& tile) {
  const Expr items = g.window.groups * Expr::apply("cdiv", g.outputs, number(tile.rows));
  const std::string packed = program.scratch(site.prefix + "_weights", items * number(tile.rows) * g.taps);
  const Holes names = names_of(g);
  const std::string pack = expand(weights_text(g), {{"w", program.parameter(site.node().in[1])}}, names);
  program.launch({.name = site.prefix + "_weights",
                  .items = items,
                  .written = {packed},
                  .body = expand(kWeights, {{"packed", "p_" + packed}, {"pack", pack}}, names),
                  .before = "constexpr int kR = " + text(tile.rows) + ";\n"});
  return packed;
}

void launch_product(const Site& site, Program& program, const Geometry& g, const ConvolutionPlan& plan,
                    const std::string& padded, const std::string& weights) {
  const Holes names = names_of(g);
  std::vector<std::string> indices = {"n", "oc", "oh", "j"};
  if (g.volume) indices.insert(indices.begin() + 2, "od");
  const Epilogue epilogue =
      emit_epilogue(site, program, axis_loops(site.group), indices, site.node().out, "x");
  std::string taps = expand(kPlaneTaps,
                            {{"from", g.volume ? "slice" : "channel"},
                             {"multiply", g.pairs ? "gemm_pairs" : "gemm_tile"},
                             {"count", g.pairs ? "1, 2" : "1"}},
                            names);
  if (g.volume) taps = expand(kVolumeTaps, {{"taps", taps}}, names);
  const bool in_parts = most(site.graph, g.inputs * g.area()) > kSerialTerms;
  const std::int64_t of_step = std::max<std::int64_t>(1, site.headline(g.area())) * (g.pairs ? 2 : 1);
  const std::string suspend(kSuspend), add(kAddParts);
  const std::string end_part =
      expand(kEndPart, {{"steps_of_part", text(std::max<std::int64_t>(1, kPartTerms / of_step))},
                        {"add", add},
                        {"suspend", suspend}});
  const int columns = plan.tile.columns(site.target.lanes) * plan.tiles;
  const std::string before =
      expand(R"(
$tile
constexpr int64_t kBlock = kW * $tiles;
alignas(64) float tile[kR][kW];
)",
             {{"tile", tile_constants(plan.tile, site.target.lanes)}, {"tiles", text(plan.tiles)}});
  program.launch(
      {.name = site.prefix + "_conv",
       .items = g.y[0] * Expr::apply("cdiv", g.positions, number(columns)),
       .written = epilogue.written,
       .body = expand(kConvolve,
                      {{"positions", g.positions.to_string()},
                       {"groups", g.window.groups.to_string()},
                       {"padded", "p_" + padded},
                       {"weights", "p_" + weights},
                       {"channels", factor(g.channels())},
                       {"plane", factor(g.planes * g.phase[0] * g.phase[1] * g.phase[2])},
                       {"columns", factor(g.out[2])},
                       {"channel_taps", taps},
                       {"begin_parts", in_parts ? suspend : ""},
                       {"end_part", in_parts ? end_part : ""},
                       {"add_parts", in_parts ? add : ""},
                       {"position", expand(g.volume ? kVolumePosition : kPlanePosition, {}, names)},
                       {"whole_outputs", g.outputs.to_string()},
                       {"epilogue", epilogue.code}},
                      names),
       .before = before});
}

}  // namespace

Status emit_cpu_convolution(const Site& site, Program& program) {
  const Geometry g = geometry_of(site);
  const ConvolutionPlan plan = choose_convolution(site, g);
  const std::string padded = launch_pad(site, program, g);
  const std::string weights = launch_weights(site, program, g, plan.tile);
  launch_product(site, program, g, plan, padded, weights);
  program.add_pattern(g.window.transposed ? "transposed_conv" : "conv");
  const double width = g.pairs ? 2 : 4;
  program.add_work({.bytes = 2 * width * site.count(g.x) + 4 * site.count(g.y),
                    .flops = 2 * site.count({&g.x[0], 1}) *
                             static_cast<double>(site.headline(g.window.groups * g.taps)) * plan.cost *
                             site.target.lanes});
  return Ok{};
}

}  // namespace lathe::catalog
