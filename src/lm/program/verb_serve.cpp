#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "cli/console.h"
#include "cli/exit_code.h"
#include "lm/program/options.h"
#include "model/engine_wire.h"
#include "sandbox/process.h"

namespace lathe::lm {
namespace {

/// One thread for each request hands its answers on; there are tens of them.
class Server {
 public:
  Server(Engine& engine, const Channel& channel) : engine_(engine), channel_(channel) {}
  ~Server() {
    for (auto& [request, waiter] : waiters_) engine_.cancel(waiter.own);
    for (auto& [request, waiter] : waiters_) waiter.thread.join();
  }

  void submit(engine_wire::Submit submit) {
    auto own = engine_.submit(std::move(submit.body));
    if (!own.ok()) return send(engine_wire::Failed{submit.request, own.error()});
    join_finished();
    waiters_[submit.request] = {
        *own, std::thread([this, request = submit.request, id = *own] { hand_on(request, id); })};
  }
  void cancel(std::uint64_t request) {
    if (const auto found = waiters_.find(request); found != waiters_.end()) engine_.cancel(found->second.own);
  }

 private:
  struct Waiter {
    std::uint64_t own = 0;
    std::thread thread = {};
  };

  void hand_on(std::uint64_t request, std::uint64_t own) {
    for (bool done = false; !done;) {
      auto news = engine_.wait(own, 3600);
      if (!news.ok() && news.error().code == ErrorCode::kTimeout) continue;
      done = !news.ok() || news->done;
      if (news.ok())
        send(engine_wire::News{request, *std::move(news)});
      else if (news.error().code != ErrorCode::kNotFound)  // which is a cancelled one
        send(engine_wire::Failed{request, news.error()});
    }
    std::lock_guard lock(mutex_);
    finished_.push_back(request);
  }

  void join_finished() {
    std::vector<std::uint64_t> finished;
    {
      std::lock_guard lock(mutex_);
      finished.swap(finished_);
    }
    for (const std::uint64_t request : finished) {
      waiters_[request].thread.join();
      waiters_.erase(request);
    }
  }

  void send(const engine_wire::Message& message) {
    std::lock_guard lock(sending_);
    (void)engine_wire::send(channel_, message);  // a client that is gone ends the program
  }

  Engine& engine_;
  const Channel& channel_;
  std::mutex sending_, mutex_;
  std::map<std::uint64_t, Waiter> waiters_;  // of the thread that receives
  std::vector<std::uint64_t> finished_;
};

Result<int> serve(const ModelOptions& options) {
  const Channel channel{UniqueFd(kHelperChannelFd)};
  const auto opened = [&]() -> Result<OpenedModel> {
    LATHE_TRY(const OpenOptions open, options.parsed());
    return open_model(options.model, open);
  }();
  if (!opened.ok()) {
    LATHE_CHECK_OK(engine_wire::send(channel, engine_wire::Failed{0, opened.error()}));
    return static_cast<int>(cli::exit_code(opened.error()));
  }
  LATHE_CHECK_OK(engine_wire::send(channel, engine_wire::Hello{opened->engine->info()}));
  Server server(*opened->engine, channel);
  for (;;) {
    auto message = engine_wire::receive(channel, -1);
    if (!message.ok()) break;
    if (auto* const submit = std::get_if<engine_wire::Submit>(&*message)) server.submit(std::move(*submit));
    if (const auto* const cancel = std::get_if<engine_wire::Cancel>(&*message))
      server.cancel(cancel->request);
  }
  return static_cast<int>(cli::kSuccess);
}

}  // namespace

void add_serve(CLI::App& app, Run& run) {
  const auto options = std::make_shared<ModelOptions>();
  CLI::App& verb = *app.add_subcommand("serve", "generate for lathe, which starts this by itself")->group("");
  verb.add_option("--model", options->model, "a GGUF file, or a folder of safetensors")->required();
  verb.add_option("--context", options->open.context, "tokens of prompt and answer, at most")
      ->check(CLI::Range(2, 1 << 20));
  add_model_options(verb, *options);
  verb.callback([options, &run] {
    run = [options] {
      const auto code = serve(*options);
      return code.ok() ? *code : cli::fail(code.error());
    };
  });
}

}  // namespace lathe::lm
