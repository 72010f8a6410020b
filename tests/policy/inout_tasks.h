#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "task/spec.h"

namespace lathe {

/// Graphs that overwrite tensors which they also read, before, in between and after.
inline std::vector<TaskSpec> inout_tasks() {
  struct Case {
    std::string name, tensors, graph, outputs;
  };
  const auto inout = [](const std::string& name, const std::string& shape = "[\"m\", \"n\"]") {
    return "{ name = \"" + name + "\", role = \"inout\", shape = " + shape + " }, ";
  };
  const auto plain = [](const std::string& name, const std::string& shape = "[\"m\", \"n\"]",
                        const std::string& more = "") {
    return "{ name = \"" + name + "\", shape = " + shape + more + " }, ";
  };
  const std::string row = "[\"n\"]", square = "[\"n\", \"n\"]",
                    above_zero = ", gen = { kind = \"positive\", scale = 1.0 }";
  const std::vector<Case> cases = {
      {"norm_of_the_new_value", inout("r") + plain("x") + plain("g", row),
       "r = add(r, x)\ny = rms_norm(r, g)", "r y"},
      {"layer_norm_of_the_new_value", inout("r") + plain("x"), "r = add(r, x)\ny = layer_norm(r)", "r y"},
      {"softmax_of_the_new_value", inout("r") + plain("x"), "r = add(r, x)\ny = softmax(r)", "r y"},
      {"momentum", inout("v") + inout("p") + plain("g"),
       "a = scale(v, by = 0.9)\nv = add(a, g)\ns = scale(v, by = 0.1)\np = sub(p, s)", "v p"},
      {"two_moments",
       inout("m1") +
           "{ name = \"m2\", role = \"inout\", shape = [\"m\", \"n\"], gen = { kind = \"positive\" } }, " +
           inout("p") + plain("g"),
       "a = scale(m1, by = 0.9)\nb = scale(g, by = 0.1)\nm1 = add(a, b)\nq = square(g)\nc = scale(m2, by = "
       "0.99)\nd = scale(q, by = 0.01)\nm2 = add(c, d)\ne = sqrt(m2)\nf = add_scalar(e, by = 0.1)\nu = "
       "div(m1, "
       "f)\np = sub(p, u)",
       "m1 m2 p"},
      {"old_and_new", inout("r") + plain("x"), "a = scale(r, by = 2.0)\nr = add(r, x)\ny = sub(r, a)", "r y"},
      {"old_sum_and_new", inout("r") + plain("x"),
       "s = sum(r, axis = -1, keepdims = true)\nr = add(r, x)\ny = mul(r, s)", "r y"},
      {"old_value_behind_a_sum_of_the_new", inout("r") + plain("x"),
       "a = scale(r, by = 2.0)\nr = add(r, x)\ns = sum(r, axis = -1, keepdims = true)\ny = sub(a, s)", "r y"},
      {"divided_by_its_norm", inout("r") + plain("x"),
       "a = add(r, x)\nl = l1_norm(a, axis = -1, keepdims = true)\nr = div(a, l)\nq = square(r)\ny = sum(q, "
       "axis "
       "= -1)",
       "r y"},
      {"columns", inout("r") + plain("x"), "r = add(r, x)\nc = mean(r, axis = 0)\ny = sub(r, c)", "r y"},
      {"columns_in_three_passes", inout("r") + plain("x"),
       "r = add(r, x)\nc = mean(r, axis = 0)\nd = sub(r, c)\nq = square(d)\nv = mean(q, axis = 0)\ny = "
       "mul(r, v)",
       "r y"},
      {"running_mean", inout("r", row) + plain("x"),
       "c = mean(x, axis = 0)\na = scale(r, by = 0.9)\nb = scale(c, by = 0.1)\nr = add(a, b)\ny = sub(x, c)",
       "r y"},
      {"running_mean_that_is_used", inout("r", row) + plain("x"),
       "c = mean(x, axis = 0)\nr = add(r, c)\ny = sub(x, r)", "r y"},
      {"running_row_mean_that_is_used", inout("r", "[\"m\", 1]") + plain("x"),
       "c = mean(x, axis = 1, keepdims = true)\nr = add(r, c)\ny = sub(x, r)", "r y"},
      {"running_row_sum", inout("r", "[\"m\"]") + plain("x"), "c = sum(x, axis = 1)\nr = add(r, c)", "r"},
      {"decay_beside_a_sum", inout("r", "[\"m\", 1]") + plain("x"),
       "r = scale(r, by = 0.5)\na = mul(x, r)\ny = sum(a, axis = 1)", "r y"},
      {"stretched_new", inout("s", row) + plain("b", row) + plain("x"), "s = add(s, b)\ny = add(x, s)",
       "s y"},
      {"stretched_old", inout("s", row) + plain("b", row) + plain("x"), "y = add(x, s)\ns = add(s, b)",
       "s y"},
      {"costly_in_place", inout("r"), "r = exp(r)\ns = sum(r, axis = -1, keepdims = true)\ny = div(r, s)",
       "r y"},
      {"softmax_in_place", inout("r") + plain("x"), "r = softmax(r)\na = mul(r, x)\ny = sum(a, axis = -1)",
       "r y"},
      {"norm_in_place", inout("r"), "r = layer_norm(r)", "r"},
      {"product_in_place", inout("r", square) + plain("w", square), "r = matmul(r, w)\ny = relu(r)", "r y"},
      {"right_product_in_place", inout("r", square) + plain("w", square), "r = matmul(w, r)", "r"},
      {"accumulated_product", inout("c") + plain("a", "[\"m\", 20]") + plain("b", "[20, \"n\"]"),
       "h = matmul(a, b)\nc = add(c, h)\ny = relu(c)", "c y"},
      {"deep_accumulated_product", inout("c") + plain("a", "[\"m\", 600]") + plain("b", "[600, \"n\"]"),
       "h = matmul(a, b)\nc = add(h, c)", "c"},
      {"old_operand_of_a_product", inout("r") + plain("w", square) + plain("x"),
       "h = matmul(r, w)\nr = add(r, x)\ny = relu(h)", "r y"},
      {"new_operand_of_a_product", inout("r") + plain("w", square) + plain("x"),
       "r = add(r, x)\nh = matmul(r, w)\ny = relu(h)", "r y"},
      {"product_added_to_its_operand", inout("r", square) + plain("w", square),
       "h = matmul(r, w)\nr = add(r, h)", "r"},
      {"transposed_in_place", inout("r", square), "r = transpose(r)", "r"},
      {"added_to_its_transpose", inout("r", square), "t = transpose(r)\nr = add(r, t)", "r"},
      {"flipped_in_place", inout("r"), "r = flip(r, axis = 0)", "r"},
      {"flipped_rows_in_place", inout("r"), "r = flip(r, axis = 1)\ny = scale(r, by = 2.0)", "r y"},
      {"running_sum_in_place", inout("r"), "r = cumsum(r, axis = -1)", "r"},
      {"running_sum_of_columns_in_place", inout("r"), "r = cumsum(r, axis = 0)\ny = neg(r)", "r y"},
      {"triangle_in_place", inout("r", square), "r = tril(r)", "r"},
      {"old_under_another_shape", inout("r") + plain("x"),
       "y = reshape(r, shape = [\"m * n\"])\nr = add(r, x)", "y r"},
      {"new_under_another_shape", inout("r") + plain("x"),
       "r = add(r, x)\ny = reshape(r, shape = [\"m * n\"])", "y r"},
      {"turned_by_a_view", inout("r", square) + plain("x", "[\"n * n\"]"),
       "f = reshape(r, shape = [\"n * n\"])\nh = add(f, x)\nr = reshape(h, shape = [\"n\", \"n\"])", "r"},
      {"counted", inout("total", "[1]") + plain("x"),
       "s = sum(x)\nt = reshape(s, shape = [1])\ntotal = add(total, t)", "total"},
      {"pooled_into", inout("r", "[1, 2, \"m\", \"n\"]") + plain("x", "[1, 2, \"m\", \"n\"]"),
       "p = max_pool2d(x, kernel = 3, stride = 1, padding = 1)\nr = add(r, p)\ny = relu(r)", "r y"},
      {"pooled_in_place", inout("r", "[1, 2, \"m\", \"n\"]"),
       "r = avg_pool2d(r, kernel = 3, stride = 1, padding = 1)", "r"},
      {"convolved_into",
       inout("r", "[1, 2, \"m\", \"n\"]") + plain("x", "[1, 3, \"m\", \"n\"]") + plain("w", "[2, 3, 3, 3]"),
       "h = conv2d(x, w, padding = 1)\nr = add(r, h)", "r"},
      {"convolved_in_place", inout("r", "[1, 2, \"m\", \"n\"]") + plain("w", "[2, 2, 3, 3]"),
       "h = conv2d(r, w, padding = 1)\nr = add(r, h)", "r"},
      {"diagonal_of_an_old_vector",
       inout("v", row) + plain("b", row, above_zero) + plain("x", "[\"n\", \"m\"]"),
       "d = diag(v)\nv = add(v, b)\ny = matmul(d, x)", "v y"},
      {"names_of_others", inout("r") + plain("r_written") + plain("r_written_t0"),
       "r_t0 = softmax(r_written)\nr = mul(r, r_t0)\nr_written_copied = flip(r, axis = 0)\ny = "
       "add(r_written_copied, "
       "r_written_t0)",
       "r y"},
  };
  std::vector<TaskSpec> tasks;
  for (const Case& one : cases) {
    std::string outputs;
    for (std::size_t at = 0; at < one.outputs.size();) {
      const std::size_t end = std::min(one.outputs.find(' ', at), one.outputs.size());
      outputs += (at == 0 ? "{ name = \"" : ", { name = \"") + one.outputs.substr(at, end - at) + "\" }";
      at = end + 1;
    }
    const auto task =
        parse_task("name = \"" + one.name + "\"\ndims = { m = [1, 40], n = [1, 90] }\ntensor = [" +
                       one.tensors + "]\ngraph = \"\"\"\n" + one.graph + "\n\"\"\"\noutput = [" + outputs +
                       "]\nshape = [{ m = 9, n = 70 }]\n",
                   one.name + ".toml");
    EXPECT_TRUE(task.ok()) << one.name << ": " << task.error().to_string();
    if (task.ok()) tasks.push_back(*task);
  }
  return tasks;
}

}  // namespace lathe
