#include "backend/cuda/wire/profile_frames.h"

#include <cmath>

#include "sandbox/wire.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kMark = "profile:";
constexpr std::size_t kMostCounters = 512, kMostName = 128;
constexpr double kMostSeconds = 60;

}  // namespace

std::string encode(const ProfileJob& job) {
  WireWriter out;
  out.put(job.verb).put(job.poison).put(job.seconds).list(job.trials);
  return std::string(kMark) + out.take();
}

bool is_profile_job(std::string_view frame) { return frame.starts_with(kMark); }

Result<ProfileJob> decode_profile_job(std::string_view frame) {
  if (!is_profile_job(frame)) return Error{ErrorCode::kCorrupt, "not a profile's job"};
  WireReader in(frame.substr(kMark.size()));
  ProfileJob job;
  job.verb = in.get<ProfileJob::Verb>();
  job.poison = in.get<std::uint8_t>();
  job.seconds = in.get<double>();
  job.trials = in.list<std::uint32_t>();
  if (!in.finished() || job.verb > ProfileJob::Verb::kLoop || !(job.seconds >= 0) ||
      job.seconds > kMostSeconds)
    return Error{ErrorCode::kCorrupt, "a damaged frame: profile job"};
  return job;
}

std::string encode(const ProfileAnswer& answer) {
  WireWriter out;
  out.put(static_cast<std::uint8_t>(answer.ok)).text(answer.text);
  out.put(static_cast<std::uint32_t>(answer.counters.size()));
  for (const auto& [name, value] : answer.counters) out.text(name).put(value);
  return out.take();
}

Result<ProfileAnswer> decode_profile_answer(std::string_view frame) {
  WireReader in(frame);
  ProfileAnswer answer;
  answer.ok = in.flag();
  answer.text = in.text();
  const std::size_t count = in.count(sizeof(std::uint32_t) + sizeof(double));
  const Error damaged{ErrorCode::kCorrupt, "a damaged frame: profile answer"};
  if (count > kMostCounters) return damaged;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = in.text(kMostName);
    const double value = in.get<double>();
    const bool follows = answer.counters.empty() || answer.counters.rbegin()->first < name;
    if (!follows || !std::isfinite(value)) return damaged;
    answer.counters.emplace_hint(answer.counters.end(), name, value);
  }
  if (!in.finished()) return damaged;
  return answer;
}

}  // namespace lathe::cuda
