#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/guard.h"

namespace lathe::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr double kLookSeconds = 2;  // after clients that wait

std::chrono::steady_clock::duration duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      plain += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

/// A client that has gone would else hold its connection until its answer comes.
bool has_hung_up(beast::tcp_stream& stream) {
  char next = 0;
  return ::recv(stream.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

template <class Body>
HttpRequest head_of(const http::request<Body>& request) {
  HttpRequest head;
  head.method = request.method() == http::verb::head ? "GET" : view(request.method_string());
  std::string_view target = view(request.target());
  for (const std::string_view scheme : {"http://", "https://"})  // as proxies write it
    if (target.starts_with(scheme))
      target.remove_prefix(std::min(target.size(), target.find('/', scheme.size())));
  head.path = target.substr(0, target.find('?'));
  target.remove_prefix(std::min(target.size(), head.path.size() + 1));
  while (!target.empty()) {
    const std::string_view entry = target.substr(0, target.find('&'));
    target.remove_prefix(std::min(target.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string value = decoded(entry.substr(std::min(entry.size(), equals + 1)));
    const auto [parameter, is_new] = head.query.try_emplace(decoded(entry.substr(0, equals)), value);
    if (!is_new) parameter->second += ", " + value;  // which of them is meant, nobody knows
  }
  for (const auto& field : request) head.headers[lower(view(field.name_string()))] = view(field.value());
  return head;
}

/// Something that another thread gives to a coroutine of the server.
template <class T>
class Handover : public std::enable_shared_from_this<Handover<T>> {
 public:
  explicit Handover(const asio::any_io_executor& executor) : executor_(executor), wake_(executor) {}

  void give(T value) {
    {
      std::lock_guard lock(mutex_);
      if (value_) return;
      value_ = std::move(value);
    }
    asio::post(executor_, [self = this->shared_from_this()] { self->wake_.cancel(); });
  }
  /// nullopt: nothing in time.
  asio::awaitable<std::optional<T>> take(double seconds) {
    const auto end = std::chrono::steady_clock::now() + duration(seconds);
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (value_) co_return std::exchange(value_, std::nullopt);
      }
      if (std::chrono::steady_clock::now() >= end) co_return std::nullopt;
      wake_.expires_at(end);
      co_await wake_.async_wait(kAwait);
    }
  }

 private:
  asio::any_io_executor executor_;
  asio::steady_timer wake_;
  std::mutex mutex_;
  std::optional<T> value_;
};

/// A part of a sum, as long as it lives or until it is given back.
class Share {
 public:
  Share(std::size_t& sum, std::size_t part) : sum_(sum), part_(part) { sum_ += part_; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { give_back(); }
  void give_back() { sum_ -= std::exchange(part_, 0); }

 private:
  std::size_t& sum_;
  std::size_t part_;
};

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpLimits& limits, HttpHandler handler)
      : limits_(limits), handler_(std::move(handler)) {}

  ~BeastServer() override { stop(); }

  void stop() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status listen(const std::string& address, int port) {
    beast::error_code error;
    const auto ip = asio::ip::make_address(address, error);
    if (error) return invalid("'" + address + "' is no IP address", "use 127.0.0.1");
    const tcp::endpoint endpoint(ip, static_cast<unsigned short>(port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(1024, error);
    if (error)
      return Error{ErrorCode::kIo,
                   "cannot listen on " + host_and_port(address, port) + ": " + error.message(),
                   "choose another port with --port"};
    port_ = acceptor_.local_endpoint(error).port();
    asio::co_spawn(context_, accept(), asio::detached);
    thread_ = std::thread(
        [this] { (void)without_exceptions([this]() -> Status { return context_.run(), Ok{}; }); });
    return Ok{};
  }

  int port() const override { return port_; }
  std::int64_t connections() const override { return connections_; }

 private:
  asio::awaitable<void> accept() {
    asio::steady_timer pause(context_);
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (error == asio::error::operation_aborted) co_return;
      if (error) {  // no descriptor is left: connections that end give some back
        pause.expires_after(std::chrono::milliseconds(20));
        co_await pause.async_wait(kAwait);
        continue;
      }
      beast::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      ++connections_;
      asio::co_spawn(context_, serve(beast::tcp_stream(std::move(socket))),
                     [this](const std::exception_ptr&) { --connections_; });
    }
  }

  asio::awaitable<void> serve(beast::tcp_stream stream) {
    if (connections_ > limits_.connections) {
      co_await write(stream, handler_.fault(503, "too many connections"), {.keep = false});
      co_return co_await hang_up(stream);
    }
    beast::flat_buffer buffer(limits_.header_bytes + (64 << 10));
    while (co_await serve_one(stream, buffer)) {
    }
    co_await hang_up(stream);
  }

  /// A close with unread bytes of the client would take the last response from it.
  asio::awaitable<void> hang_up(beast::tcp_stream& stream) {
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream.expires_after(std::chrono::seconds(1));
    std::array<char, 16384> unread;
    for (std::size_t bytes = 0; bytes <= limits_.body_bytes;) {
      auto [error, size] = co_await stream.async_read_some(asio::buffer(unread), kAwait);
      if (error) co_return;
      bytes += size;
    }
  }

  /// What the body may become: who tells no length may send as much as any.
  std::size_t bytes_announced(const http::request_parser<http::string_body>& parser) const {
    if (parser.chunked()) return limits_.body_bytes;
    return static_cast<std::size_t>(parser.content_length().value_or(0));
  }

  /// Whether another request may follow.
  asio::awaitable<bool> serve_one(beast::tcp_stream& stream, beast::flat_buffer& buffer) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser.body_limit(limits_.body_bytes);
    stream.expires_after(duration(limits_.header_seconds));
    auto [error, size] = co_await http::async_read_header(stream, buffer, parser, kAwait);
    if (error) co_return co_await refuse(stream, error);
    HttpRequest request = head_of(parser.get());
    const bool with_body = parser.get().method() != http::verb::head;
    if (auto refused = handler_.admit(request)) {
      co_await write(stream, *std::move(refused), {.keep = false, .body = with_body});
      co_return false;
    }
    const std::size_t announced = bytes_announced(parser);
    if (announced > limits_.all_bodies_bytes - bodies_bytes_) {
      co_await write(stream, handler_.fault(503, "too many bodies are on their way"),
                     {.keep = false, .body = with_body});
      co_return false;
    }
    Share share(bodies_bytes_, announced);
    stream.expires_after(duration(limits_.body_seconds));
    if (!parser.is_done()) {
      if (lower(request.header("expect")) == "100-continue") {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await asio::async_write(stream, asio::buffer(kContinue), kAwait);
      }
      auto [body_error, body_size] = co_await http::async_read(stream, buffer, parser, kAwait);
      if (body_error) co_return co_await refuse(stream, body_error);
    }
    const bool keep = parser.get().keep_alive();
    request.body = std::move(parser.get().body());
    const auto answer = std::make_shared<Handover<HttpResponse>>(stream.get_executor());
    handler_.handle(std::move(request),
                    [answer](HttpResponse response) { answer->give(std::move(response)); });
    share.give_back();
    std::optional<HttpResponse> response;
    while (!response) {
      response = co_await answer->take(kLookSeconds);
      if (!response && has_hung_up(stream)) co_return false;
    }
    co_return co_await write(stream, *std::move(response), {.keep = keep, .body = with_body});
  }

  asio::awaitable<bool> refuse(beast::tcp_stream& stream, beast::error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      co_await write(
          stream,
          handler_.fault(431, fmt::format("the header is larger than {} bytes", limits_.header_bytes)),
          {.keep = false});
    else if (error == http::error::body_limit)
      co_await write(stream,
                     handler_.fault(413, fmt::format("the body is larger than {} bytes", limits_.body_bytes)),
                     {.keep = false});
    else if (error == beast::error::timeout)
      stream.close();  // the stream cannot be used after its timeout
    else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message)
      co_await write(stream, handler_.fault(400, "that is not HTTP/1.1"), {.keep = false});
    co_return false;
  }

  struct Manner {
    bool keep = true;  ///< the connection, for another request
    bool body = true;  ///< else its length alone is told
  };
  asio::awaitable<bool> write(beast::tcp_stream& stream, HttpResponse response, Manner manner) {
    const bool keep = manner.keep && !response.stream;
    http::response<http::string_body> message(static_cast<http::status>(response.status), 11);
    message.set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) message.set(name, value);
    message.keep_alive(keep);
    stream.expires_after(duration(limits_.write_seconds));
    if (response.stream || !manner.body) {
      http::response<http::empty_body> head(std::move(message.base()));
      if (!response.stream) head.content_length(response.body.size());
      auto [error, size] = co_await http::async_write(stream, head, kAwait);
      if (!response.stream) co_return !error && keep;
      if (!error && manner.body) co_await write_stream(stream, response);
      if (response.gone) response.gone();
      co_return false;
    }
    message.body() = std::move(response.body);
    message.prepare_payload();
    auto [error, size] = co_await http::async_write(stream, message, kAwait);
    co_return !error && keep;
  }

  asio::awaitable<void> write_stream(beast::tcp_stream& stream, const HttpResponse& response) {
    using Piece = std::optional<std::string>;
    for (;;) {
      const auto next = std::make_shared<Handover<Piece>>(stream.get_executor());
      response.stream([next](Piece piece) { next->give(std::move(piece)); });
      std::optional<Piece> piece;
      while (!piece) {
        piece = co_await next->take(limits_.comment_seconds);
        const std::string bytes = !piece ? ": waiting\n\n" : piece->value_or("");
        if (piece && !*piece) co_return;
        stream.expires_after(duration(limits_.write_seconds));
        auto [error, size] = co_await asio::async_write(stream, asio::buffer(bytes), kAwait);
        if (error) co_return;
      }
    }
  }

  const HttpLimits limits_;
  const HttpHandler handler_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  std::thread thread_;
  std::atomic<std::int64_t> connections_{0};
  std::size_t bodies_bytes_ = 0;  ///< of bodies on their way
  int port_ = 0;
};

}  // namespace

std::string host_and_port(const std::string& address, int port) {
  const bool bare = address.find(':') == std::string::npos;
  return (bare ? address : "[" + address + "]") + ":" + std::to_string(port);
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address, int port,
                                                      const HttpLimits& limits, HttpHandler handler) {
  return without_exceptions([&]() -> Result<std::unique_ptr<HttpServer>> {
    auto server = std::make_unique<BeastServer>(limits, std::move(handler));
    LATHE_CHECK_OK(server->listen(address, port));
    return std::unique_ptr<HttpServer>(std::move(server));
  });
}

}  // namespace lathe::serve
