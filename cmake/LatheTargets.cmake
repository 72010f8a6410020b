# One warnings target, and one function that makes a folder's library.
include(GoogleTest)

add_library(lathe_warnings INTERFACE)
target_compile_options(lathe_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wconversion
  -Wno-sign-conversion -Wno-missing-field-initializers -Werror)

# lathe_library(<folder> SOURCES ... DEPS ... [PRIVATE_DEPS ...] [ALONE ...])
# Makes the target lathe_<folder> (slashes become underscores); DEPS are folders or imported targets. ALONE are sources
# that LATHE_UNITY leaves alone, for their names are their neighbours' too. COLD: nobody waits for what it computes, so
# it is compiled at -O1, in two thirds of the time.
function(lathe_library folder)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;DEPS;PRIVATE_DEPS;ALONE" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  set(target lathe_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE lathe_warnings ${ARG_PRIVATE_DEPS})
    if(ARG_COLD)
      target_compile_options(${target} PRIVATE -O1)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} ${scope} ${ARG_DEPS})
  add_library(lathe::${name} ALIAS ${target})
endfunction()

# What `./run test` builds and runs a second time under sanitizers: the parsers of untrusted bytes, and what has threads.
add_custom_target(sanitized_parsers)
add_custom_target(sanitized_threads)

# lathe_test(<name> SOURCES ... DEPS ... [LABELS ...] [PROPERTIES ...] [ALONE ...] [ON_GPU] [TOGETHER]): one GoogleTest
# program, each case a CTest test. ALONE as of lathe_library. TOGETHER: the program is a single one, for its cases share
# what takes seconds to set up, or are thousands of a millisecond.
# ON_GPU: it runs kernels where there is a GPU, one case at a time. The labels `parsers` and `threads` make it one of
# those that run under sanitizers too.
function(lathe_test name)
  cmake_parse_arguments(ARG "ON_GPU;TOGETHER" "" "SOURCES;DEPS;LABELS;PROPERTIES;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${LATHE_UNITY})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PRIVATE lathe_warnings ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE LATHE_SOURCE_DIR="${LATHE_SOURCE_DIR}"
                                             LATHE_BINARY_DIR="${LATHE_BINARY_DIR}")
  # Nobody waits for a test's own code; compiling it takes half of the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Og>)
  set(labels ${ARG_LABELS})
  foreach(kind IN ITEMS parsers threads)
    if(kind IN_LIST labels)
      add_dependencies(sanitized_${kind} ${name})
    endif()
  endforeach()
  set(lock)
  if(ARG_ON_GPU)
    set(lock RESOURCE_LOCK gpu)
    if(NOT labels)
      set(labels gpu)
    endif()
  endif()
  string(JOIN "+" labels ${labels})  # the discovery keeps one label; ctest -L finds parts of it
  if(ARG_TOGETHER)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${lock} ${ARG_PROPERTIES} LABELS "${labels}")
  else()
    gtest_discover_tests(${name} PROPERTIES ${lock} ${ARG_PROPERTIES} LABELS "${labels}" DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
