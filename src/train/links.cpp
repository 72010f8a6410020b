#include "train/links.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

namespace lathe::train {
namespace {

constexpr std::int64_t kNumbersAtOnce = 1 << 18;

Error gone() {
  return {ErrorCode::kUnavailable, "a process of the run is gone",
          "go on from the last checkpoint: --resume"};
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace

Links::Links(std::vector<UniqueFd> others)
    : size_(static_cast<int>(others.size()) + 1), sockets_(std::move(others)) {}

Links::Links(int rank, int size, UniqueFd first) : rank_(rank), size_(size) {
  assert(0 < rank && rank < size);
  sockets_.push_back(std::move(first));
}

Status Links::send(std::size_t link, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(sockets_[link].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return gone();
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return Ok{};
}

Status Links::receive(std::size_t link, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(sockets_[link].get(), bytes.data(), bytes.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return gone();
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return Ok{};
}

Status Links::spread(std::span<std::byte> bytes) const {
  for (std::size_t link = 0; link < count(); ++link)
    LATHE_CHECK_OK(rank_ == 0 ? send(link, bytes) : receive(link, bytes));
  return Ok{};
}

bool Links::broken() const {
  return std::ranges::any_of(sockets_, [](const UniqueFd& socket) {
    pollfd end{socket.get(), POLLRDHUP, 0};
    return ::poll(&end, 1, 0) > 0;
  });
}

void Links::wait_for_end() const {
  std::byte nothing{};
  for (std::size_t link = 0; link < count(); ++link)
    while (receive(link, {&nothing, 1}).ok()) {
    }
}

Status check_equal(Reducer& reducer, std::int64_t number, const char* what) {
  const at::Tensor mine = at::full({1}, number, at::kLong);
  std::array<at::Tensor, 1> sum{mine.clone()};
  LATHE_CHECK_OK(reducer.sum(sum));
  if (at::equal(sum[0], mine * reducer.size())) return Ok{};
  return Error{ErrorCode::kInternal, fmt::format("the processes of the run have different {}", what)};
}

Status LinkReducer::sum(std::span<at::Tensor> tensors) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    assert(tensor.is_cpu() && tensor.is_contiguous());
    const at::Tensor flat = tensor.detach().view({-1});
    for (std::int64_t first = 0; first < flat.numel(); first += kNumbersAtOnce) {
      const at::Tensor part = flat.narrow(0, first, std::min(kNumbersAtOnce, flat.numel() - first));
      if (rank() > 0) {
        LATHE_CHECK_OK(links_.send(0, bytes_of(part)));
        LATHE_CHECK_OK(links_.receive(0, bytes_of(part)));
        continue;
      }
      const at::Tensor other = at::empty_like(part);
      for (std::size_t link = 0; link < links_.count(); ++link) {
        LATHE_CHECK_OK(links_.receive(link, bytes_of(other)));
        part.add_(other);
      }
      for (std::size_t link = 0; link < links_.count(); ++link)
        LATHE_CHECK_OK(links_.send(link, bytes_of(part)));
    }
  }
  return Ok{};
}

}  // namespace lathe::train
