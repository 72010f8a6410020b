#pragma once

namespace lathe::catalog {

/// For what a program is written. A GPU's vector unit is a team of threads (lathe/cuda/team.cuh).
struct Target {
  bool cuda = false;
  int lanes = 16;                 ///< fp32 in a vector
  bool bf16_pairs = false;        ///< processors: one instruction multiplies pairs of bf16
  int team = 0, vector = 0;       ///< CUDA: threads of a team, neighbouring elements of a thread
  int cluster = 8;                ///< CUDA: blocks that may form a cluster; 1 where there are none
  int shared_bytes = 227 * 1024;  ///< CUDA: of a block
  int multiprocessors = 132;      ///< CUDA
  bool warpgroups = true;         ///< CUDA: has wgmma, as Hopper alone
  bool fixed = false;             ///< CUDA: dims are compiled in; tensors are aligned as Lathe's are

  /// How many elements `vectors` vectors hold; on processors the same with AVX2 and AVX-512.
  int block_floats(int vectors) const { return (cuda ? lanes : 16) * vectors; }
};

}  // namespace lathe::catalog
