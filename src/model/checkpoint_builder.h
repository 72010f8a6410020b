#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/checkpoint.h"

namespace lathe {

/// A weight as a file has it, under its canonical name.
struct FoundWeight {
  std::vector<std::int64_t> shape;
  WeightFormat format = WeightFormat::kF32;
  std::span<const std::byte> bytes;
  std::int64_t interleaved_heads = 0;  ///< as Checkpoint's
  std::string file;
};

/// Puts a checkpoint together from what a reader of one file format found.
class CheckpointBuilder {
 public:
  std::string path;  ///< for errors
  ModelConfig config;
  std::map<std::string, FoundWeight> weights;
  std::vector<MappedFile> files;

  /// Errors: a configuration beyond Lathe's limits; a weight that it asks for and that is missing
  /// or of another shape; a weight that it does not ask for, without which the model would compute
  /// something else.
  Result<Checkpoint> build() &&;

 private:
  Status check_config() const;
};

class Gguf;

/// `files` has the file whose bytes `gguf` is a directory of, to keep it mapped.
Result<Checkpoint> checkpoint_of(const Gguf& gguf, std::vector<MappedFile> files);
Result<Checkpoint> open_gguf_checkpoint(const std::string& path);
Result<Checkpoint> open_safetensors_checkpoint(const std::string& path);

}  // namespace lathe
