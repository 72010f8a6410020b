#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/fd.h"
#include "base/random.h"
#include "bench/serve/http_client.h"
#include "serve/remote_message.h"
#include "tests/serve/service_here.h"

// Requests that are nearly HTTP, against the server that clients reach.
namespace lathe::serve {
namespace {

using nlohmann::json;

constexpr double kHangSeconds = 20;  // far beyond every limit that the test sets

/// Written requests of every kind, from which others are made.
std::vector<std::string> seeds() {
  const auto post = [](const std::string& target, const std::string& body, const std::string& more = "") {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{}Content-Length: "
        "{}\r\n\r\n{}",
        target, more, body.size(), body);
  };
  const std::string item = R"({"task":"tiny","candidate":"x","tag":"t","priority":2,"deadline_seconds":9})";
  const WorkerJoin join{"box/cpu", {.kind = {"cpu", "of no version"}, .device_name = "fake", .slots = 1}};
  const std::string id(64, 'a');
  return {
      "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "HEAD /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\n\r\n",
      "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n",
      "GET http://localhost/readyz?a=b&c=%20d HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: abc\r\n\r\n",
      "GET /v1/evaluations?after=0&limit=10&wait=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 3\r\n\r\n",
      "GET /v1/evaluations/" + id + "/evidence?reward=speedup&peer=naive HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "DELETE /v1/evaluations/" + id +
          " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer lathe_1\r\n\r\n",
      "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
      "GET /v1/workers/" + id + "/messages?after=0&wait=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      post("/v1/evaluations", item),
      post("/v1/evaluations?wait=0.2&reward=speedup", item, "Expect: 100-continue\r\n"),
      post("/v1/evaluations/batch", R"({"items":[)" + item + "," + item + "]}"),
      post("/v1/workers", encode(join)),
      post("/v1/workers/" + id + "/messages", encode(WorkerBatch{1, {WorkerBeat{1}}})),
      "POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
          fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", item.size(), item),
  };
}

std::string mutated(Rng& rng, const std::vector<std::string>& from) {
  static const std::vector<std::string> kPieces = {"\r\n",
                                                   "\r\n\r\n",
                                                   "\n",
                                                   "\r",
                                                   " ",
                                                   "\t",
                                                   std::string(1, '\0'),
                                                   ":",
                                                   "%",
                                                   "%zz",
                                                   "%00",
                                                   "/../",
                                                   "//",
                                                   "?",
                                                   "&",
                                                   "=",
                                                   "HTTP/1.0",
                                                   "HTTP/9.9",
                                                   "HTTP/1.1",
                                                   "GET ",
                                                   "TRACE ",
                                                   "CONNECT ",
                                                   "Host: evil.example\r\n",
                                                   "Host: \r\n",
                                                   "Content-Length: -1\r\n",
                                                   "Content-Length: 18446744073709551616\r\n",
                                                   "Content-Length: 7\r\n",
                                                   "Content-Length: 900000\r\n",
                                                   "Transfer-Encoding: chunked\r\n",
                                                   "Transfer-Encoding: gzip, chunked\r\n",
                                                   "Expect: 100-continue\r\n",
                                                   "Connection: close\r\n",
                                                   "Connection: keep-alive\r\n",
                                                   "Upgrade: websocket\r\n",
                                                   "Last-Event-ID: -9\r\n",
                                                   "ffffffffffffffff\r\n",
                                                   "wait=nan",
                                                   "wait=-1",
                                                   "after=99999999999999999999",
                                                   "limit=0",
                                                   "\xff\xfe",
                                                   "\xc3\x28",
                                                   "{",
                                                   "[[[[",
                                                   "\"",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "1e999",
                                                   "null"};
  std::string text = from[rng.below(from.size())];
  for (std::size_t i = rng.below(3); i > 0; --i) text += from[rng.below(from.size())];
  for (std::size_t i = rng.below(6); i > 0 && !text.empty(); --i) {
    const std::size_t at = rng.below(text.size()),
                      size = 1 + rng.below(std::min<std::size_t>(40, text.size() - at));
    switch (rng.below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << rng.below(8)));
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:
        text.insert(at, text.substr(at, size));
        break;
      case 3:
        text.insert(at, kPieces[rng.below(kPieces.size())]);
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text.insert(at, std::string(rng.below(9000), static_cast<char>('!' + rng.below(90))));
        break;
      default: {
        const std::string& other = from[rng.below(from.size())];
        text = text.substr(0, at) + other.substr(rng.below(other.size()));
      }
    }
  }
  return text;
}

