#pragma once

namespace lathe::catalog {

/// For what the text is written. A GPU's vector unit is a team of threads (lathe/cuda/team.cuh).
struct Target {
  bool cuda = false;
  int lanes = 16;                 ///< fp32 in a vector
  int team = 0, vector = 0;       ///< CUDA: threads of a team, neighbouring elements of a thread
  int cluster = 8;                ///< CUDA: blocks that may form a cluster; 1 where there are none
  int shared_bytes = 227 * 1024;  ///< CUDA: of a block
  int multiprocessors = 132;      ///< CUDA
  bool fixed = false;             ///< CUDA: dims are compiled in; tensors are aligned as Lathe's are
};

}  // namespace lathe::catalog
