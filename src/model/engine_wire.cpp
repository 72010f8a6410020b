#include "model/engine_wire.h"

#include <sys/stat.h>

#include "sandbox/memfd.h"
#include "sandbox/wire.h"

namespace lathe::engine_wire {
namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr std::size_t kMostMessage = std::size_t{1} << 30;
constexpr std::uint8_t kInline = 0, kInMemory = 1;

void put(WireWriter& out, const Digest& digest) {
  for (const std::uint8_t byte : digest.bytes) out.put(byte);
}
void get(WireReader& in, Digest& digest) {
  for (std::uint8_t& byte : digest.bytes) byte = in.get<std::uint8_t>();
}

void put(WireWriter& out, const Hello& hello) {
  const EngineInfo& info = hello.info;
  out.text(info.model).text(info.device).text(info.precision).text(info.no_gpu);
  put(out, info.weights);
  put(out, info.tokenizer);
  out.put(info.vocab).put(info.context).put(info.max_batch);
}
void get(WireReader& in, Hello& hello) {
  EngineInfo& info = hello.info;
  info.model = in.text();
  info.device = in.text();
  info.precision = in.text();
  info.no_gpu = in.text();
  get(in, info.weights);
  get(in, info.tokenizer);
  info.vocab = in.get<std::int32_t>();
  info.context = in.get<std::int32_t>();
  info.max_batch = in.get<std::int32_t>();
}

void put(WireWriter& out, const Failed& failed) {
  out.put(failed.request).put(failed.error.code).text(failed.error.message).text(failed.error.hint);
}
void get(WireReader& in, Failed& failed) {
  failed.request = in.get<std::uint64_t>();
  const auto code = in.get<std::underlying_type_t<ErrorCode>>();
  failed.error.code =
      code <= static_cast<int>(ErrorCode::kInternal) ? static_cast<ErrorCode>(code) : ErrorCode::kInternal;
  failed.error.message = in.text(kMostText);
  failed.error.hint = in.text(kMostText);
}

void put(WireWriter& out, const TokenAutomaton& grammar) {
  out.put(static_cast<std::uint32_t>(grammar.states.size()));
  for (const auto& state : grammar.states) out.put(state.otherwise).list(state.arrows);
}
void get(WireReader& in, TokenAutomaton& grammar) {
  grammar.states.resize(in.count(2 * sizeof(std::uint32_t)));
  for (auto& state : grammar.states) {
    state.otherwise = in.get<std::int32_t>();
    state.arrows = in.list<TokenAutomaton::Arrow>();
  }
}

void put(WireWriter& out, const Submit& submit) {
  const GenerationRequest& body = submit.body;
  out.put(submit.request).list(body.prompt).put(body.samples).put(body.max_tokens);
  out.put(body.sampling.temperature)
      .put(body.sampling.top_p)
      .put(body.sampling.top_k)
      .put(body.sampling.seed);
  out.put(static_cast<std::uint32_t>(body.stop_texts.size()));
  for (const auto& stop : body.stop_texts) out.text(stop);
  out.put(static_cast<std::uint32_t>(body.stop_tokens.size()));
  for (const auto& stop : body.stop_tokens) out.list(stop);
  out.put(static_cast<std::uint8_t>(body.ignore_end)).put(static_cast<std::uint8_t>(body.grammar != nullptr));
  if (body.grammar) put(out, *body.grammar);
}
void get(WireReader& in, Submit& submit) {
  GenerationRequest& body = submit.body;
  submit.request = in.get<std::uint64_t>();
  body.prompt = in.list<TokenId>();
  body.samples = in.get<std::int32_t>();
  body.max_tokens = in.get<std::int32_t>();
  body.sampling.temperature = in.get<float>();
  body.sampling.top_p = in.get<float>();
  body.sampling.top_k = in.get<std::int32_t>();
  body.sampling.seed = in.get<std::uint64_t>();
  body.stop_texts.resize(in.count(sizeof(std::uint32_t)));
  for (auto& stop : body.stop_texts) stop = in.text(kMostText);
  body.stop_tokens.resize(in.count(sizeof(std::uint32_t)));
  for (auto& stop : body.stop_tokens) stop = in.list<TokenId>();
  body.ignore_end = in.flag();
  if (!in.flag()) return;
  const auto grammar = std::make_shared<TokenAutomaton>();
  get(in, *grammar);
  body.grammar = grammar;
}

void put(WireWriter& out, const Cancel& cancel) { out.put(cancel.request); }
void get(WireReader& in, Cancel& cancel) { cancel.request = in.get<std::uint64_t>(); }

void put(WireWriter& out, const News& news) {
  out.put(news.request).put(static_cast<std::uint8_t>(news.news.done));
  out.put(static_cast<std::uint32_t>(news.news.samples.size()));
  for (const Sample& sample : news.news.samples)
    out.put(sample.index)
        .list(sample.tokens)
        .list(sample.log_probs)
        .list(sample.model_log_probs)
        .put(sample.finish);
}
void get(WireReader& in, News& news) {
  news.request = in.get<std::uint64_t>();
  news.news.done = in.flag();
  news.news.samples.resize(in.count(4 * sizeof(std::uint32_t)));
  for (Sample& sample : news.news.samples) {
    sample.index = in.get<std::int32_t>();
    sample.tokens = in.list<TokenId>();
    sample.log_probs = in.list<float>();
    sample.model_log_probs = in.list<float>();
    sample.finish = in.get<FinishReason>();
  }
}

template <std::size_t kKind = 0>
Result<Message> decode_kind(std::size_t kind, WireReader& in) {
  if constexpr (kKind < std::variant_size_v<Message>) {
    if (kind != kKind) return decode_kind<kKind + 1>(kind, in);
    std::variant_alternative_t<kKind, Message> message;
    get(in, message);
    if (in.finished()) return Message(std::move(message));
  }
  return Error{ErrorCode::kCorrupt, "a message of the model's engine is damaged"};
}

}  // namespace

std::string encode(const Message& message) {
  WireWriter out;
  out.put(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& body) { put(out, body); }, message);
  return out.take();
}

Result<Message> decode(std::string_view bytes) {
  WireReader in(bytes);
  const auto kind = in.get<std::uint8_t>();
  return decode_kind(kind, in);
}

Status send(const Channel& channel, const Message& message) {
  const std::string bytes = encode(message);
  if (bytes.size() < kMaxFrameBytes) return channel.send(std::string(1, kInline) + bytes);
  LATHE_TRY(const UniqueFd memory, make_sealed_memfd("engine", bytes));
  return channel.send(std::string(1, kInMemory), {memory.get()});
}

Result<Message> receive(const Channel& channel, int timeout_ms) {
  LATHE_TRY(const Frame frame, channel.receive(timeout_ms));
  if (frame.bytes.front() == kInline) return decode(std::string_view(frame.bytes).substr(1));
  struct stat status {};
  if (frame.fds.size() != 1 || ::fstat(frame.fds[0].get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) > kMostMessage)
    return Error{ErrorCode::kCorrupt, "a message of the model's engine came without its memory"};
  LATHE_TRY(const Mapping memory, map_shared(frame.fds[0], static_cast<std::size_t>(status.st_size), false));
  return decode({reinterpret_cast<const char*>(memory.data()), memory.size()});
}

}  // namespace lathe::engine_wire
