#include "baseline/naive/emitters.h"

namespace lathe::naive {
namespace {

/// What every body may name: $x and $y are element i of the line, $n is its length, and $add_...
/// adds a sum over the line to `sum`.
Holes line_fields(const Site& site, const Lines& lines) {
  Holes fields = {{"begin", lines.begin},
                  {"n", lines.length.to_string()},
                  {"count", factor(lines.length)},
                  {"first", site.in[0].at(lines.at("0"))},
                  {"x", site.in[0].at(lines.at("i"))},
                  {"y", site.out.at(lines.at("i"))},
                  {"type", site.out.compute_type()},
                  {"eps", literal(site.attrs.real("eps", 1e-5))}};
  const auto add = [&](std::string_view term) {
    return sum_loop(site, "i", lines.length, expand(term, {}, fields));
  };
  const std::string values = add("sum += $x;\n");
  const std::string squares = add("sum += $x * $x;\n");
  const std::string deviations = add("sum += ($x - mean) * ($x - mean);\n");
  const std::string exponentials = add("sum += lathe::exp($x - peak);\n");
  const std::string stored = add("$y = lathe::exp($x - peak);\nsum += $y;\n");
  fields.insert(fields.end(), {{"add_values", values},
                               {"add_squares", squares},
                               {"add_deviations", deviations},
                               {"add_exponentials", exponentials},
                               {"add_stored_exponentials", stored}});
  return fields;
}

Lines lines_of(const Site& site) {
  const std::size_t axis = site.axis("axis", -1, site.out.rank());
  return lines_along(site.out, axis, axis);
}

/// From `axis` to the end: what layer_norm and rms_norm normalise.
Lines tail_lines_of(const Site& site) {
  return lines_along(site.out, site.axis("axis", -1, site.out.rank()),
                     static_cast<std::size_t>(site.out.rank() - 1));
}

constexpr std::string_view kPeak = R"(
$begin
$type peak = $first;
for (int64_t i = 1; i < $n; ++i) peak = $x > peak ? $x : peak;
$type sum = 0;
)";

/// Heapsort of `item`s in the result: the last of the order is at the heap's top. `before` compares
/// $a with $b.
std::string heapsort(const Site& site, const Lines& lines, std::string_view item, std::string_view start,
                     std::string_view before) {
  const auto at = [&](std::string_view index) { return site.out.at(lines.at(index)); };
  return expand(R"(
$begin
for (int64_t i = 0; i < $n; ++i) $y = $start;
for (int64_t start = $count / 2, size = $count; size > 1;) {
  $item value;
  if (start > 0) {
    value = $root_before;
  } else {
    --size;
    value = $last;
    $last = $top;
  }
  int64_t root = start > 0 ? --start : 0;
  for (int64_t child; (child = 2 * root + 1) < size; root = child) {
    $item largest = $child;
    if (child + 1 < size) {
      const $item other = $next;
      if ($other_is_later) largest = other, ++child;
    }
    if (!($value_is_before)) break;
    $root = largest;
  }
  $root = value;
}
)",
                {{"item", std::string(item)},
                 {"start", std::string(start)},
                 {"root_before", at("(start - 1)")},
                 {"last", at("size")},
                 {"top", at("0")},
                 {"child", at("child")},
                 {"next", at("(child + 1)")},
                 {"root", at("root")},
                 {"other_is_later", expand(before, {{"a", "largest"}, {"b", "other"}})},
                 {"value_is_before", expand(before, {{"a", "value"}, {"b", "largest"}})}},
                line_fields(site, lines));
}

}  // namespace

/// Exponentials wait in the result, unless its dtype is too narrow for them.
LoopNest emit_softmax(const Site& site) {
  const Lines lines = lines_of(site);
  if (site.out.c_type() != site.out.compute_type())
    return {lines.count, expand(std::string(kPeak) + R"($add_exponentials
for (int64_t i = 0; i < $n; ++i) $y = lathe::exp($x - peak) / sum;
)",
                                {}, line_fields(site, lines))};
  return {lines.count, expand(std::string(kPeak) + R"($add_stored_exponentials
for (int64_t i = 0; i < $n; ++i) $y = $y / sum;
)",
                              {}, line_fields(site, lines))};
}

