#include "base/http/curl_api.h"

#include <array>

#include "base/symbol_binder.h"

namespace lathe::http {
namespace {

Result<CurlApi> load() {
  constexpr std::array kPlaces = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  constexpr const char* kRemedy = "install it: on Debian and Ubuntu the package libcurl4";
  void* const library = open_library(kPlaces);
  if (!library)
    return Error{ErrorCode::kUnavailable, "HTTP needs libcurl.so.4, which this machine lacks", kRemedy};
  CurlApi api;
  SymbolBinder binder(library);
  binder.bind(api.global_init, "curl_global_init");
  binder.bind(api.easy_init, "curl_easy_init");
  binder.bind(api.easy_setopt, "curl_easy_setopt");
  binder.bind(api.easy_getinfo, "curl_easy_getinfo");
  binder.bind(api.easy_cleanup, "curl_easy_cleanup");
  binder.bind(api.easy_strerror, "curl_easy_strerror");
  binder.bind(api.slist_append, "curl_slist_append");
  binder.bind(api.slist_free_all, "curl_slist_free_all");
  binder.bind(api.multi_init, "curl_multi_init");
  binder.bind(api.multi_add_handle, "curl_multi_add_handle");
  binder.bind(api.multi_remove_handle, "curl_multi_remove_handle");
  binder.bind(api.multi_perform, "curl_multi_perform");
  binder.bind(api.multi_poll, "curl_multi_poll");
  binder.bind(api.multi_info_read, "curl_multi_info_read");
  binder.bind(api.multi_cleanup, "curl_multi_cleanup");
  if (binder.missing())
    return Error{ErrorCode::kUnavailable,
                 std::string("this machine's libcurl is too old: it lacks ") + binder.missing(), kRemedy};
  api.global_init(CURL_GLOBAL_DEFAULT);
  return api;
}

}  // namespace

Result<const CurlApi*> curl_api() {
  static const Result<CurlApi> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace lathe::http
