#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "task/spec.h"

namespace lathe {

/// Ops that no shipped task has, over the dims m, n and k; those that also compute from positions
/// or numbers are of fp32 alone.
inline std::vector<TaskSpec> op_tasks(const std::string& dtype = "fp32") {
  struct Case {
    std::string name, tensors, graph, outputs = "y";
  };
  const auto plain = [&](const std::string& name, const std::string& shape = "[\"m\", \"n\"]",
                         const std::string& more = "") {
    const bool fixed = more.find("role") != more.npos || more.find("dtype") != more.npos;
    const std::string type = !fixed ? ", dtype = \"" + dtype + "\"" : "";
    return "{ name = \"" + name + "\", shape = " + shape + more + type + " }, ";
  };
  const std::string square = "[2, \"n\", \"n\"]", rows = "r = iota(shape = [\"n\", 1], axis = 0)\n",
                    columns = "c = iota(shape = [\"n\"])\n";
  const std::vector<Case> cases = {
      {"sliding_window", plain("s", square),
       rows + columns +
           "d = sub(r, c)\na = abs(d)\nseen = lt(a, value = 5)\nlow = full(shape = [1], value = -inf)\n"
           "t = where(seen, s, low)\ny = softmax(t)"},
      {"linear_biases",
       plain("q", "[3, \"n\", 16]") + plain("keys", "[3, \"n\", 16]") + plain("slope", "[3, 1, 1]"),
       rows + columns +
           "d = sub(c, r)\ns = matmul(q, keys, transpose_b = true)\nb = mul(d, slope)\nt = add(s, b)\n"
           "y = softmax(t)"},
      {"rotary_angles", plain("a") + plain("b"),
       "p = iota(shape = [\"m\", 1], axis = 0)\ni = iota(shape = [\"n\"])\ne = scale(i, by = -0.1)\nf = "
       "exp(e)\n"
       "w = mul(p, f)\nc = cos(w)\ns = sin(w)\n"
       "ac = mul(a, c)\nbs = mul(b, s)\nas = mul(a, s)\nbc = mul(b, c)\nleft = sub(ac, bs)\nright = add(as, "
       "bc)\n"
       "y = concat(left, right)"},
      {"positions_in_memory", plain("x"),
       "p = iota(shape = [\"m\", \"n\"])\nf = reshape(p, shape = [\"n\", \"m\"])\nt = transpose(f)\n"
       "y = mul(x, t)"},
      {"positions_of_channels", plain("x", "[\"m\", 5, \"n\"]"),
       "p = iota(shape = [5])\nh = bias_add(x, p, axis = 1)\ny = relu(h)"},
      {"positions_of_one_axis_of_three", plain("x"),
       "p = iota(shape = [3, \"m\", \"n\"], axis = 1)\nh = scale(p, by = 0.5)\ny = mul(h, x)"},
      {"added_to_zeros",
       plain("x") + plain("i", "[\"m\"]", ", role = \"index\", gen = { kind = \"index\", limit = 7 }"),
       "z = full(shape = [7, \"n\"], value = 0)\ny = scatter_add(z, i, x)"},
      {"rolled", plain("x"), "p = roll(x, shift = 3)\ny = roll(p, axis = 0, shift = \"-n\")"},
      {"rolled_planes", plain("x", "[2, \"m\", \"n\", 3]"),
       "p = roll(x, axis = 1, shift = \"-k\")\nq = roll(p, axis = 2, shift = \"-k\")\ny = relu(q)"},
      {"tiled", plain("x"), "p = tile(x, times = \"k\")\ny = tile(p, axis = 0, times = 2)"},
      {"interleaved", plain("x"),
       "p = repeat_interleave(x, times = \"k\")\nq = exp(p)\ny = repeat_interleave(q, axis = 0, times = 3)"},
      {"repeated_after_a_sum", plain("x", "[3, \"m\", \"n\"]"),
       "e = exp(x)\ns = sum(e, axis = 2)\nt = repeat_interleave(s, axis = 1, times = 4)\ny = tile(t, axis = "
       "0, "
       "times = \"k\")"},
      {"repeated_product", plain("a", "[\"m\", 20]") + plain("b", "[20, \"n\"]"),
       "h = matmul(a, b)\nt = repeat_interleave(h, axis = 0, times = 2)\ny = relu(t)"},
      {"rows_in_range",
       plain("x") + plain("s", "[\"m\", \"n\"]", ", dtype = \"bool\", gen = { kind = \"zeros_ones\" }"),
       "a = lt(x, value = 2.5)\ninside = all(a, axis = 1)\nsome = any(s, axis = 0)\nnone = any(s)\n"
       "kept = any(s, axis = 1, keepdims = true)\nz = neg(x)\ny = where(kept, x, z)",
       "inside some none y"},
      {"log_add", plain("x") + plain("b", "[\"n\"]"), "h = logaddexp(x, b)\ny = logaddexp(h, x)"},
      {"pairs_of_what_was_added", plain("x", "[\"m\", 1]") + plain("z", "[\"m\", 1]"),
       "h = add(x, z)\nr = reshape(h, shape = [\"m\"])\nl = min(h, r)\ny = sub(l, h)"},
      {"pairs_of_sums", plain("x"),
       "s = sum(x, axis = 1, keepdims = true)\nr = reshape(s, shape = [\"m\"])\ny = sub(s, r)"},
      {"columns_one_after_another", plain("x", "[\"m\", 4]"),
       "a = slice(x, stop = 1)\nh = scale(a, by = 0.3)\ng = exp(h)\nb = slice(x, start = 1, stop = 2)\n"
       "y = mul(g, b)"},
      {"pools_of_whole_planes", plain("x", "[2, \"k\", \"m\", \"n\"]"),
       "a = adaptive_avg_pool2d(x, size = 1)\nb = adaptive_max_pool2d(x, size = [1, 1])\ny = sub(b, a)"},
      {"pools_of_even_windows", plain("x", "[2, \"k\", \"3 * m\", \"n\"]"),
       "a = adaptive_avg_pool2d(x, size = [\"m\", \"n\"])\ny = adaptive_max_pool2d(a, size = [\"m\", 1])"},
      {"pools_of_even_lines", plain("x", "[2, 3, 28]"), "y = adaptive_avg_pool1d(x, size = 7)"},
      {"pools_of_even_boxes", plain("x", "[1, \"k\", 4, 6, \"2 * n\"]"),
       "y = adaptive_max_pool3d(x, size = [2, 2, \"n\"])"},
      {"pools_that_overlap", plain("x", "[2, \"k\", \"m + 1\", \"n + 3\"]"),
       "y = adaptive_avg_pool2d(x, size = [2, 3])"},
      {"nearest", plain("x", "[2, \"k\", \"m\", \"n\"]"),
       "a = relu(x)\nb = upsample_nearest2d(a, size = [\"2 * m\", \"3 * n\"])\ny = neg(b)"},
      {"nearest_of_a_line", plain("x", "[\"k\", \"m\", \"n\"]"),
       "y = upsample_nearest1d(x, size = [\"n * 4\"])"},
      {"nearest_by_fractions", plain("x", "[2, \"k\", \"m\", \"n\"]"),
       "y = upsample_nearest2d(x, size = [\"3 * m / 2\", \"n + 1\"])"},
      {"bilinear", plain("x", "[2, \"k\", \"m\", \"n\"]"),
       "y = upsample_bilinear2d(x, size = [\"2 * m\", \"n + 5\"])"},
      {"linear", plain("x", "[2, \"k\", \"n\"]"),
       "a = exp(x)\nb = upsample_linear1d(a, size = [\"n + m\"])\ny = neg(b)"},
      {"bilinear_between_corners", plain("x", "[2, \"k\", \"m\", \"n\"]"),
       "y = upsample_bilinear2d(x, size = [1, \"3 * n / 2\"], align_corners = true)"},
      {"bilinear_downwards", plain("x", "[2, \"k\", \"2 * m\", \"n + 30\"]"),
       "y = upsample_bilinear2d(x, size = [\"m\", 11])"},
      {"trilinear_pixels", plain("x", "[1, 2, \"k\", \"m\", \"n\"]"),
       "y = upsample_trilinear3d(x, size = [4, \"m + 2\", \"2 * n\"])"},
      {"trilinear", plain("x", "[1, 2, \"k\", \"m\", \"n\"]"),
       "y = upsample_trilinear3d(x, size = [4, \"m + 2\", \"2 * n\"], align_corners = true)"},
      {"counts", plain("x") + plain("z", "[\"m\", \"n\"]", ", gen = { kind = \"positive\" }"),
       "y = poisson_nll_loss(x, z)"},
      {"soft_margins", plain("x") + plain("z"), "y = soft_margin_loss(x, z)"},
      {"likelihood",
       plain("x") + plain("i", "[\"m\"]", ", role = \"index\", gen = { kind = \"index\", limit = \"n\" }"),
       "p = log_softmax(x)\ny = nll_loss(p, i)"},
      {"triplets", plain("a") + plain("p") + plain("b"), "y = triplet_margin_loss(a, p, b, margin = 0.5)"},
      {"cosines", plain("x") + plain("z"),
       "a = cosine_similarity(x, z)\nb = cosine_similarity(x, z, axis = 0, keepdims = true)", "a b"},
      {"cosine_loss", plain("x") + plain("z"),
       "a = cosine_similarity(x, z)\nb = scale(a, by = -1)\nc = add_scalar(b, by = 1)\ny = mean(c)"},
      {"scattered",
       plain("x", "[\"m + 5\", \"n\"]") + plain("z") +
           plain("i", "[\"m\"]",
                 ", role = \"index\", gen = { kind = \"index\", limit = \"m + 5\", order = \"distinct\" }"),
       "y = scatter(x, i, z)"},
      {"scattered_columns",
       plain("x", "[\"n\"]") + plain("z", "[\"n\"]") +
           plain("i", "[\"n\"]",
                 ", dtype = \"int64\", role = \"index\", gen = { kind = \"index\", limit = \"n\", order = "
                 "\"distinct\" }"),
       "h = exp(z)\ns = scatter(x, i, h)\ny = neg(s)"},
      {"scattered_in_place",
       "{ name = \"r\", role = \"inout\", dtype = \"" + dtype + "\", shape = [\"n\", \"m\"] }, " +
           plain("z", "[1, \"m\"]") +
           plain("i", "[1]",
                 ", role = \"index\", gen = { kind = \"index\", limit = \"n\", order = \"distinct\" }"),
       "h = relu(z)\nr = scatter(r, i, h)", "r"},
      {"segments_of_a_vector",
       plain("x", "[\"100 * n\"]") + plain("o", "[\"k + 1\"]",
                                           ", dtype = \"int64\", role = \"index\", gen = { kind = \"index\", "
                                           "limit = \"100 * n\", order = \"offsets\" }"),
       "e = exp(x)\ns = segment_sum(e, o)\ny = log1p(s)"},
      {"largest_of_segments",
       plain("x") +
           plain("o", "[\"k + 1\"]",
                 ", role = \"index\", gen = { kind = \"index\", limit = \"m\", order = \"offsets\" }"),
       "e = neg(x)\ny = segment_max(e, o)"},
      {"largest_of_places",
       plain("x") + plain("i", "[\"m\"]", ", role = \"index\", gen = { kind = \"index\", limit = 7 }"),
       "z = full(shape = [7, \"n\"], value = -2)\ny = scatter_max(z, i, x)"},
      {"columns", plain("x", "[2, 3, \"m\", \"n\"]"),
       "a = relu(x)\nc = unfold(a, kernel = [3, 2], padding = 1, stride = [1, 2])\ny = neg(c)"},
      {"columns_and_back", plain("x", "[2, 3, \"m\", \"n\"]"),
       "c = unfold(x, kernel = 3, padding = 2, dilation = 2)\ne = mul(c, c)\n"
       "y = fold(e, kernel = 3, padding = 2, dilation = 2, size = [\"m\", \"n\"])"},
      {"running_sums_of_exponentials", plain("x"), "y = logcumsumexp(x)"},
      {"sampled_planes", plain("x", "[2, 3, \"m\", \"n\"]") + plain("g", "[2, \"n\", \"m\", 2]"),
       "a = grid_sample(x, g)\nb = grid_sample(x, g, mode = \"nearest\", padding = \"border\")\ny = add(a, "
       "b)"},
      {"cubic_planes", plain("x", "[2, 3, \"m\", \"n\"]"),
       "y = upsample_bicubic2d(x, size = [\"2 * m\", \"n + 5\"])"},
      {"segments",
       plain("x") +
           plain("o", "[\"k + 1\"]",
                 ", role = \"index\", gen = { kind = \"index\", limit = \"m\", order = \"offsets\" }"),
       "y = segment_sum(x, o)"},
      {"selective_scan", plain("x", "[2, \"m\", \"n\"]") + plain("d", "[2, \"m\", \"n\"]"),
       "s = softplus(d)\ng = neg(s)\na = exp(g)\nb = mul(s, x)\nh = linear_scan(a, b, axis = 1)\ny = "
       "silu(h)"},
      {"linear_scan_from_the_end", plain("x") + plain("d"),
       "a = sigmoid(d)\ny = linear_scan(a, x, reverse = true)"},
      {"weighted_by_position", plain("x"), "p = iota(shape = [\"n\"])\nw = mul(x, p)\ny = sum(w, axis = 1)"},
  };
  std::vector<TaskSpec> tasks;
  for (const Case& one : cases) {
    std::string outputs;
    for (std::size_t at = 0; at < one.outputs.size();) {
      const std::size_t end = std::min(one.outputs.find(' ', at), one.outputs.size());
      outputs += (at == 0 ? "{ name = \"" : ", { name = \"") + one.outputs.substr(at, end - at) + "\" }";
      at = end + 1;
    }
    const auto task = parse_task(
        "name = \"" + one.name + "\"\ndims = { m = [1, 40], n = [1, 90], k = [1, 6] }\ntensor = [" +
            one.tensors + "]\ngraph = \"\"\"\n" + one.graph + "\n\"\"\"\noutput = [" + outputs +
            "]\nshape = [{ m = 9, n = 70, k = 3 }]\n",
        one.name + ".toml");
    EXPECT_TRUE(task.ok() || dtype != "fp32") << one.name << ": " << task.error().to_string();
    if (task.ok()) tasks.push_back(*task);
  }
  return tasks;
}

}  // namespace lathe
