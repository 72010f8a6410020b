#pragma once

/// Before a function: compiled for several kinds of processor, of which the program's start chooses
/// one. Not under Clang and sanitizers, whose own start comes after that choice.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LATHE_VERSIONS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LATHE_VERSIONS
#endif
