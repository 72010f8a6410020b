#pragma once

#include <libpq-fe.h>

#include "base/result.h"

namespace lathe::serve {

/// The part of libpq that is used. It is bound at run time: only front ends with a PostgreSQL store
/// need it, and TLS and passwords are the machine's matter.
struct PostgresApi {
  decltype(&::PQconninfoParse) conninfo_parse = nullptr;
  decltype(&::PQconninfoFree) conninfo_free = nullptr;
  decltype(&::PQconnectdbParams) connectdb_params = nullptr;
  decltype(&::PQfinish) finish = nullptr;
  decltype(&::PQstatus) status = nullptr;
  decltype(&::PQerrorMessage) error_message = nullptr;
  decltype(&::PQsocket) socket = nullptr;
  decltype(&::PQexec) exec = nullptr;
  decltype(&::PQsetnonblocking) set_nonblocking = nullptr;
  decltype(&::PQenterPipelineMode) enter_pipeline_mode = nullptr;
  decltype(&::PQpipelineSync) pipeline_sync = nullptr;
  decltype(&::PQsendPrepare) send_prepare = nullptr;
  decltype(&::PQsendQueryPrepared) send_query_prepared = nullptr;
  decltype(&::PQflush) flush = nullptr;
  decltype(&::PQconsumeInput) consume_input = nullptr;
  decltype(&::PQisBusy) is_busy = nullptr;
  decltype(&::PQgetResult) get_result = nullptr;
  decltype(&::PQresultStatus) result_status = nullptr;
  decltype(&::PQresultErrorField) result_error_field = nullptr;
  decltype(&::PQclear) clear = nullptr;
  decltype(&::PQntuples) ntuples = nullptr;
  decltype(&::PQgetisnull) getisnull = nullptr;
  decltype(&::PQgetvalue) getvalue = nullptr;
  decltype(&::PQgetlength) getlength = nullptr;
};

/// Loaded once. Errors: kUnavailable where there is no libpq of PostgreSQL 14 or later.
Result<const PostgresApi*> postgres_api();

}  // namespace lathe::serve
