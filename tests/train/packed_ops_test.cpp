#include "train/packed_ops.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "lm/plain_ops.h"
#include "tests/train/tiny.h"
#include "train/to_tensor.h"

namespace lathe::train {
namespace {

at::Tensor packed_hidden(const lm::Decoder& decoder, const Batch& batch) {
  const PackedLayout layout = PackedLayout::of(decoder, batch);
  const PackedOptions options;
  PackedOps ops(decoder, layout, options);
  return decoder.hidden(to_tensor(batch.tokens, at::kCPU), ops);
}

TEST(PackedOps, ComputeEachExampleAsIfItWereAlone) {
  const at::NoGradGuard no_grad;
  const lm::Decoder decoder = tiny_decoder();
  const Dataset data = random_dataset(5, 1);
  const Batch batch = make_batch(data.examples, std::vector<Row>{{0, 1, 2}, {3, 4}});
  const at::Tensor packed = packed_hidden(decoder, batch);
  for (std::size_t i = 0; i + 1 < batch.bounds.size(); ++i) {
    const std::int64_t first = batch.bounds[i], length = batch.bounds[i + 1] - first;
    lm::PlainOps plain(decoder, 1, length);
    const at::Tensor alone =
        decoder.hidden(to_tensor(batch.tokens, at::kCPU).narrow(0, first, length), plain);
    EXPECT_LT(largest_difference(packed.narrow(0, first, length), alone), 1e-5) << "example " << i;
  }
}

TEST(PackedOps, NothingLeaksIntoANeighbour) {
  const at::NoGradGuard no_grad;
  const lm::Decoder decoder = tiny_decoder();
  Dataset data = random_dataset(3, 2);
  const Batch before = make_batch(data.examples, std::vector<Row>{{0, 1, 2}});
  const at::Tensor hidden = packed_hidden(decoder, before);
  data.examples[1].prompt[0] = (data.examples[1].prompt[0] + 1) % 64;
  const at::Tensor changed = packed_hidden(decoder, make_batch(data.examples, std::vector<Row>{{0, 1, 2}}));
  const std::int64_t first = before.bounds[1], last = before.bounds[2];
  EXPECT_EQ(largest_difference(hidden.narrow(0, 0, first), changed.narrow(0, 0, first)), 0);
  EXPECT_EQ(largest_difference(hidden.slice(0, last), changed.slice(0, last)), 0);
  EXPECT_GT(largest_difference(hidden.slice(0, first, last), changed.slice(0, first, last)), 0);
}

}  // namespace
}  // namespace lathe::train