/// What is wrong with the bytes as a sequence of whole HTTP responses; empty: nothing. Where `cut`,
/// the last one may be unfinished.
std::string objection(std::string_view bytes, bool cut) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find("\r\n\r\n");
    if (end == std::string_view::npos) return cut ? "" : "no whole header";
    std::string_view head = bytes.substr(0, end + 2);
    bytes.remove_prefix(end + 4);
    const std::string_view line = head.substr(0, head.find("\r\n"));
    int status = 0;
    if (line.size() < 12 || !line.starts_with("HTTP/1.1 ") ||
        std::from_chars(line.data() + 9, line.data() + 12, status).ptr != line.data() + 12 || status < 100 ||
        status > 599)
      return "a status line: " + std::string(line);
    std::optional<std::size_t> length;
    bool is_json = false, is_stream = false;
    for (head.remove_prefix(line.size() + 2); !head.empty();) {
      const std::string_view field = head.substr(0, head.find("\r\n"));
      head.remove_prefix(field.size() + 2);
      const std::size_t colon = field.find(": ");
      if (colon == std::string_view::npos || colon == 0) return "a field: " + std::string(field);
      const std::string_view value = field.substr(colon + 2);
      if (field.starts_with("Content-Length")) {
        std::size_t number = 0;
        if (std::from_chars(value.data(), value.data() + value.size(), number).ptr !=
            value.data() + value.size())
          return "a length: " + std::string(field);
        length = number;
      }
      is_json |= field == "Content-Type: application/json";
      is_stream |= field == "Content-Type: text/event-stream";
    }
    if (status == 100) continue;
    if (is_stream) return "";  // until the close
    if (!length) return "no length: " + std::string(line);
    if (bytes.empty() || bytes.starts_with("HTTP/1.1 ")) continue;  // of HEAD
    if (bytes.size() < *length) return cut ? "" : "half a body";
    if (is_json && !json::accept(bytes.substr(0, *length)))
      return "no JSON: " + std::string(bytes.substr(0, *length));
    bytes.remove_prefix(*length);
  }
  return "";
}

struct Heard {
  std::string bytes;
  bool closed = false;  ///< by the server
  bool cut = false;     ///< by the client, or as by a network
};

class HttpFuzzTest : public testing::Test, public ServiceHere {
 protected:
  HttpFuzzTest() {
    start({.header_bytes = 4000,
           .body_bytes = 20'000,
           .all_bodies_bytes = 200'000,
           .header_seconds = 0.3,
           .body_seconds = 0.3,
           .write_seconds = 2,
           .comment_seconds = 0.1,
           .connections = kConnections});
  }

