#include "tests/policy/openai/scripted_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

using nlohmann::json;

std::pair<UniqueFd, int> listen_on_loopback() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(fd.get(), generic, size), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_EQ(::getsockname(fd.get(), generic, &size), 0);
  return {std::move(fd), ntohs(address.sin_port)};
}

std::size_t content_length(const std::string& head) {
  std::size_t at = head.find("Content-Length:"), length = 0;
  if (at == std::string::npos) return 0;
  at = head.find_first_of("0123456789", at);
  std::from_chars(head.data() + at, head.data() + head.size(), length);
  return length;
}

}  // namespace

bool ScriptedServer::Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool ScriptedServer::Connection::reply(int status, std::string_view body,
                                       std::string_view more_headers) const {
  return send("HTTP/1.1 " + std::to_string(status) + " Scripted\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n" + std::string(more_headers) + "\r\n" + std::string(body));
}

bool ScriptedServer::Connection::begin_stream() const {
  return send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n");
}

bool ScriptedServer::Connection::event(std::string_view data) const {
  return send("data: " + std::string(data) + "\n\n");
}

bool ScriptedServer::Connection::client_left(int milliseconds) const {
  pollfd waited{fd_, POLLIN | POLLRDHUP, 0};
  return ::poll(&waited, 1, milliseconds) > 0;
}

ScriptedServer::ScriptedServer(Handler handler) : handler_(std::move(handler)) {
  std::tie(listener_, port_) = listen_on_loopback();
  acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<ScriptedServer::Request> ScriptedServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void ScriptedServer::serve(int fd) {
  const UniqueFd owned(fd);
  Request request;
  std::string bytes;
  char buffer[1 << 14];
  std::size_t head_end = std::string::npos;
  while (head_end == std::string::npos || bytes.size() < head_end + 4 + content_length(request.head)) {
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    bytes.append(buffer, static_cast<std::size_t>(got));
    head_end = bytes.find("\r\n\r\n");
    if (head_end == std::string::npos) continue;
    request.head = bytes.substr(0, head_end);
    if (request.head.find("Expect: 100-continue") != std::string::npos && bytes.size() == head_end + 4)
      Connection(fd).send("HTTP/1.1 100 Continue\r\n\r\n");
  }
  request.body = bytes.substr(head_end + 4);
  {
    std::lock_guard lock(mutex_);
    request.number = static_cast<int>(requests_.size());
    requests_.push_back(request);
  }
  handler_(request, Connection(fd));
}

std::string refusing_url() {
  const auto [fd, port] = listen_on_loopback();
  return "http://127.0.0.1:" + std::to_string(port) + "/v1";
}

std::string completion_json(const std::vector<std::string>& answers, int prompt_tokens, int answer_tokens) {
  json document = {{"model", "scripted"},
                   {"choices", json::array()},
                   {"usage", {{"prompt_tokens", prompt_tokens}, {"completion_tokens", answer_tokens}}}};
  for (std::size_t i = 0; i < answers.size(); ++i)
    document["choices"].push_back({{"index", i},
                                   {"finish_reason", "stop"},
                                   {"message", {{"role", "assistant"}, {"content", answers[i]}}}});
  return document.dump();
}

std::string chunk_json(const std::string& text, const std::string& finish, int index) {
  json choice = {{"index", index}, {"delta", {{"content", text}}}, {"finish_reason", nullptr}};
  if (!finish.empty()) choice["finish_reason"] = finish;
  return json({{"model", "scripted"}, {"choices", {choice}}}).dump();
}

}  // namespace lathe
