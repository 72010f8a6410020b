// What the references of one trial cost at each scored shape of a task: on the host's processors,
// in slices, and with a device's products; and how far apart both are, in tolerances.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/clock.h"
#include "bench/device.h"
#include "gym/bench_shape.h"
#include "task/slices.h"

namespace lathe {
namespace {

struct Timed {
  std::vector<Expected> expected;
  double seconds = 0;
};

Result<Timed> evaluate(const Reference& reference, const BoundTask& task,
                       std::span<const HostTensor> inputs) {
  Timed timed;
  const std::int64_t begin_ns = steady_clock().now_ns();
  LATHE_TRY(timed.expected, reference.evaluate(task, inputs, Numerics{}));
  timed.seconds = seconds_since(begin_ns);
  return timed;
}

double largest_difference(const Expected& a, const Expected& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.value.data.size(); ++i)
    largest = std::max(largest, std::fabs(a.value.data[i] - b.value.data[i]) / a.value.error_at(i));
  return largest;
}

Status measure(const std::string& path, Backend& backend) {
  LATHE_TRY(const TaskSpec spec, load_task(path));
  LATHE_TRY(auto whole, make_reference(spec));
  const auto host = make_sliced(std::move(whole), spec);
  LATHE_TRY(whole, make_reference(spec, backend.products()));
  const auto device = make_sliced(std::move(whole), spec, backend.products() != nullptr);
  for (const NamedShape& shape : spec.shapes) {
    LATHE_TRY(const BoundTask task, lathe::bind(spec, shape.dims));
    const auto inputs = generate_inputs(task, Distribution::kNormal, Seed::from_number(1));
    (void)evaluate(*device, task, inputs);  // whose memory is the machine's first
    LATHE_TRY(const Timed there, evaluate(*device, task, inputs));
    LATHE_TRY(const Timed here, evaluate(*host, task, inputs));
    double difference = 0;
    for (std::size_t i = 0; i < here.expected.size(); ++i)
      difference = std::max(difference, largest_difference(here.expected[i], there.expected[i]));
    fmt::print("| {} | {} | {:.1f} | {:.3f} | {:.3f} | {:.1f} | {:.1e} |\n", spec.name,
               shape_name(shape.dims, spec), task.flops * 1e-9, here.seconds, there.seconds,
               here.seconds / there.seconds, difference);
    std::fflush(stdout);
  }
  return Ok{};
}

int run(int argc, char** argv) {
  CLI::App app{"Measures what references cost on the host and with a device's products"};
  std::vector<std::string> tasks;
  std::string device = "cuda";
  app.add_option("tasks", tasks, "Task files")->required();
  add_device(app, device);
  CLI11_PARSE(app, argc, argv);
  const auto backend = open_device(device);
  if (!backend.ok()) return fmt::print(stderr, "{}\n", backend.error().to_string()), 1;
  fmt::print("{}, {} cores\n\n| task | shape | GFLOP | host s | device s | ratio | difference |\n",
             (*backend)->device().name, (*backend)->device().cores);
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const std::string& task : tasks)
    if (const Status done = measure(task, **backend); !done.ok())
      return fmt::print(stderr, "{}\n", done.error().to_string()), 1;
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) { return lathe::run(argc, argv); }
