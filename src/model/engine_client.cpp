#include "model/engine_client.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "base/process.h"
#include "base/visible_text.h"
#include "model/engine_wire.h"
#include "sandbox/process.h"

namespace lathe {
namespace {

constexpr std::size_t kMostPrinted = 2000;
constexpr double kEndSeconds = 5;  ///< for a process whose channel has closed

/// What the process has printed to standard error, which is a file in memory: its end.
std::string printed(const UniqueFd& errors) {
  const off_t size = ::lseek(errors.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kMostPrinted));
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = ::pread(errors.get(), text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return visible_line(text);
}

class EngineClient final : public Engine {
 public:
  EngineClient(Process process, Channel channel, UniqueFd errors)
      : process_(std::move(process)), channel_(std::move(channel)), errors_(std::move(errors)) {}

  ~EngineClient() override {
    closing_ = true;
    ::shutdown(channel_.fd(), SHUT_RDWR);
    if (reader_.joinable()) reader_.join();
  }

  /// Waits until the model is loaded.
  Status start(double seconds) {
    auto hello = engine_wire::receive(channel_, static_cast<int>(seconds * 1000));
    if (!hello.ok()) {
      if (hello.error().code == ErrorCode::kTimeout)
        return Error{ErrorCode::kTimeout,
                     fmt::format("lathe-torch did not load the model within {} s", seconds)};
      return how_it_ended();
    }
    if (const auto* failed = std::get_if<engine_wire::Failed>(&*hello)) return failed->error;
    const auto* told = std::get_if<engine_wire::Hello>(&*hello);
    if (!told) return Error{ErrorCode::kCorrupt, "lathe-torch did not say which model it has"};
    info_ = told->info;
    reader_ = std::thread([this] { read(); });
    return Ok{};
  }

  const EngineInfo& info() const override { return info_; }

  Result<std::uint64_t> submit(GenerationRequest request) override {
    LATHE_CHECK_OK(check_request(request, info_.vocab, info_.context));
    std::lock_guard sending(sending_);
    std::uint64_t id = 0;
    {
      std::lock_guard lock(mutex_);
      if (fault_) return *fault_;
      id = ++last_id_;
      requests_[id];
    }
    // A process that has just ended is the reader's to report.
    (void)engine_wire::send(channel_, engine_wire::Submit{id, std::move(request)});
    return id;
  }

  Result<GenerationNews> wait(std::uint64_t request, double timeout_seconds) override {
    std::unique_lock lock(mutex_);
    const auto limit = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(std::clamp(timeout_seconds, 0.0, 1e8));
    for (;;) {
      const auto found = requests_.find(request);
      if (found == requests_.end())
        return Error{ErrorCode::kNotFound, fmt::format("no request {} is under way", request)};
      State& state = found->second;
      if (state.error) {
        const Error error = *state.error;
        requests_.erase(found);
        return error;
      }
      if (!state.news.samples.empty() || state.news.done) {
        GenerationNews news = std::exchange(state.news, {});
        if (news.done) requests_.erase(found);
        return news;
      }
      if (fault_) return *fault_;
      if (changed_.wait_until(lock, limit) == std::cv_status::timeout &&
          std::chrono::steady_clock::now() >= limit)
        if (const auto again = requests_.find(request); again != requests_.end() && !again->second.error &&
                                                        again->second.news.samples.empty() &&
                                                        !again->second.news.done && !fault_)
          return Error{ErrorCode::kTimeout, "no answer is ready"};
    }
  }

  void cancel(std::uint64_t request) override {
    std::lock_guard sending(sending_);
    {
      std::lock_guard lock(mutex_);
      if (requests_.erase(request) == 0) return;
      changed_.notify_all();
    }
    (void)engine_wire::send(channel_, engine_wire::Cancel{request});
  }

 private:
  struct State {
    GenerationNews news;
    std::optional<Error> error;
  };

  Error how_it_ended() {
    const auto status = process_.wait(kEndSeconds);
    std::string message = "lathe-torch ended";
    if (status.ok()) message += ": " + status->to_string();
    if (const std::string said = printed(errors_); !said.empty()) message += "; it printed: " + said;
    return {ErrorCode::kUnavailable, message,
            "try lathe-torch generate with the same model to see what it says"};
  }

  void read() {
    for (;;) {
      auto message = engine_wire::receive(channel_, -1);
      std::unique_lock lock(mutex_);
      if (!message.ok()) {
        if (closing_) return;
        lock.unlock();
        Error error = how_it_ended();
        lock.lock();
        fault_ = std::move(error);
        changed_.notify_all();
        return;
      }
      take(*message);
      changed_.notify_all();
    }
  }

  void take(engine_wire::Message& message) {
    if (auto* const failed = std::get_if<engine_wire::Failed>(&message)) {
      if (failed->request == 0)
        fault_ = failed->error;
      else if (const auto found = requests_.find(failed->request); found != requests_.end())
        found->second.error = failed->error;
    } else if (auto* const told = std::get_if<engine_wire::News>(&message)) {
      const auto found = requests_.find(told->request);
      if (found == requests_.end()) return;  // cancelled meanwhile
      GenerationNews& news = found->second.news;
      std::ranges::move(told->news.samples, std::back_inserter(news.samples));
      news.done = told->news.done;
    }
  }

  std::atomic<bool> closing_ = false;
  Process process_;  ///< the reader's, once it runs
  const Channel channel_;
  const UniqueFd errors_;
  EngineInfo info_;
  std::thread reader_;

  std::mutex sending_;  // taken before mutex_: requests are sent in the order of their names
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, State> requests_;
  std::uint64_t last_id_ = 0;
  std::optional<Error> fault_;
};

}  // namespace

Result<std::unique_ptr<Engine>> start_engine(const EngineClientOptions& options) {
  LATHE_TRY(auto ends, Channel::make_pair());
  UniqueFd errors(::memfd_create("lathe-torch", MFD_CLOEXEC));
  if (!errors.valid()) return errno_error("cannot make memory for what lathe-torch prints");
  // In a group of its own: on Ctrl-C at the terminal Lathe ends its helpers itself.
  Command command{.argv = {options.program, "serve"}, .own_group = true};
  command.argv.insert(command.argv.end(), options.arguments.begin(), options.arguments.end());
  const std::array<Process::Descriptor, 2> descriptors{
      {{errors.get(), STDERR_FILENO}, {ends.second.fd(), kHelperChannelFd}}};
  LATHE_TRY(Process process, Process::start(command, descriptors));
  ends.second = Channel(UniqueFd());  // or the end of the process would go unseen
  auto client = std::make_unique<EngineClient>(std::move(process), std::move(ends.first), std::move(errors));
  LATHE_CHECK_OK(client->start(options.start_seconds));
  return std::unique_ptr<Engine>(std::move(client));
}

Result<std::string> find_engine_program() {
  std::error_code code;
  if (const char* const named = std::getenv("LATHE_ENGINE"); named && *named) {
    if (std::filesystem::exists(named, code)) return std::string(named);
    return Error{ErrorCode::kNotFound, fmt::format("LATHE_ENGINE names '{}', which does not exist", named),
                 "name the program lathe-torch"};
  }
  for (const char* const name : {"lathe-torch", "../../torch/bin/lathe-torch"}) {
    LATHE_TRY(const std::string path, sibling_program(name));
    if (std::filesystem::exists(path, code)) return path;
  }
  return Error{ErrorCode::kNotFound, "lathe-torch, which runs language models, is not built",
               "build it with: ./run lathe-torch --help, or name it with LATHE_ENGINE"};
}

}  // namespace lathe
