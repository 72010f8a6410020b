#pragma once

#include <memory>

#include "serve/api.h"
#include "serve/kernelgym/request.h"
#include "serve/service.h"

namespace lathe::serve::kernelgym {

/// KernelGYM's HTTP interface in front of Lathe's own, into which it translates: docs/kernelgym.md
/// has the fields. Paths that are not KernelGYM's are `api`'s, and so is what both have
/// (/metrics). Who may do what, limits and durability are those of /v1. `where` is the kind of the
/// service's device. `service` must outlive the handler's server.
HttpHandler adapt(Service& service, std::shared_ptr<Api> api, Computes where);

/// What it takes besides the Api's, and what GET /openapi.json says of that.
std::vector<Api::Operation> operations();
extern const char* const kOpenApiAdditions;

}  // namespace lathe::serve::kernelgym
