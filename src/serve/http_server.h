#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::serve {

struct HttpRequest {
  std::string method;                          ///< HEAD comes as GET: the server leaves the body out
  std::string path;                            ///< as sent, without the query
  std::map<std::string, std::string> query;    ///< decoded
  std::map<std::string, std::string> headers;  ///< names in lower case; of a repeated one the last
  std::string body;

  std::string header(const std::string& lower_case_name) const {
    const auto found = headers.find(lower_case_name);
    return found == headers.end() ? "" : found->second;
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};

  /// Produces a body in pieces. Called once for each piece, which it passes to the callback on any
  /// thread; nullopt ends the body. Between pieces, comments keep the connection open.
  using Piece = std::function<void(std::optional<std::string>)>;
  std::function<void(Piece)> stream = {};
  std::function<void()> gone = {};  ///< called if the client leaves before the end of the stream
};

struct HttpLimits {
  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 16 << 20;
  std::size_t all_bodies_bytes = 256 << 20;  ///< of bodies that are on their way at a time
  double header_seconds = 20;   ///< from connecting, or the last response, to the end of a request's header
  double body_seconds = 30;     ///< for a whole body
  double write_seconds = 30;    ///< for a whole response, or a piece
  double comment_seconds = 15;  ///< between the comments of a silent stream
  int connections = 2000;
};

/// Answers a request; called once, on any thread.
using Respond = std::function<void(HttpResponse)>;
struct HttpHandler {
  /// Sees a request before its body; returning a response refuses it.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> admit;
  std::function<void(HttpRequest, Respond)> handle;
  /// The answer to a request that is not HTTP, or too large or too slow.
  std::function<HttpResponse(int status, const std::string& why)> fault;
};

/// "HOST:PORT", with brackets around a host of IPv6.
std::string host_and_port(const std::string& address, int port);

/// HTTP/1.1 with one thread for all connections, so that waiting clients cost no threads.
class HttpServer {
 public:
  /// Listens on `address` ("127.0.0.1", "::1"); port 0 picks a free one. Errors: kIo if it cannot
  /// listen.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address, int port,
                                                   const HttpLimits& limits, HttpHandler handler);
  virtual ~HttpServer() = default;
  /// No request is handled any more. Answers may still be given until the server is destroyed, and
  /// are dropped.
  virtual void stop() = 0;
  virtual int port() const = 0;
  virtual std::int64_t connections() const = 0;
};

}  // namespace lathe::serve