LoopNest emit_log_softmax(const Site& site) {
  const Lines lines = lines_of(site);
  return {lines.count, expand(std::string(kPeak) + R"($add_exponentials
const $type scale = lathe::log(sum);
for (int64_t i = 0; i < $n; ++i) $y = $x - peak - scale;
)",
                              {}, line_fields(site, lines))};
}

LoopNest emit_layer_norm(const Site& site) {
  const Lines lines = tail_lines_of(site);
  Holes fields = line_fields(site, lines);
  fields.emplace_back("gamma", site.in.size() > 1 ? " * " + site.in[1].at("i") : "");
  fields.emplace_back("beta", site.in.size() > 2 ? " + " + site.in[2].at("i") : "");
  return {lines.count, expand(R"(
$begin
$type sum = 0;
$add_values
const $type mean = sum / $count;
sum = 0;
$add_deviations
const $type scale = 1 / lathe::sqrt(sum / $count + $eps);
for (int64_t i = 0; i < $n; ++i) $y = ($x - mean) * scale$gamma$beta;
)",
                              {}, fields)};
}

LoopNest emit_rms_norm(const Site& site) {
  const Lines lines = tail_lines_of(site);
  Holes fields = line_fields(site, lines);
  fields.emplace_back("gamma", site.in.size() > 1 ? " * " + site.in[1].at("i") : "");
  return {lines.count, expand(R"(
$begin
$type sum = 0;
$add_squares
const $type scale = 1 / lathe::sqrt(sum / $count + $eps);
for (int64_t i = 0; i < $n; ++i) $y = $x * scale$gamma;
)",
                              {}, fields)};
}

LoopNest emit_l2_normalize(const Site& site) {
  const Lines lines = lines_of(site);
  Holes fields = line_fields(site, lines);
  fields.emplace_back("least", literal(site.attrs.real("eps", 1e-12)));
  return {lines.count, expand(R"(
$begin
$type sum = 0;
$add_squares
const $type scale = lathe::max(lathe::sqrt(sum), $least);
for (int64_t i = 0; i < $n; ++i) $y = $x / scale;
)",
                              {}, fields)};
}

/// One group of channels of one image an item; they lie side by side.
LoopNest emit_group_norm(const Site& site) {
  const Expr channels = site.out.shape[1];
  const Expr groups =
      site.op.name() == "instance_norm" ? channels : site.expression("groups", Expr::constant(1));
  const Expr group_channels = site.op.name() == "instance_norm" ? Expr::constant(1) : channels / groups;
  const Expr area = site.out.count(2, site.out.rank());
  const Lines lines{site.out.shape[0] * groups, group_channels * area,
                    "const int64_t base = item * " + factor(group_channels * area) + ";\n", ""};
  Holes fields = line_fields(site, lines);
  fields.emplace_back("groups", factor(groups));
  fields.emplace_back("channels", factor(group_channels));
  fields.emplace_back("area", factor(area));
  fields.emplace_back("gamma", site.in.size() > 1 ? " * " + site.in[1].at("k") : "");
  fields.emplace_back("beta", site.in.size() > 2 ? " + " + site.in[2].at("k") : "");
  return {lines.count, expand(R"(
$begin
$type sum = 0;
$add_values
const $type mean = sum / $count;
sum = 0;
$add_deviations
const $type scale = 1 / lathe::sqrt(sum / $count + $eps);
for (int64_t i = 0; i < $n; ++i) {
  const int64_t k = item % $groups * $channels + i / $area;
  $y = ($x - mean) * scale$gamma$beta;
}
)",
                              {}, fields)};
}

