#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace lathe::http {

struct Request {
  std::string url;
  std::string method = {};                ///< empty: GET, or POST where there is a body
  std::vector<std::string> headers = {};  ///< "Name: value"
  std::string body = {};
  double connect_seconds = 10;
  double idle_seconds = 300;  ///< without a byte
  double total_seconds = 900;
  std::size_t max_bytes = std::size_t{32} << 20;  ///< of the reply's body
  CancelToken cancel = {};
  /// Takes the body of a reply of status 200 piece by piece; an error ends the request with it.
  /// Without it the body is collected.
  std::function<Status(std::string_view)> on_data = {};
};

struct Reply {
  int status = 0;
  std::string body = {};  ///< what `on_data` has not taken
  double retry_after_seconds = 0;
};

/// Whether the URL is http:// or https:// with a host, and holds no secrets: no user, no query.
Status check_url(const std::string& url);
bool is_loopback(const std::string& url);

/// A token or key as a variable or a file has it, without the white space around it. Errors:
/// kInvalid where a header could not carry it; the message shows `name`, never the secret.
Result<std::string> header_secret(std::string_view secret, const std::string& name);

/// Requests to one server, one at a time; what connection there is stays open for the next one.
/// Redirections are not followed.
class Connection {
 public:
  Connection();
  ~Connection();
  /// Errors: kUnavailable where nobody answers, kTimeout, kIo where the connection breaks,
  /// kCancelled soon after the token is raised, kCorrupt for a reply that is too long, kInvalid for
  /// a certificate that is not trusted.
  Result<Reply> exchange(const Request& request);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

/// One request over a connection of its own. Thread-safe. Errors as above.
Result<Reply> exchange(const Request& request);

}  // namespace lathe::http
