#pragma once

// What CPU candidates may include: fp32 vectors as wide as the machine's, accurate vector math, masked tails,
// and the integer functions of plan expressions. Header-only, without state, precompiled by the build jail.
// Compiled with -march=native; needs AVX2 and FMA at least, and uses AVX-512 where it is there.

#include "lathe/cpu/gemm.h"
#include "lathe/cpu/integer.h"
#include "lathe/cpu/move.h"
#include "lathe/cpu/pow.h"
#include "lathe/cpu/reduce.h"
#include "lathe/cpu/scalar_math.h"
#include "lathe/cpu/transpose.h"
#include "lathe/cpu/vector.h"
#include "lathe/cpu/vector_math.h"
