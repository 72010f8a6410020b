#pragma once

#include <cstddef>
#include <cstdint>

/// As the head of CUpti_CallbackData.
struct Call {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  void* context;
  std::uint32_t context_id;
  std::uint64_t* correlation_data;
  std::uint32_t correlation;
};

/// Places in CUpti_ActivityKernel9 and later.
constexpr std::size_t kBegin = 16, kEnd = 24, kCorrelation = 92;
