#include "serve/postgres_api.h"

#include <array>

#include "base/symbol_binder.h"

namespace lathe::serve {
namespace {

Result<PostgresApi> load_postgres() {
  constexpr std::array kPlaces = {"libpq.so.5"};
  constexpr const char* kRemedy = "install it: on Debian and Ubuntu the package libpq5";
  void* const library = open_library(kPlaces);
  if (!library)
    return Error{ErrorCode::kUnavailable, "PostgreSQL needs libpq.so.5, which this machine lacks", kRemedy};
  PostgresApi api;
  SymbolBinder binder(library);
  binder.bind(api.conninfo_parse, "PQconninfoParse");
  binder.bind(api.conninfo_free, "PQconninfoFree");
  binder.bind(api.connectdb_params, "PQconnectdbParams");
  binder.bind(api.finish, "PQfinish");
  binder.bind(api.status, "PQstatus");
  binder.bind(api.error_message, "PQerrorMessage");
  binder.bind(api.socket, "PQsocket");
  binder.bind(api.exec, "PQexec");
  binder.bind(api.set_nonblocking, "PQsetnonblocking");
  binder.bind(api.enter_pipeline_mode, "PQenterPipelineMode");
  binder.bind(api.pipeline_sync, "PQpipelineSync");
  binder.bind(api.send_prepare, "PQsendPrepare");
  binder.bind(api.send_query_prepared, "PQsendQueryPrepared");
  binder.bind(api.flush, "PQflush");
  binder.bind(api.consume_input, "PQconsumeInput");
  binder.bind(api.is_busy, "PQisBusy");
  binder.bind(api.get_result, "PQgetResult");
  binder.bind(api.result_status, "PQresultStatus");
  binder.bind(api.result_error_field, "PQresultErrorField");
  binder.bind(api.clear, "PQclear");
  binder.bind(api.ntuples, "PQntuples");
  binder.bind(api.getisnull, "PQgetisnull");
  binder.bind(api.getvalue, "PQgetvalue");
  binder.bind(api.getlength, "PQgetlength");
  if (binder.missing())
    return Error{ErrorCode::kUnavailable,
                 std::string("this machine's libpq is too old: it lacks ") + binder.missing(), kRemedy};
  return api;
}

}  // namespace

Result<const PostgresApi*> postgres_api() {
  static const Result<PostgresApi> loaded = load_postgres();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace lathe::serve
