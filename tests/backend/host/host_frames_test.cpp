#include <gtest/gtest.h>

#include "backend/host/host_session.h"
#include "backend/host/program.h"
#include "backend/host/zygote.h"
#include "sandbox/wire.h"

namespace lathe::host {
namespace {

std::string reply_frame(std::uint32_t ending) {
  return WireWriter()
      .put(std::int32_t{9})
      .put(ending)
      .put(std::uint32_t{1})
      .put(std::int64_t{7})
      .put(std::int64_t{1000})
      .take();
}

TEST(ChildReply, IsReadWholeOrNotAtAll) {
  const std::string frame = reply_frame(kAllCallsRun);
  const auto reply = decode_child_reply(frame);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->wait_status, 9);
  EXPECT_TRUE(reply->confined);
  EXPECT_EQ(reply->switches, 7);
  EXPECT_EQ(reply->cpu_ns, 1000);
  EXPECT_FALSE(reply->exited_with(kExitBuilt));
  EXPECT_FALSE(decode_child_reply(frame + "x").ok());
  EXPECT_FALSE(decode_child_reply(std::string_view(frame).substr(1)).ok());
  EXPECT_FALSE(decode_child_reply(reply_frame(kAllCallsRun + 1)).ok());
}

TEST(Extensions, SurviveTheirEncoding) {
  const Extensions extensions{{"{\"name\": \"a\"}", "b"},
                              {std::string("\x7f"
                                           "ELF\0",
                                           5),
                               ""}};
  const std::string bytes = encode(extensions);
  const auto back = decode_extensions(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->requests, extensions.requests);
  EXPECT_EQ(back->objects, extensions.objects);
  EXPECT_TRUE(encode({}).empty());
  EXPECT_TRUE(decode_extensions("")->requests.empty());
  EXPECT_FALSE(decode_extensions(std::string_view(bytes).substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(decode_extensions("rubbish").ok());
}

TEST(Activity, SaysPerCallWhoseKernelsComputed) {
  const auto counters = read_activity("300 4 100 2 0 0", 2);
  ASSERT_TRUE(counters.ok());
  EXPECT_EQ(*counters, (std::map<std::string, double>{{"kernels", 3},
                                                      {"own_kernels", 2},
                                                      {"kernel_ns", 200},
                                                      {"own_kernel_ns", 150},
                                                      {"own_kernel_share", 0.75}}));
  EXPECT_EQ(read_activity("0 0 0 0 8 1", 1)->at("unknown_kernel_ns"), 8);
  EXPECT_EQ(read_activity("0 0 0 0 0 0", 1)->count("own_kernel_share"), 0u) << "nothing computed";
}

TEST(Activity, OfAForgerIsNoCounter) {
  for (const char* said : {"", "1", "1 2 3 4 5", "1 2 3 4 5 6 7", "1 2 3 4 5 -6", "nan 1 1 1 1 1",
                           "inf 1 1 1 1 1", "1e999 1 1 1 1 1", "Traceback"})
    EXPECT_FALSE(read_activity(said, 1).ok()) << said;
}

TEST(Layout, TensorsLieApartAndFillWholePages) {
  TaskSpec spec;
  spec.dim_names = {"n"};
  spec.tensors.push_back({.name = "x", .dtype = DType::kF16, .shape = {Expr::constant(3)}});
  spec.tensors.push_back({.name = "s", .role = Role::kScalar});
  spec.outputs.push_back({.name = "y", .shape = {Expr::constant(2048)}});
  const auto task = lathe::bind(spec, {{"n", 1}});
  ASSERT_TRUE(task.ok()) << task.error().to_string();
  const Layout inputs = lay_out_inputs(*task);
  EXPECT_EQ(inputs.offsets, (std::vector<std::size_t>{0, 64}));
  EXPECT_EQ(inputs.sizes, (std::vector<std::size_t>{6, 4}));
  EXPECT_EQ(inputs.bytes, kPageBytes);
  EXPECT_TRUE(inputs.tensors[1]["scalar"]);
  EXPECT_EQ(lay_out_outputs(*task).bytes, 2 * kPageBytes);
}

}  // namespace
}  // namespace lathe::host
