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
  std::string method;
  std::string path;                            ///< as sent, without the query
  std::map<std::string, std::string> query;    ///< decoded
  std::map<std::string, std::string> headers;  ///< names in lower case; of several equal ones the last
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

  /// A body that comes in pieces: called for each, one at a time, and gives it by the callback,
  /// from any thread; nothing is the end. While none comes, comments keep the connection open.
  using Piece = std::function<void(std::optional<std::string>)>;
  std::function<void(Piece)> stream = {};
  std::function<void()> gone = {};  ///< the client has left before the stream's end
};

struct HttpLimits {
  std::size_t header_bytes = 16 << 10;
  std::size_t body_bytes = 16 << 20;
  double header_seconds = 20;   ///< from the connection, or the last response, to a request's whole header
  double body_seconds = 30;     ///< for a whole body
  double write_seconds = 30;    ///< for a whole response, or a piece
  double comment_seconds = 15;  ///< between the comments of a silent stream
  int connections = 2000;
};

/// Answers a request, from any thread, once.
using Respond = std::function<void(HttpResponse)>;
struct HttpHandler {
  /// Looks at a request without its body; a response here refuses it.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> admit;
  std::function<void(HttpRequest, Respond)> handle;
  /// What a request that is no HTTP, or too large or too slow, is answered with.
  std::function<HttpResponse(int status, const std::string& why)> fault;
};

/// HTTP/1.1 with one thread for all connections: a client that waits costs no thread.
class HttpServer {
 public:
  /// Listens on `address` ("127.0.0.1"); port 0 takes a free one. Errors: kIo where that can't be.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address, int port,
                                                   const HttpLimits& limits, HttpHandler handler);
  virtual ~HttpServer() = default;
  /// Nothing is handled any more, and answers go nowhere. They may still be given, until it is
  /// destroyed.
  virtual void stop() = 0;
  virtual int port() const = 0;
  virtual void stop_listening() = 0;
  virtual std::int64_t connections() const = 0;
};

}  // namespace lathe::serve
