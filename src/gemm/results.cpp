#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "base/statistics.h"
#include "gemm/bench.h"

namespace lathe::gemm {
namespace {

constexpr const char* kTimes[] = {"ours_ns",         "dispatched_ns", "cublas_ns",     "lt_heuristic_ns",
                                  "lt_autotuned_ns", "torch_ns",      "vendor_best_ns"};

/// How times were taken: a prefix of columns, and where they stand.
struct Protocol {
  const char* prefix;
  ContenderTimes Row::*times;
};
constexpr Protocol kProtocols[] = {
    {"", &Row::warm}, {"cold_", &Row::cold}, {"offline_", &Row::offline}, {"server_", &Row::server}};

std::string header() {
  std::string text = "m,n,k,kernel,fallback";
  for (const Protocol& protocol : kProtocols)
    for (const char* time : kTimes) text += fmt::format(",{}{}", protocol.prefix, time);
  return text +
         ",host_ours_ns,host_lt_autotuned_ns,ratio_low,ratio_high,sm_mhz,lt_choice,ours_w,lt_w,throttle";
}

/// Empty for what was not measured.
std::string field(double value, int digits) { return value > 0 ? fmt::format("{:.{}f}", value, digits) : ""; }

std::string fields(const ContenderTimes& t) {
  std::string text;
  for (const double ns :
       {t.ours, t.dispatched, t.cublas, t.lt_heuristic, t.lt_autotuned, t.torch, t.vendor_best()})
    text += "," + field(ns, 1);
  return text;
}

bool parse(const std::string& text, double& value) {
  value = 0;
  if (text.empty()) return true;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= 0;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == ',')
      cells.emplace_back();
    else
      cells.back() += c;
  return cells;
}

std::map<std::string, std::size_t> columns_of(const std::string& line) {
  std::map<std::string, std::size_t> columns;
  for (const std::string& name : split(line)) columns.emplace(name, columns.size());
  return columns;
}

/// A line of a table, its cells by the names of their columns.
class Cells {
 public:
  Cells(const std::map<std::string, std::size_t>& columns, const std::vector<std::string>& cells)
      : columns_(columns), cells_(cells) {}
  /// Empty where the table lacks the column, as older ones do.
  std::string text(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? "" : cells_[found->second];
  }
  bool number(const std::string& column, double& value) const { return parse(text(column), value); }
  bool size(Size& size) const {
    double m = 0, n = 0, k = 0;
    if (!number("m", m) || !number("n", n) || !number("k", k)) return false;
    size = {static_cast<std::int64_t>(m), static_cast<std::int64_t>(n), static_cast<std::int64_t>(k)};
    return true;
  }
  bool times(const std::string& prefix, ContenderTimes& t) const {
    double ignored = 0;
    return number(prefix + "ours_ns", t.ours) && number(prefix + "dispatched_ns", t.dispatched) &&
           number(prefix + "cublas_ns", t.cublas) && number(prefix + "lt_heuristic_ns", t.lt_heuristic) &&
           number(prefix + "lt_autotuned_ns", t.lt_autotuned) && number(prefix + "torch_ns", t.torch) &&
           number(prefix + "vendor_best_ns", ignored);
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  const std::vector<std::string>& cells_;
};

double ratio(const Row& row) { return row.warm.lt_autotuned / row.warm.ours; }
double cold_ratio(const Row& row) { return row.cold.lt_autotuned / row.cold.ours; }
double best_ratio(const Row& row) { return row.warm.vendor_best() / row.warm.ours; }

using Rows = std::vector<const Row*>;

/// "| 1.12 | 75% | 10% | 0.81 |": geometric mean, wins, losses, the worst decile's edge.
std::string figures(const Rows& rows, const std::function<double(const Row&)>& ratio_of) {
  std::vector<double> ratios;
  for (const Row* row : rows)
    if (const double r = ratio_of(*row); std::isfinite(r) && r > 0) ratios.push_back(r);
  if (ratios.empty()) return " - | - | - | - |";
  const auto share = [&](auto test) {
    return 100.0 * static_cast<double>(std::count_if(ratios.begin(), ratios.end(), test)) /
           static_cast<double>(ratios.size());
  };
  return fmt::format(" {:.3f} | {:.0f}% | {:.0f}% | {:.3f} |", geometric_mean(ratios),
                     share([](double r) { return r > 1.02; }), share([](double r) { return r < 0.98; }),
                     quantile(ratios, 0.1));
}

constexpr const char* kFigures =
    "geomean | wins > 1.02 | losses < 0.98 | worst decile |\n|---|---|---|---|---|---|\n";

std::string work_of(const Row& row) {
  return fmt::format("1e{:.0f} to 1e{:.0f}", std::floor(std::log10(flop_of(row.size))),
                     std::floor(std::log10(flop_of(row.size))) + 1);
}

std::string grouped(const Rows& rows, const char* what,
                    const std::function<std::string(const Row&)>& group_of) {
  std::map<std::string, Rows> groups;
  std::vector<std::string> order;
  for (const Row* row : rows) {
    const std::string group = group_of(*row);
    if (!groups.contains(group)) order.push_back(group);
    groups[group].push_back(row);
  }
  std::string text = fmt::format("\n| {} | sizes | {}", what, kFigures);
  for (const std::string& group : order)
    text += fmt::format("| {} | {} |{}\n", group, groups[group].size(), figures(groups[group], ratio));
  return text;
}

std::string line_of(const Row& row) {
  return fmt::format("| {} | {:.3f} | {:.3f} to {:.3f} | {:.2f} | {:.2f} | {:.2f} | `{}` |\n",
                     name_of(row.size), ratio(row), row.ratio_low, row.ratio_high, row.warm.ours / 1e3,
                     row.warm.lt_autotuned / 1e3, row.warm.vendor_best() / 1e3, row.kernel);
}

}  // namespace

std::string csv_of(const std::vector<Row>& rows) {
  std::string text = header() + "\n";
  for (const Row& row : rows) {
    text += fmt::format("{},{},{},{},{}", row.size.m, row.size.n, row.size.k, row.kernel, row.fallback);
    for (const Protocol& protocol : kProtocols) text += fields(row.*protocol.times);
    text +=
        fmt::format(",{},{},{},{},{},{},{},{},{}\n", field(row.host_ours, 1), field(row.host_lt_autotuned, 1),
                    field(row.ratio_low, 4), field(row.ratio_high, 4), field(row.sm_mhz, 0), row.lt_choice,
                    field(row.ours_w, 1), field(row.lt_w, 1), row.throttle);
  }
  return text;
}

Result<std::vector<Row>> rows_of_csv(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto columns = columns_of(line);
  for (const char* needed : {"m", "n", "k", "kernel", "ours_ns"})
    if (!columns.contains(needed))
      return invalid("not a table of lathe gemm bench", "its first line must be: " + header(), {path, 1, 0});
  std::vector<Row> rows;
  for (int number = 2; std::getline(lines, line); ++number) {
    const std::vector<std::string> all = split(line);
    const Cells cells(columns, all);
    Row row;
    bool right = all.size() == columns.size() && cells.size(row.size);
    for (const Protocol& protocol : kProtocols)
      right = right && cells.times(protocol.prefix, row.*protocol.times);
    right = right && cells.number("host_ours_ns", row.host_ours) &&
            cells.number("host_lt_autotuned_ns", row.host_lt_autotuned) &&
            cells.number("ratio_low", row.ratio_low) && cells.number("ratio_high", row.ratio_high) &&
            cells.number("sm_mhz", row.sm_mhz) && cells.number("ours_w", row.ours_w) &&
            cells.number("lt_w", row.lt_w) && row.warm.ours > 0;
    if (!right) return invalid("this line is no row of the table", {}, {path, number, 0});
    row.kernel = cells.text("kernel"), row.fallback = cells.text("fallback");
    row.lt_choice = cells.text("lt_choice"), row.throttle = cells.text("throttle");
    rows.push_back(std::move(row));
  }
  return rows;
}

Status add_torch_times(std::vector<Row>& rows, const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto columns = columns_of(line);
  for (const char* needed : {"m", "n", "k", "dispatched_ns", "torch_ns"})
    if (!columns.contains(needed))
      return invalid("not a table of bench/torch/gemm.py",
                     "its first line must name m, n, k, dispatched_ns and torch_ns", {path, 1, 0});
  for (int number = 2; std::getline(lines, line); ++number) {
    const std::vector<std::string> all = split(line);
    const Cells cells(columns, all);
    Row found;
    bool right = all.size() == columns.size() && cells.size(found.size);
    for (const Protocol& protocol : kProtocols) {
      ContenderTimes& times = found.*protocol.times;
      right = right && cells.number(std::string(protocol.prefix) + "dispatched_ns", times.dispatched) &&
              cells.number(std::string(protocol.prefix) + "torch_ns", times.torch);
    }
    if (!right) return invalid("this line is no row of the table", {}, {path, number, 0});
    for (Row& row : rows) {
      if (row.size != found.size) continue;
      for (const Protocol& protocol : kProtocols) {
        const ContenderTimes& times = found.*protocol.times;
        if (times.dispatched > 0) (row.*protocol.times).dispatched = times.dispatched;
        if (times.torch > 0) (row.*protocol.times).torch = times.torch;
      }
    }
  }
  return Ok{};
}

std::string summary_of(const std::vector<Row>& all, int sm_count) {
  Rows rows;
  for (const Row& row : all)
    if (row.warm.lt_autotuned > 0) rows.push_back(&row);
  std::string text = fmt::format("| {} sizes: the kernel against | sizes | {}", rows.size(), kFigures);
  const auto total = [&](const char* what, const std::function<double(const Row&)>& of) {
    text += fmt::format("| {} | {} |{}\n", what, rows.size(), figures(rows, of));
  };
  total("cuBLASLt autotuned", ratio);
  total("the vendor's best", best_ratio);
  total("cuBLASLt heuristic", [](const Row& r) { return r.warm.lt_heuristic / r.warm.ours; });
  total("cuBLAS", [](const Row& r) { return r.warm.cublas / r.warm.ours; });
  total("torch.matmul", [](const Row& r) { return r.warm.torch / r.warm.ours; });
  total("cuBLASLt autotuned, cold", cold_ratio);
  if (std::any_of(rows.begin(), rows.end(), [](const Row* row) { return row->offline.ours > 0; })) {
    total("cuBLASLt autotuned, offline",
          [](const Row& r) { return r.offline.lt_autotuned / r.offline.ours; });
    total("torch.matmul, offline", [](const Row& r) { return r.offline.torch / r.offline.ours; });
    total("cuBLASLt autotuned, server", [](const Row& r) { return r.server.lt_autotuned / r.server.ours; });
    total("torch.matmul, server", [](const Row& r) { return r.server.torch / r.server.ours; });
    std::vector<double> ours, theirs;
    for (const Row* row : rows) ours.push_back(row->host_ours), theirs.push_back(row->host_lt_autotuned);
    text += fmt::format("\nOf offline calls the host's part, medians: {:.2f} us, cuBLASLt's {:.2f} us.\n",
                        median(ours) / 1e3, median(theirs) / 1e3);
  }

  Rows by_ratio = rows;
  std::stable_sort(by_ratio.begin(), by_ratio.end(),
                   [](const Row* a, const Row* b) { return ratio(*a) < ratio(*b); });
  constexpr const char* kHeader =
      "| M x N x K | over autotuned | 95% interval | ours us | autotuned us | vendor's best us | kernel |\n"
      "|---|---|---|---|---|---|---|\n";
  text += "\n## Losses\n\n";
  const auto losses =
      std::find_if(by_ratio.begin(), by_ratio.end(), [](const Row* row) { return ratio(*row) >= 0.98; });
  if (losses == by_ratio.begin()) {
    text += "None below 0.98.\n";
  } else {
    text += kHeader;
    for (auto row = by_ratio.begin(); row != losses && row - by_ratio.begin() < 40; ++row)
      text += line_of(**row);
    if (losses - by_ratio.begin() > 40)
      text += fmt::format("\n{} in all; the CSV has the others.\n", losses - by_ratio.begin());
  }
  text += "\n## By family and by work\n";
  text += grouped(rows, "family", [&](const Row& row) {
    return std::string(1, static_cast<char>(family_of(row.size, sm_count)));
  });
  text += grouped(rows, "FLOP", work_of);
  text += "\n## The largest gains\n\n";
  text += kHeader;
  for (std::size_t i = 0; i < std::min<std::size_t>(10, by_ratio.size()); ++i)
    text += line_of(*by_ratio[by_ratio.size() - 1 - i]);
  return text;
}

}  // namespace lathe::gemm
