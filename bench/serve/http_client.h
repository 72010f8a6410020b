#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace lathe::serve {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// One connection to 127.0.0.1 that is kept open, made again where it has ended. For tests and
/// benchmarks.
class HttpClient {
 public:
  explicit HttpClient(int port, std::string token = {}) : port_(port), token_(std::move(token)) {}
  ~HttpClient();

  /// Errors: kIo where the server is gone: whether it has done what was asked is not known.
  Result<HttpAnswer> get(const std::string& target) { return ask("GET", target, {}); }
  Result<HttpAnswer> post(const std::string& target, const std::string& json) {
    return ask("POST", target, json);
  }
  Result<HttpAnswer> remove(const std::string& target) { return ask("DELETE", target, {}); }
  Result<HttpAnswer> ask(const std::string& method, const std::string& target, const std::string& body,
                         const std::map<std::string, std::string>& headers = {});
  /// Sends bytes as they are; gives what comes back until the server closes, or until `seconds`
  /// have passed.
  static std::string exchange(int port, const std::string& bytes, double seconds);

 private:
  Status connect();
  Result<HttpAnswer> read_answer();
  void close();

  int port_;
  std::string token_;
  int fd_ = -1;
  std::string rest_;
};

}  // namespace lathe::serve
