#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace lathe {

/// Bytes and their name. One that was read back from a store has the name alone; Store::get_blob()
/// has the bytes. The default has neither.
struct Blob {
  Digest digest = {};
  std::string bytes = {};

  static Blob of(std::string bytes) {
    const Digest digest = digest_of(bytes);
    return {digest, std::move(bytes)};
  }
  bool exists() const { return digest != Digest{}; }
};

/// What a model did when it wrote a proposal, as training needs it: importance ratios are over the
/// tokens that were sampled, and tokenising the text again may give others. Blobs that do not exist
/// are unknown.
struct Generation {
  std::string model;                       ///< and which weights, such as their digest
  std::string tokenizer;                   ///< and which vocabulary
  std::map<std::string, double> sampling;  ///< "temperature", "top_p", ...
  std::int64_t group = 0;                  ///< samples of one prompt share it: they are compared
  std::int64_t turn = 0;                   ///< of a conversation, from 0
  /// This answer's share of what writing cost: "prompt_tokens", "answer_tokens", "seconds", "usd".
  std::map<std::string, double> cost = {};
  Blob prompt = {};                    ///< text
  Blob answer = {};                    ///< text, of which the candidate is a part
  Blob prompt_tokens = {};             ///< int32
  Blob answer_tokens = {};             ///< int32
  Blob answer_log_probabilities = {};  ///< float32: of each answer token when it was sampled
  Blob loss_mask = {};                 ///< uint8: 1 for each answer token that counts in a loss
};

/// The blobs of a generation and their names in JSON.
inline constexpr std::array<std::pair<const char*, Blob Generation::*>, 6> kGenerationBlobs{
    {{"prompt", &Generation::prompt},
     {"answer", &Generation::answer},
     {"prompt_tokens", &Generation::prompt_tokens},
     {"answer_tokens", &Generation::answer_tokens},
     {"answer_log_probabilities", &Generation::answer_log_probabilities},
     {"loss_mask", &Generation::loss_mask}}};

static_assert(std::endian::native == std::endian::little, "arrays in blobs are little-endian");

template <class T>
Blob pack(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Blob::of(std::move(bytes));
}

/// Errors: kCorrupt for bytes that are not a whole number of elements.
template <class T>
Result<std::vector<T>> unpack(const std::string& bytes) {
  if (bytes.size() % sizeof(T) != 0)
    return Error{ErrorCode::kCorrupt, std::to_string(bytes.size()) + " bytes are no array of elements of " +
                                          std::to_string(sizeof(T))};
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace lathe
