#include "backend/cuda/wire/protocol.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/cuda/wire/output_memory.h"
#include "base/random.h"

namespace lathe::cuda {
namespace {

Layout sample_layout() {
  Layout layout;
  layout.trials = 2;
  layout.inputs = region_of({100, 4});
  layout.outputs = region_of({100});
  layout.inout_source = {0};
  return layout;
}

Load sample_load() {
  Load load;
  load.layout = sample_layout();
  load.scratch = {{100, ScratchFill::kCounter}};
  load.steps = {{false,
                 "f",
                 {7, 1, 1},
                 {128, 2, 1},
                 {2, 1, 1},
                 1024,
                 true,
                 false,
                 true,
                 50,
                 {{ArgKind::kInput, 0}, {ArgKind::kScalar, 1, 4}, {ArgKind::kMap, 0}}}};
  load.maps = {{{ArgKind::kScratch, 0}, MapType::kFloat16, {64, 7}, {128}, {64, 1}, 128, true}};
  load.scalars = {0, 1, 0, 2};
  return load;
}

TEST(CudaSlot, EndsWithItsMemoryAndKeepsItsAlignment) {
  for (const std::uint64_t bytes : {1ULL, 256ULL, 4097ULL, (2ULL << 20) - kRedzoneBytes, 5ULL << 20}) {
    SCOPED_TRACE(bytes);
    const Slot slot = make_slot(bytes);
    EXPECT_EQ(slot.offset % kAlign, 0U);
    EXPECT_EQ(slot.allocation_bytes % kAllocationBytes, 0U);
    EXPECT_GE(slot.offset, kRedzoneBytes);
    EXPECT_LE(slot.offset + bytes, slot.allocation_bytes);
    EXPECT_LT(slot.allocation_bytes - slot.offset - bytes, kAlign);
    EXPECT_LE(slot.end(), slot.allocation_bytes);
  }
}

TEST(CudaProtocol, ALoadComesThrough) {
  const auto load = decode_load(encode(sample_load()));
  ASSERT_TRUE(load.ok()) << load.error().to_string();
  EXPECT_EQ(encode(*load), encode(sample_load()));
  EXPECT_EQ(load->layout.outputs.slots[0].bytes, 100U);
  EXPECT_EQ(load->steps[0].block, (Extents{128, 2, 1}));
  EXPECT_EQ(load->steps[0].args[1].bytes, 4);
  EXPECT_EQ(load->steps[0].carveout, 50);
  EXPECT_EQ(load->maps[0].dims, (std::vector<std::uint64_t>{64, 7}));
}

TEST(CudaProtocol, AScalarHasTheSizeOfAType) {
  Load load = sample_load();
  for (const int bytes : {0, 1, 2, 3, 4, 6, 8, 16}) {
    load.steps[0].args[1].bytes = static_cast<std::uint8_t>(bytes);
    const bool is_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    EXPECT_EQ(decode_load(encode(load)).ok(), is_size) << bytes;
  }
}

TEST(CudaProtocol, ALoadThatRefersToWhatIsNotThereIsRefused) {
  Load load = sample_load();
  load.steps[0].args[0].value = 2;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.scalars.pop_back();
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.layout.inout_source = {1};  // of another size
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.steps[0].args[2].value = 1;
  EXPECT_FALSE(decode_load(encode(load)).ok());
  load = sample_load();
  load.steps[0].is_node = true;  // libraries take buffers alone
  EXPECT_FALSE(decode_load(encode(load)).ok());
}

TEST(CudaProtocol, AMapThatIsNotWholeIsRefused) {
  const auto refused = [](auto change) {
    Load load = sample_load();
    change(load.maps[0]);
    return !decode_load(encode(load)).ok();
  };
  EXPECT_FALSE(refused([](TensorMap&) {}));
  EXPECT_TRUE(refused([](TensorMap& map) { map.base = {ArgKind::kScratch, 1}; }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.base = {ArgKind::kMap, 0}; }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.strides.clear(); }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.box.push_back(1); }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.dims.clear(), map.box.clear(), map.strides.clear(); }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.type = static_cast<MapType>(10); }));
  EXPECT_TRUE(refused([](TensorMap& map) { map.swizzle = 16; }));
}

TEST(CudaProtocol, ProductsThatNoMemoryHoldsAreRefused) {
  KeeperRequest request{KeeperRequest::Verb::kMultiply};
  const auto decodes = [&](Product product) {
    request.product = product;
    return decode_keeper_request(encode(request)).ok();
  };
  const std::uint64_t most = std::uint64_t{1} << 31;
  EXPECT_TRUE(decodes({.m = 1, .n = 1, .k = 1, .element_bytes = 8}));
  EXPECT_FALSE(decodes({.m = 0, .n = 1, .k = 1, .element_bytes = 8}));
  EXPECT_FALSE(decodes({.m = 1, .n = 1, .k = 1, .element_bytes = 2}));
  EXPECT_FALSE(decodes({.m = most + 1, .n = 1, .k = 1, .element_bytes = 4}));
  EXPECT_FALSE(decodes({.m = most, .n = most, .k = 1, .element_bytes = 4}));
  EXPECT_TRUE(decodes({.m = 1, .n = 1, .k = 1, .images = 9, .image_elements = 7, .element_bytes = 4}));
  EXPECT_FALSE(decodes({.m = 1, .n = 1, .k = 1, .images = 9, .element_bytes = 4})) << "images of nothing";
  EXPECT_FALSE(decodes({.m = 1, .n = most, .k = 1, .images = 2, .image_elements = 7, .element_bytes = 4}));
  EXPECT_FALSE(decodes({.m = 1, .n = 1, .k = 1, .images = most, .image_elements = most, .element_bytes = 4}));
}

