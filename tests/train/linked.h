#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "train/links.h"

namespace lathe::train {

/// The ends that the processes of a run would have.
inline std::vector<Links> linked(int size) {
  std::vector<UniqueFd> others;
  std::vector<Links> links(1);
  for (int rank = 1; rank < size; ++rank) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    others.emplace_back(ends[0]);
    links.emplace_back(rank, size, UniqueFd(ends[1]));
  }
  links[0] = Links(std::move(others));
  return links;
}

}  // namespace lathe::train
