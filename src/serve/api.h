#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/events.h"
#include "serve/http_server.h"
#include "serve/service.h"
#include "serve/tokens.h"

namespace lathe::serve {

struct ApiOptions {
  std::string device_kind;  ///< of the evaluations that are asked for, and of workers elsewhere
  std::string gym_version;
  std::vector<StoredTask> own_tasks;      ///< known by name; the ledger has them
  std::vector<StoredTask> known_tasks;    ///< known by digest: all that the ledger has
  std::int64_t max_unfinished = 100'000;  ///< of the one client that there is without tokens
  bool open_without_tokens = true;        ///< else nobody may do anything where there are none
  std::function<int()> quarantined_workers = [] { return 0; };
};

/// The HTTP interface that GET /openapi.json describes (docs/service.md has it by example).
///
/// An interface in front of it may name requests, see Service::find_named().
class Api {
 public:
  /// `service` and `events` must outlive it and the handler's server.
  static std::shared_ptr<Api> make(Service& service, ApiOptions options, EventSink& events);
  virtual ~Api() = default;
  virtual HttpHandler handler() = 0;
  /// From now on. Until there are tokens everybody who reaches the port is the client "local" and
  /// may do everything; once there have been some, nobody without one may do anything.
  virtual void set_tokens(Tokens tokens) = 0;
  /// Who asks; nobody where there is no such token.
  virtual std::optional<Principal> principal_of(const HttpRequest& request) = 0;
  /// The request's own id if it has a usable one, else a new one.
  virtual std::string trace_of(const HttpRequest& request) = 0;
  /// As POST /v1/evaluations does; of what is taken the answer has the "id" alone.
  virtual void submit_named(HttpRequest request, Naming naming, Respond respond) = 0;
  /// Tasks that the ledger has besides: other front ends add to it.
  virtual void add_known_tasks(const std::vector<StoredTask>& tasks) = 0;

  struct Operation {
    const char* method;
    const char* path;                  ///< as in the document: "/v1/evaluations/{id}"
    std::set<std::string> query = {};  ///< names of its parameters; others are refused
  };
  static std::vector<Operation> operations();
};

/// The OpenAPI 3.1 document.
extern const char* const kOpenApiDocument;

}  // namespace lathe::serve
