#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "backend/cpu/slots.h"
#include "base/clock.h"
#include "base/random.h"
#include "sandbox/process.h"

namespace lathe {

/// How the broker waits for a runner.
struct SessionOptions {
  /// Processors that no runner uses; the broker waits on one of them. Empty if the candidate's
  /// threads need every core, in which case the broker must not spin.
  std::vector<int> broker_cpus;
  double empty_block_ns = 0;  ///< cost of a block without calls, subtracted from every block
};

/// What the calls of a block took that lasted `block_ns`. A broker without processors of its own
/// sees the end of any block, empty ones too, tens of microseconds late: there at least half is the
/// calls', so that a short block does not seem to take no time.
constexpr double time_of_calls(double block_ns, const SessionOptions& options) {
  const double least_ns = options.broker_cpus.empty() ? block_ns / 2 : 1;
  return std::max(least_ns, block_ns - options.empty_block_ns);
}

/// One candidate in one runner. See runner/zygote.h for the other side.
class CpuSession final : public Session {
 public:
  /// `runner` has not received a Load yet. Errors with kInvalid are the candidate's fault
  /// ("<reason>: <detail>").
  static Result<std::unique_ptr<CpuSession>> open(HelperProcess runner, const protocol::Load& load,
                                                  const Artifact& artifact,
                                                  std::shared_ptr<const CpuWorkload> workload,
                                                  const SessionOptions& options);

  BlockOutcome run(const BlockRequest& request) override;

 private:
  /// A cache line of an output, copied when it must already have its final value.
  struct Sample {
    int trial = 0;
    int output = 0;
    std::size_t offset = 0;
    std::size_t size = 0;
    std::array<std::byte, 64> bytes = {};
  };
  /// Once a line of a later call's output has been written, every line of an earlier call's is
  /// final.
  struct Witness {
    Sample later;    ///< as it was before the block
    Sample earlier;  ///< as it was when the later line had changed
    bool seen = false;
  };
  struct Wait {
    bool done = false;
    bool died = false;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t switches_before = 0;  ///< copied before the candidate's code can write to the page
    std::vector<Sample> samples;
    std::vector<Witness> witnesses;
  };

  CpuSession(HelperProcess runner, std::shared_ptr<const CpuWorkload> workload, const SessionOptions& options)
      : runner_(std::move(runner)), workload_(std::move(workload)), options_(options) {}

  protocol::Control& control() const { return *reinterpret_cast<protocol::Control*>(control_.data()); }
  bool reply_waits() const;
  /// What ends a wait early.
  struct Limit {
    std::int64_t deadline_ns = 0;
    const CancelToken& cancel;
  };
  /// Waits until the flag is at least `value`; false if the child died, the deadline passed or the
  /// block was cancelled. Spins only while the child runs: before that, the runner needs the
  /// broker's processor.
  bool wait_for(const std::atomic<std::uint32_t>& flag, std::uint32_t value, const Limit& limit,
                std::vector<Witness>* witnesses = nullptr) const;
  Sample draw_sample(int trial, Rng& rng) const;
  void take(Sample& sample) const;
  bool changed(const Sample& sample) const;
  Wait prepare_wait(const BlockRequest& request) const;
  void watch(std::vector<Witness>& witnesses) const;
  Wait run_calls(const BlockRequest& request) const;
  BlockOutcome judge(const BlockRequest& request, const Wait& wait, const protocol::BlockReply& reply) const;
  BlockOutcome describe_death(const BlockRequest& request, const Wait& wait,
                              const protocol::BlockReply& reply) const;
  void check_outputs(const BlockRequest& request, BlockOutcome& outcome) const;

  HelperProcess runner_;
  std::shared_ptr<const CpuWorkload> workload_;
  SessionOptions options_;
  UniqueFd control_fd_;
  Mapping control_;
  bool has_counters_ = false;
  bool has_library_steps_ = false;
  bool broken_ = false;
};

}  // namespace lathe
