#include "base/http/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/http/curl_api.h"

namespace lathe::http {
namespace {

constexpr int kPollMilliseconds = 50;  // between looks at the cancel token

/// What the callbacks of one exchange share.
struct Exchange {
  const CurlApi& api;
  const Request& request;
  CURL* easy = nullptr;
  Reply reply = {};
  Status status = Ok{};
  std::size_t bytes = 0;
  std::int64_t last_byte_ns = steady_clock().now_ns();

  long http_status() const {
    long code = 0;
    api.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  Status take(std::string_view data) {
    last_byte_ns = steady_clock().now_ns();
    bytes += data.size();
    if (bytes > request.max_bytes)
      return Error{ErrorCode::kCorrupt,
                   fmt::format("the reply is longer than {} MiB", request.max_bytes >> 20)};
    if (request.on_data && http_status() == 200) return request.on_data(data);
    reply.body.append(data);
    return Ok{};
  }
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* state) {
  Exchange& exchange = *static_cast<Exchange*>(state);
  exchange.status = exchange.take({data, size * count});
  return exchange.status.ok() ? size * count : 0;
}

/// No process that is started meanwhile, least of all a jail, inherits the connection.
curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return "";
  std::string rest = url.substr(begin + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (rest.starts_with("[")) return rest.substr(0, rest.find(']') + 1);
  return rest.substr(0, rest.find(':'));
}

Error error_of(const CurlApi& api, CURLcode code, const Request& request) {
  const std::string where = host_of(request.url);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {ErrorCode::kUnavailable, fmt::format("there is no host '{}'", where)};
    case CURLE_COULDNT_CONNECT:
      return {ErrorCode::kUnavailable, fmt::format("nobody answers at {}", request.url)};
    case CURLE_OPERATION_TIMEDOUT:
      return {ErrorCode::kTimeout, fmt::format("{} takes too long to answer", where)};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
      return {ErrorCode::kInvalid, fmt::format("no trusted TLS with {}: {}", where, api.easy_strerror(code)),
              "check the URL's scheme and host, and the machine's certificates (ca-certificates)"};
    default:
      return {ErrorCode::kIo, fmt::format("the connection to {} broke: {}", where, api.easy_strerror(code))};
  }
}

}  // namespace

Status check_url(const std::string& url) {
  const bool scheme = url.starts_with("http://") || url.starts_with("https://");
  if (!scheme || host_of(url).empty())
    return invalid(fmt::format("'{}' is no URL of a server", url), "write it as http://HOST:PORT");
  if (url.find_first_of("@?# \t\r\n") != std::string::npos)
    return invalid("the URL holds a user, a query or a blank", "keys come from the environment");
  return Ok{};
}

bool is_loopback(const std::string& url) {
  const std::string host = host_of(url);
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

Result<std::string> header_secret(std::string_view secret, const std::string& name) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = secret.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return std::string();
  secret = secret.substr(begin, secret.find_last_not_of(kBlanks) + 1 - begin);
  if (std::any_of(secret.begin(), secret.end(), [](char c) { return c <= ' ' || c > '~'; }))
    return invalid(name + " has blanks, control characters or other characters that no token has",
                   "put the token alone there, on one line");
  return std::string(secret);
}

struct Connection::Handles {
  const CurlApi& api;
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi;  // has the connections
};

Connection::Connection() = default;
Connection::~Connection() = default;

Result<Reply> Connection::exchange(const Request& request) {
  LATHE_TRY(const CurlApi* const found, curl_api());
  const CurlApi& api = *found;
  if (!handles_) handles_ = std::make_unique<Handles>(Handles{api, {api.multi_init(), api.multi_cleanup}});
  const std::unique_ptr<CURL, void (*)(CURL*)> easy(api.easy_init(), api.easy_cleanup);
  CURLM* const multi = handles_->multi.get();
  if (!easy || !multi) return Error{ErrorCode::kUnavailable, "libcurl has no memory for a request"};
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = api.slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, api.slist_free_all);

  Exchange exchange{api, request, easy.get()};
  const auto set = [&](CURLoption option, auto value) { api.easy_setopt(easy.get(), option, value); };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(1e3 * request.connect_seconds));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(1e3 * request.total_seconds));
  set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
  if (is_loopback(request.url)) set(CURLOPT_PROXY, "");
  if (!request.body.empty()) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  if (!request.method.empty()) set(CURLOPT_CUSTOMREQUEST, request.method.c_str());

  api.multi_add_handle(multi, easy.get());
  CURLcode code = CURLE_OK;
  for (int running = 1; running > 0;) {
    api.multi_perform(multi, &running);
    if (running == 0) break;
    if (request.cancel.cancelled())
      exchange.status = Error{ErrorCode::kCancelled, "the request was cancelled"};
    else if (seconds_since(exchange.last_byte_ns) > request.idle_seconds)
      exchange.status = error_of(api, CURLE_OPERATION_TIMEDOUT, request);
    if (!exchange.status.ok()) break;
    api.multi_poll(multi, nullptr, 0, kPollMilliseconds, nullptr);
  }
  for (int left = 0; const CURLMsg* const message = api.multi_info_read(multi, &left);)
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  exchange.reply.status = static_cast<int>(exchange.http_status());
  curl_off_t wait = 0;
  if (api.easy_getinfo(easy.get(), CURLINFO_RETRY_AFTER, &wait) == CURLE_OK)
    exchange.reply.retry_after_seconds = static_cast<double>(wait);
  api.multi_remove_handle(multi, easy.get());
  LATHE_CHECK_OK(exchange.status);
  if (code != CURLE_OK) return error_of(api, code, request);
  return std::move(exchange.reply);
}

Result<Reply> exchange(const Request& request) { return Connection().exchange(request); }

}  // namespace lathe::http
