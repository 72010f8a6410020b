#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace lathe::lm {

/// Tokens of one page of the key-value cache.
inline constexpr std::int32_t kPageTokens = 32;

constexpr std::int32_t pages_for(std::int64_t tokens) {
  return static_cast<std::int32_t>((tokens + kPageTokens - 1) / kPageTokens);
}

/// Which pages of the cache are free, and how many sequences share each other page. Page 0 is never
/// given out: idle rows write there.
class PagePool {
 public:
  explicit PagePool(std::int32_t pages) : holders_(static_cast<std::size_t>(pages), 0) {
    for (std::int32_t page = pages - 1; page > 0; --page) free_.push_back(page);
  }

  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }
  /// At least one must be free.
  std::int32_t take() {
    const std::int32_t page = free_.back();
    free_.pop_back();
    holders_[static_cast<std::size_t>(page)] = 1;
    return page;
  }
  void share(std::int32_t page) { ++holders_[static_cast<std::size_t>(page)]; }
  void release(const std::vector<std::int32_t>& pages) {
    for (const std::int32_t page : pages)
      if (--holders_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
  }

 private:
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> holders_;
};

}  // namespace lathe::lm
