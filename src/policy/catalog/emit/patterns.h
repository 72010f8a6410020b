#pragma once

#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {

/// What an emitter gets: one group, where its text goes, and who decides its knobs. Knob names start with
/// `prefix`, kernel names too.
struct Site {
  const Group& group;
  Program& program;
  Choices& choices;
  std::string prefix;  ///< "g0"

  const Graph& graph() const { return program.graph(); }
  const Primitive& node(std::size_t i) const {
    return graph().nodes[static_cast<std::size_t>(group.nodes[i])];
  }
  int knob(const std::string& name, const std::vector<int>& allowed, int fallback) const {
    return choices.pick(prefix + "." + name, allowed, fallback);
  }
};

/// The function of lathe/cpu.h that copies contiguous rows, by the knob "copy".
std::string row_copier(const Site& site);

/// Loops over elements and, in passes, reductions over the same axes: maps, softmax, norms, sums, argmax.
Status emit_nest(const Site& site);
/// Packed, register-tiled matrix products with an elementwise epilogue.
Status emit_contraction(const Site& site);
/// Direct convolutions and transposed ones on register tiles, with an elementwise epilogue.
Status emit_convolution(const Site& site);
/// Sliding maxima and means, lanes along the output's rows.
Status emit_pool(const Site& site);
Status emit_scan(const Site& site);
/// Transpositions and other permutations of axes.
Status emit_permute(const Site& site);
/// A convolution on a GPU, one thread an element of the result.
Status emit_direct_convolution(const Site& site);
/// Copies: concat, slice, pad, flip, gather.
Status emit_move(const Site& site);

}  // namespace lathe::catalog
