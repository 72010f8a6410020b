# The small libraries as static ones under the names that their packages give the shared ones. Debian has no static
# fmt: it is compiled from its own headers.
function(lathe_static_library target archive header)
  find_library(${target}_ARCHIVE ${archive} REQUIRED)
  find_path(${target}_HEADERS ${header} REQUIRED)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_ARCHIVE}
                                             INTERFACE_INCLUDE_DIRECTORIES ${${target}_HEADERS})
endfunction()
lathe_static_library(SQLite::SQLite3 libsqlite3.a sqlite3.h)
lathe_static_library(PkgConfig::SODIUM libsodium.a sodium.h)
lathe_static_library(PkgConfig::SECCOMP libseccomp.a seccomp.h)
lathe_static_library(PkgConfig::UTF8PROC libutf8proc.a utf8proc.h)

add_library(fmt_static STATIC ${CMAKE_CURRENT_LIST_DIR}/static/fmt.cpp)
add_library(fmt::fmt ALIAS fmt_static)

if(NOT LATHE_WITH_TORCH)  # LibTorch's exceptions and strings cross into Lathe: both use one C++ library
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
