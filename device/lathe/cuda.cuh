#pragma once

// What CUDA candidates may include: the functions of formulas, vectors of neighbouring elements, reductions
// over warps and blocks. Header-only, without state; compiled by NVRTC for sm_80 and later.

#include "lathe/cuda/math.cuh"
#include "lathe/cuda/team.cuh"