TEST(CudaProtocol, RequestsAndRepliesComeThrough) {
  KeeperRequest request;
  request.verb = KeeperRequest::Verb::kReset;
  request.workload = 7;
  request.poison = 0x55;
  request.pieces = {{1, 0, 64, 128}};
  request.layout = sample_layout();
  const auto asked = decode_keeper_request(encode(request));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(encode(*asked), encode(request));
  request.verb = KeeperRequest::Verb::kMultiply;
  request.product = {
      .m = 5, .n = 1u << 20, .k = 7, .element_bytes = 4, .a_transposed = false, .b_transposed = true};
  const auto product = decode_keeper_request(encode(request));
  ASSERT_TRUE(product.ok());
  EXPECT_EQ(encode(*product), encode(request));
  EXPECT_TRUE(product->product.b_transposed);
  EXPECT_EQ(product->product.bytes(), 4u * (35 + (7u << 20) + (5u << 20)));
  const auto told = decode_keeper_reply(encode(KeeperReply{7, true, "fine", {1.5, 2.5}}));
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->numbers, (std::vector<double>{1.5, 2.5}));
  const auto ended = decode_block_reply(encode(BlockReply{700, "illegal", true, 12.5}));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->code, 700);
  EXPECT_TRUE(ended->counter_dirty);
}

TEST(CudaProtocol, LoadOrdersAreToldFromOtherFrames) {
  const std::string order = encode(LoadOrder{7, {1, 5}});
  ASSERT_TRUE(is_load_order(order));
  const auto decoded = decode_load_order(order);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->number, 7u);
  EXPECT_EQ(decoded->unload, (std::vector<std::uint32_t>{1, 5}));
  EXPECT_FALSE(decode_load_order(order + "x").ok());
  EXPECT_FALSE(decode_load_order("").ok());
  for (int poison = 0; poison < 256; ++poison)
    EXPECT_FALSE(is_load_order(encode(Block{static_cast<std::uint8_t>(poison), {0x61'6f}})));
}

TEST(CudaProtocol, InputsOfEachTrialLieApartAndOutputsTogetherInTheLayoutsOrder) {
  Layout layout;
  layout.trials = 20;
  layout.inputs = region_of({64, 64});
  layout.outputs = region_of({64});
  layout.inout_source = {-1};
  EXPECT_EQ(handle_count(layout), 2u + 19u + 2u);
  EXPECT_EQ(device_bytes(layout), 60u * kAllocationBytes) << "each tensor has its own pages all the same";
  layout.order.resize(20);
  std::iota(layout.order.begin(), layout.order.end(), 0U);
  std::swap(layout.order[1], layout.order[19]);
  const Allocations outputs = output_allocations(layout);
  EXPECT_EQ(outputs.places[0].allocation, 0u);
  EXPECT_EQ(outputs.places[19].offset, 0u);
  EXPECT_EQ(outputs.places[1].offset, 18u * kAllocationBytes);
  EXPECT_EQ(outputs.places[1].allocation, outputs.places[19].allocation);
}

TEST(CudaProtocol, AnOrderIsAPermutationThatKeepsTheFirstTrial) {
  KeeperRequest request;
  request.layout.trials = 3;
  request.layout.outputs = region_of({64});
  request.layout.inout_source = {-1};
  for (const auto& [order, good] :
       std::vector<std::pair<std::vector<std::uint32_t>, bool>>{{{}, true},
                                                                {{0, 2, 1}, true},
                                                                {{1, 0, 2}, false},
                                                                {{0, 1}, false},
                                                                {{0, 1, 1}, false},
                                                                {{0, 1, 3}, false}}) {
    request.layout.order = order;
    EXPECT_EQ(decode_keeper_request(encode(request)).ok(), good) << order.size();
  }
}

TEST(CudaProtocol, DamagedFramesAreErrors) {
  Rng rng(Seed::from_number(5));
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = encode(sample_load());
    bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    bytes.resize(rng.below(bytes.size() + 1));
    (void)decode_load(bytes);
    (void)decode_load_order(bytes);
    (void)decode_keeper_request(bytes);
    (void)decode_keeper_reply(bytes);
    (void)decode_device_facts(bytes);
    (void)decode_load_reply(bytes);
    (void)decode_block(bytes);
    (void)decode_block_reply(bytes);
  }
}

}  // namespace
}  // namespace lathe::cuda