LoopNest emit_scan(const Site& site) {
  const Lines lines = lines_of(site);
  Holes fields = line_fields(site, lines);
  const std::string_view op = site.op.name();
  const bool sum = op == "cumsum", extremum = op == "cummax" || op == "cummin";
  const bool reverse = site.attrs.flag("reverse", false);
  const std::string last = factor(lines.length) + " - 1";
  fields.emplace_back("i", reverse ? last + " - k" : "k");
  const std::string start = site.in[0].at(lines.at(reverse ? "(" + last + ")" : "0"));
  fields.emplace_back("start", op == "logcumsumexp" ? "-__builtin_inff()"
                               : extremum           ? start
                               : sum                ? "0"
                                                    : "1");
  const std::string order = op == "cummax" ? ">" : "<";
  const std::string join =
      op == "logcumsumexp"
          ? "const $type larger = lathe::max(running, next), apart = lathe::abs(running - next);\n"
            "running = apart < __builtin_inff() ? larger + lathe::log1p(lathe::exp(-apart)) : larger;"
      : extremum ? "running = next " + order + " running || next != next ? next : running;"
      : sum      ? "running += next;"
                 : "running *= next;";
  const bool in_parts = sum && needs_parts(site, lines.length);
  const std::string store = in_parts ? "$y = before + running;" : "$y = running;";
  const bool exclusive = site.attrs.flag("exclusive", false);
  fields.emplace_back("one", expand(exclusive ? store : join, {}, fields));
  fields.emplace_back("other", expand(exclusive ? join : store, {}, fields));
  fields.emplace_back("before", in_parts ? expand("$type before = 0;\n", {}, fields) : "");
  fields.emplace_back("part", in_parts ? expand("if (k % $part == 0) before += running, running = 0;\n",
                                                {{"part", std::to_string(kSerialTerms)}})
                                       : "");
  return {lines.count, expand(R"(
$begin
$type running = $start;
$before
for (int64_t k = 0; k < $n; ++k) {
  const int64_t i = $i;
  const $type next = $x;
  $part
  $one
  $other
}
)",
                              {}, fields)};
}

LoopNest emit_linear_scan(const Site& site) {
  const Lines lines = lines_of(site);
  const bool reverse = site.attrs.flag("reverse", false);
  return {lines.count, expand(R"(
$begin
$type state = 0;
for (int64_t k = 0; k < $n; ++k) {
  const int64_t i = $i;
  state = $x * state + $added;
  $y = state;
}
)",
                              {{"i", reverse ? factor(lines.length) + " - 1 - k" : "k"},
                               {"added", site.in[1].at(lines.at("i"))}},
                              line_fields(site, lines))};
}

/// NaN is above all numbers.
LoopNest emit_sort(const Site& site) {
  const Lines lines = lines_of(site);
  const std::string_view before = site.attrs.flag("descending", false) ? "$a > $b || ($a != $a && $b == $b)"
                                                                       : "$a < $b || ($b != $b && $a == $a)";
  return {lines.count, heapsort(site, lines, site.out.compute_type(), site.in[0].at(lines.at("i")), before)};
}

/// Of equal values the first comes first.
LoopNest emit_argsort(const Site& site) {
  const Lines lines = lines_of(site);
  const std::string x = site.in[0].at(lines.at("$i"));
  const std::string p = expand(x, {{"i", "$a"}}), q = expand(x, {{"i", "$b"}});
  const bool descending = site.attrs.flag("descending", false);
  const std::string before = expand(
      "$low < $high || ($high != $high && $low == $low) || "
      "(!($high < $low) && ($low != $low) == ($high != $high) && $a < $b)",
      {{"low", descending ? q : p}, {"high", descending ? p : q}}, {{"a", "$a"}, {"b", "$b"}});
  return {lines.count, heapsort(site, lines, "int64_t", "i", before)};
}

}  // namespace lathe::naive
