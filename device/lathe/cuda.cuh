#pragma once

// The header that CUDA candidates may include: elementwise functions, teams of threads as vector
// units, tiles of matrix products and transpositions. Header-only and stateless; compiled by NVRTC
// for sm_80 and later.

#include "lathe/cuda/half.cuh"
#include "lathe/cuda/math.cuh"
#include "lathe/cuda/team.cuh"
#include "lathe/cuda/tensor_gemm.cuh"
#include "lathe/cuda/turn.cuh"
