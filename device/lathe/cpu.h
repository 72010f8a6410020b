#pragma once

// The header that CPU candidates may include: fp32 vectors of the machine's width, accurate vector
// math, masked tails, and the integer functions of plan expressions. Header-only and stateless;
// precompiled by the tool chain. Compiled with -march=native; requires AVX2 and FMA and uses
// AVX-512 if available.

#include "lathe/cpu/exact.h"
#include "lathe/cpu/fp8.h"
#include "lathe/cpu/gemm.h"
#include "lathe/cpu/half.h"
#include "lathe/cpu/integer.h"
#include "lathe/cpu/move.h"
#include "lathe/cpu/pairs.h"
#include "lathe/cpu/pow.h"
#include "lathe/cpu/product.h"
#include "lathe/cpu/reduce.h"
#include "lathe/cpu/scalar_math.h"
#include "lathe/cpu/scatter.h"
#include "lathe/cpu/single.h"
#include "lathe/cpu/sort.h"
#include "lathe/cpu/transpose.h"
#include "lathe/cpu/vector.h"
#include "lathe/cpu/vector_math.h"
#include "lathe/cpu/window.h"
