#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

/// Skips the case because there is no GPU; fails it under `./run test --gpu`, which sets
/// LATHE_REQUIRE_GPU.
#define LATHE_WITHOUT_GPU(why)                                         \
  do {                                                                 \
    if (std::getenv("LATHE_REQUIRE_GPU")) FAIL() << "no GPU: " << why; \
    GTEST_SKIP() << "no GPU: " << why;                                 \
  } while (false)