  int connected() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  struct Manners {
    double leaves = 0.1;  ///< chance that it does not hear the answer
    double ends = 0.9;    ///< chance that it says that nothing more comes; else the server's patience ends it
  };
  /// Sends it in pieces, and hears the answers out.
  Heard talk(const std::string& text, Rng& rng, Manners manners) const {
    const UniqueFd fd(connected());
    Heard heard;
    std::size_t sent = 0;
    while (sent < text.size()) {
      const std::size_t size = rng.chance(0.8) ? text.size() - sent : 1 + rng.below(text.size() - sent);
      const ssize_t now = ::send(fd.get(), text.data() + sent, size, MSG_NOSIGNAL);
      if (now <= 0) break;
      sent += static_cast<std::size_t>(now);
      if (sent < text.size() && rng.chance(0.2)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    heard.cut = rng.chance(manners.leaves);
    if (heard.cut) return heard;
    if (rng.chance(manners.ends)) ::shutdown(fd.get(), SHUT_WR);
    const std::int64_t begin_ns = steady_clock().now_ns();
    while (seconds_since(begin_ns) < kHangSeconds) {
      pollfd readable{fd.get(), POLLIN, 0};
      if (::poll(&readable, 1, 100) == 0) continue;
      char bytes[8192];
      const ssize_t got = ::recv(fd.get(), bytes, sizeof bytes, 0);
      if (got <= 0) {
        heard.closed = true;
        heard.cut = got < 0;
        break;
      }
      heard.bytes.append(bytes, static_cast<std::size_t>(got));
      if (heard.bytes.find("text/event-stream") != std::string::npos) {  // would go on for ever
        heard.cut = true;
        break;
      }
    }
    return heard;
  }

  static constexpr int kConnections = 64;
};

int requests_of_a_thread() {
  const char* const many = std::getenv("LATHE_HTTP_FUZZ_REQUESTS");
  return (many ? std::atoi(many) : 2000) / 8;
}

TEST_F(HttpFuzzTest, EveryAnswerIsHttpOrAClose) {
  const std::vector<std::string> from = seeds();
  std::vector<std::thread> threads;
  std::atomic<int> answered{0}, talking{8};
  for (std::uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Rng rng(Seed::from_number(1000 + t));
      for (int i = 0; i < requests_of_a_thread(); ++i) {
        const std::string text = mutated(rng, from);
        const Heard heard = talk(text, rng, {});
        answered += !heard.bytes.empty();
        EXPECT_TRUE(heard.closed || heard.cut)
            << "no end to the answer to " << json(text).dump(-1, ' ', true, json::error_handler_t::replace);
        EXPECT_EQ(objection(heard.bytes, heard.cut), "")
            << json(text).dump(-1, ' ', true, json::error_handler_t::replace) << "\n"
            << heard.bytes;
      }
      --talking;
    });
  std::thread beats([&] {  // the worker's, without which it would be lost
    while (talking > 0) {
      service_->worker_said("w", WorkerBeat{});
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  for (std::thread& thread : threads) thread.join();
  beats.join();
  EXPECT_GT(answered, requests_of_a_thread() * 4) << "most requests should reach the handlers";
  const std::int64_t begin_ns = steady_clock().now_ns();
  while (server_->connections() > 0 && seconds_since(begin_ns) < 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server_->connections(), 0) << "none is kept for a client that has gone";
  EXPECT_EQ(HttpClient(port()).get("/healthz")->status, 200);
  const auto verdict =
      HttpClient(port()).post("/v1/evaluations?wait=10", R"({"task":"tiny","candidate":"afterwards"})");
  EXPECT_EQ(verdict->status, 200) << verdict->body;
}

TEST_F(HttpFuzzTest, ConnectionsBeyondTheLimitAreToldSoAndThoseInsideGoOn) {
  std::vector<std::unique_ptr<HttpClient>> inside;
  start({.header_seconds = 5, .connections = kConnections});
  for (int i = 0; i < kConnections; ++i) {
    inside.push_back(std::make_unique<HttpClient>(port()));
    ASSERT_EQ(inside.back()->get("/healthz")->status, 200) << i;
  }
  Rng rng(Seed::from_number(7));
  const std::vector<std::string> from = seeds();
  for (int i = 0; i < 50; ++i) {
    const Heard heard = talk(mutated(rng, from), rng, {.leaves = 0, .ends = 1});
    EXPECT_THAT(heard.bytes, testing::StartsWith("HTTP/1.1 503")) << i;
    EXPECT_EQ(objection(heard.bytes, false), "");
  }
  for (const auto& client : inside) EXPECT_EQ(client->get("/healthz")->status, 200);
}

}  // namespace
}  // namespace lathe::serve
