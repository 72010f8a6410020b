#include "bench/serve/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace lathe::serve {
namespace {

int connected_socket(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// The other end has closed a connection that was idle for long.
bool has_ended(int fd) {
  char byte;
  return ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Error gone() { return {ErrorCode::kIo, "the server is gone"}; }

}  // namespace

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  rest_.clear();
}

Status HttpClient::connect() {
  if (fd_ >= 0 && has_ended(fd_)) close();
  if (fd_ < 0) fd_ = connected_socket(port_);
  if (fd_ < 0) return gone();
  return Ok{};
}

Result<HttpAnswer> HttpClient::ask(const std::string& method, const std::string& target,
                                   const std::string& body,
                                   const std::map<std::string, std::string>& headers) {
  LATHE_CHECK_OK(connect());
  std::string request = method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  if (!token_.empty()) request += "Authorization: Bearer " + token_ + "\r\n";
  if (method == "POST" && !headers.contains("Content-Type")) request += "Content-Type: application/json\r\n";
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  if (method == "POST") request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  request += "\r\n" + body;
  if (!send_all(fd_, request)) return close(), gone();
  auto answer = read_answer();
  if (!answer.ok() || answer->headers["connection"] == "close") close();
  return answer;
}

Result<HttpAnswer> HttpClient::read_answer() {
  const auto more = [&] {
    char bytes[16384];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got > 0) rest_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t end = 0;
  while ((end = rest_.find("\r\n\r\n")) == std::string::npos)
    if (!more()) return gone();
  HttpAnswer answer;
  answer.status = std::atoi(rest_.c_str() + 9);
  for (std::size_t at = rest_.find("\r\n") + 2; at < end;) {
    const std::size_t line = rest_.find("\r\n", at), colon = rest_.find(':', at);
    std::string name = rest_.substr(at, colon - at);
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    answer.headers[name] = rest_.substr(colon + 2, line - colon - 2);
    at = line + 2;
  }
  rest_.erase(0, end + 4);
  const auto size = static_cast<std::size_t>(std::atoll(answer.headers["content-length"].c_str()));
  while (rest_.size() < size)
    if (!more()) return gone();
  answer.body = rest_.substr(0, size);
  rest_.erase(0, size);
  return answer;
}

std::string HttpClient::exchange(int port, const std::string& bytes, double seconds) {
  std::string answer;
  const int fd = connected_socket(port);
  if (fd < 0) return answer;
  (void)send_all(fd, bytes);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd readable{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    char buffer[4096];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return answer;
}

}  // namespace lathe::serve
