#include "backend/host/zygote.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/visible_text.h"
#include "sandbox/wire.h"

namespace lathe::host {
namespace {

constexpr int kStartMs = 120'000;
constexpr int kLoadMs = 30'000;
constexpr int kPatienceMs = 10'000;  // beyond what a child was given
constexpr int kStepPollMs = 5;
constexpr double kLongestStepSeconds = 36'000;  // for the zygote: the broker says when it is enough
constexpr std::size_t kMostText = 8 << 10;
constexpr std::size_t kMostIdle = 4, kMostIdleOnGpu = 24;

std::string block_frame(char kind, std::uint8_t poison, std::uint16_t section, std::uint32_t calls,
                        double ready_seconds) {
  WireWriter writer;
  writer.put(static_cast<std::uint8_t>(kind)).put(poison).put(section).put(calls);
  writer.put(static_cast<std::int64_t>(ready_seconds * 1e9));
  return writer.take();
}

std::string purpose_of(char step) {
  switch (step) {
    case 's':
      return "build";
    case 'i':
      return "import";
    default:
      return "describe";
  }
}

}  // namespace

void ProcessTally::add(const std::string& purpose, double seconds) {
  std::lock_guard lock(mutex_);
  stages_[purpose].seconds += seconds;
  ++stages_[purpose].count;
}

std::map<std::string, DeviceUsage::Stage> ProcessTally::stages() const {
  std::lock_guard lock(mutex_);
  return stages_;
}

std::vector<std::string> runner_arguments(const ZygoteOptions& options, const std::string& work_folder) {
  std::vector<std::string> args = {std::string(name(options.jail)),
                                   options.gpu ? "gpu" : "cpu",
                                   options.python,
                                   work_folder,
                                   options.script,
                                   options.library};
  args.insert(args.end(), options.folders.begin(), options.folders.end());
  return args;
}

bool ChildReply::exited_with(ExitCode code) const {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
}

Result<ChildReply> decode_child_reply(std::string_view bytes) {
  WireReader reader(bytes);
  ChildReply reply;
  reply.wait_status = reader.get<std::int32_t>();
  reply.ending = reader.get<std::uint32_t>();
  reply.confined = reader.get<std::uint32_t>() != 0;
  reply.switches = reader.get<std::int64_t>();
  reply.cpu_ns = reader.get<std::int64_t>();
  if (!reader.finished() || reply.ending > kAllCallsRun)
    return Error{ErrorCode::kCorrupt, "a zygote's reply cannot be read"};
  return reply;
}

Result<std::unique_ptr<Zygote>> Zygote::start(const ZygoteOptions& options) {
  const std::int64_t begin_ns = steady_clock().now_ns();
  LATHE_TRY(WorkFolder work, WorkFolder::make(options.cache_folder));
  LATHE_TRY(HelperProcess process,
            HelperProcess::spawn(options.runner_program, runner_arguments(options, work.path()),
                                 options.environment));
  const auto hello = process.first_frame(kStartMs);
  if (!hello.ok())
    return Error{ErrorCode::kUnavailable, "Python did not start in its jail: " + hello.error().message,
                 "run lathe doctor --device host:cpu"};
  if (!hello->bytes.starts_with('{'))
    return Error{ErrorCode::kUnavailable,
                 "torch cannot be imported in the jail: " + visible_line(hello->bytes),
                 "another interpreter can be named in LATHE_PYTHON"};
  std::unique_ptr<Zygote> zygote(new Zygote(std::move(work), std::move(process), options));
  zygote->count("zygote", begin_ns);
  return zygote;
}

Result<Zygote::Rooms> Zygote::make_rooms(const Sizes& sizes) {
  Rooms rooms;
  const auto make = [](const char* label, std::size_t bytes, UniqueFd& fd, Mapping& map) -> Status {
    const std::size_t size = round_to_pages(std::max<std::size_t>(1, bytes));
    LATHE_TRY(fd, make_memfd(label, size));
    LATHE_TRY(map, map_shared(fd, size, true));
    return Ok{};
  };
  LATHE_CHECK_OK(make("control", kTextOffset + sizes.text, rooms.control_fd, rooms.control));
  LATHE_CHECK_OK(make("window", sizes.window, rooms.window_fd, rooms.window));
  LATHE_CHECK_OK(make("desk", sizeof(Desk), rooms.desk_fd, rooms.desk));
  LATHE_CHECK_OK(make("outputs", sizes.outputs, rooms.outputs_fd, rooms.outputs));
  return rooms;
}

Status Zygote::load(const std::string& document, const Rooms& rooms, std::span<const Section> sections,
                    const Extensions& extensions, const DeviceWindows* windows) {
  LATHE_TRY(const UniqueFd payload, make_sealed_memfd("program", document));
  LATHE_TRY(const UniqueFd nothing, make_sealed_memfd("nothing", ""));
  LATHE_TRY(const UniqueFd window, reopen_read_only(rooms.window_fd));
  LATHE_TRY(const UniqueFd samples, make_sealed_memfd("samples", samples_of(sections)));
  std::vector<int> fds = {payload.get(),       rooms.control_fd.get(), window.get(),
                          rooms.desk_fd.get(), rooms.outputs_fd.get(), samples.get()};
  for (const Section& section : sections) {
    const bool has_state = section.model && section.model->state_memory.valid();
    fds.push_back(has_state ? section.model->state_memory.get() : nothing.get());
  }
  if (windows)
    for (const UniqueFd& handle : windows->handles()) fds.push_back(handle.get());
  std::vector<UniqueFd> objects;
  if (!extensions.compiled.empty()) {
    LATHE_TRY(UniqueFd packed, make_sealed_memfd("compiled", extensions.compiled));
    fds.push_back(packed.get());
    objects.push_back(std::move(packed));
  }
  for (const std::string& bytes : extensions.objects) {
    LATHE_TRY(UniqueFd object, make_sealed_memfd("extension", bytes));
    fds.push_back(object.get());
    objects.push_back(std::move(object));
  }
  is_loaded_ = true;
  return tell("load", fds);
}

Status Zygote::tell(const std::string& verb, const std::vector<int>& fds) {
  LATHE_CHECK_OK(process_.channel().send(verb, fds));
  LATHE_TRY(const Frame reply, process_.channel().receive(kLoadMs));
  if (reply.bytes != verb + "ed")
    return Error{ErrorCode::kCorrupt, "a zygote did not " + verb + " a program"};
  return Ok{};
}

Result<ChildReply> Zygote::run_step(char step, const Rooms& rooms, double timeout_seconds,
                                    const CancelToken& cancel, const Compiler& compile) {
  auto& control = *reinterpret_cast<Control*>(rooms.control.data());
  control.text_bytes.store(0);
  control.go.store(0), control.done.store(0);
  LATHE_CHECK_OK(process_.channel().send(block_frame(step, 0, 0, 0, kLongestStepSeconds)));
  const std::int64_t begin_ns = steady_clock().now_ns();
  std::int64_t since_ns = begin_ns;
  bool stopped = false;
  std::uint32_t answered = 0;
  for (;;) {
    auto frame = process_.channel().receive(kStepPollMs);
    if (frame.ok()) {
      count(purpose_of(step), begin_ns);
      return decode_child_reply(frame->bytes);
    }
    if (frame.error().code != ErrorCode::kTimeout) return frame.error();
    if (cancel.cancelled()) return Error{ErrorCode::kCancelled, "a step in Python was cancelled"};
    if (stopped && seconds_since(since_ns) > kPatienceMs / 1e3)
      return Error{ErrorCode::kIo, "a zygote does not answer"};
    if (stopped) continue;
    bool ends = seconds_since(since_ns) > timeout_seconds;
    if (!ends && compile && control.done.load(std::memory_order_acquire) != answered) {
      const UniqueFd given = compile(raw_text_of(rooms, rooms.control.size()));
      ++answered;
      since_ns = steady_clock().now_ns();
      ends = !given.valid();
      if (!ends) LATHE_CHECK_OK(process_.channel().send("given", {given.get()}));
    }
    if (!ends) continue;
    stopped = true;
    since_ns = steady_clock().now_ns();
    LATHE_CHECK_OK(process_.channel().send("stop"));
  }
}

Status Zygote::begin_answers(double seconds) const {
  return process_.channel().send(block_frame('e', 0, 0, 0, seconds));
}

Status Zygote::begin_block(std::uint16_t section, std::uint32_t calls, std::uint8_t poison,
                           double ready_seconds) const {
  return process_.channel().send(block_frame('b', poison, section, calls, ready_seconds));
}

Result<ChildReply> Zygote::end_block(int timeout_ms) const {
  LATHE_TRY(const Frame frame, process_.channel().receive(timeout_ms));
  return decode_child_reply(frame.bytes);
}

bool Zygote::reply_waits() const {
  pollfd waiting{process_.channel().fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

Status Zygote::settle() {
  if (std::exchange(has_left_child_, false))
    if (const auto reply = end_block(kPatienceMs); !reply.ok()) return reply.error();
  return std::exchange(is_loaded_, false) ? tell("unload", {}) : Status(Ok{});
}

void Zygote::count(const std::string& purpose, std::int64_t begin_ns) const {
  count_seconds(purpose, seconds_since(begin_ns));
}

void Zygote::count_seconds(const std::string& purpose, double seconds) const {
  if (tally_) tally_->add(owner_ + " " + purpose, seconds);
}

std::string raw_text_of(const Zygote::Rooms& rooms, std::size_t most) {
  const auto& control = *reinterpret_cast<const Control*>(rooms.control.data());
  const std::size_t size = std::min(
      {static_cast<std::size_t>(control.text_bytes.load()), most, rooms.control.size() - kTextOffset});
  return {reinterpret_cast<const char*>(rooms.control.data()) + kTextOffset, size};
}

std::string text_of(const Zygote::Rooms& rooms) {
  std::string text = raw_text_of(rooms, kMostText);
  for (char& c : text)
    if ((c < ' ' || c > '~') && c != '\n') c = c == '\t' ? ' ' : '?';
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<ZygotePool::Loan> ZygotePool::take() {
  while (auto idle = take_idle())
    if (idle->settle().ok()) return Loan(*this, std::move(idle));
  LATHE_TRY(auto zygote, Zygote::start(options_));
  return Loan(*this, std::move(zygote));
}

/// Null where there is none. One whose child still ends is the last choice.
std::unique_ptr<Zygote> ZygotePool::take_idle() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < idle_.size(); ++i)
    if (!idle_[i]->must_wait()) chosen = i;
  auto zygote = std::move(idle_[chosen]);
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(chosen));
  return zygote;
}

void ZygotePool::give_back(std::unique_ptr<Zygote> zygote) {
  if (!zygote->must_wait() && !zygote->settle().ok()) return;
  std::lock_guard lock(mutex_);
  if (idle_.size() < (options_.gpu ? kMostIdleOnGpu : kMostIdle)) idle_.push_back(std::move(zygote));
}

}  // namespace lathe::host
