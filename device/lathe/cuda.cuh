#pragma once

// What CUDA candidates may include: the functions of formulas, teams of threads as vector units, tiles of
// matrix products and transpositions. Header-only, without state; compiled by NVRTC for sm_80 and later.

#include "lathe/cuda/half.cuh"
#include "lathe/cuda/math.cuh"
#include "lathe/cuda/team.cuh"
#include "lathe/cuda/tensor_gemm.cuh"
#include "lathe/cuda/turn.cuh"
