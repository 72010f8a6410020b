// Every device primitive compiles for the architectures that its header names. What it computes is
// tested on machines with a GPU, through examples/cuda.

#include <gmock/gmock.h>

#include "backend/cuda/broker/compiler_notes.h"
#include "backend/cuda/broker/cubin_image.h"
#include "backend/cuda/runner/nvrtc.h"

namespace lathe::cuda {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

/// The first architecture that has it.
enum class Since { kSm80, kSm90, kSm90aAnd100a };

struct Primitive {
  Since since;
  const char* use;  ///< statements over the names in kKernel
};

// clang-format off
const Primitive kPrimitives[] = {
    {Since::kSm80, "init(barrier, 1); arrive(barrier); wait(barrier, 0);"},
    {Since::kSm90, "fence_barriers(); arrive_expecting(barrier, 64); expect(barrier, 64); wait(barrier, 1);"},
    {Since::kSm90, "arrive_remote(barrier, 1); release_remote(barrier, 1); wait_cluster(barrier, 0);"},
    {Since::kSm90, "out[0] = cluster_rank() + cluster_size() + cluster_index(); cluster_sync();"},
    {Since::kSm90, "out[0] = load_remote(remote_address(memory, 1)) + load_remote4(remote_address(memory, 0)).w;"},
    {Since::kSm90, "store_remote(remote_address(memory, 1), 1.0f);"},
    {Since::kSm90, "store_remote_async(remote_address(memory, 1), 1.0f, remote_address(&barrier, 1));"},
    {Since::kSm90, "store_remote_async(remote_address(memory, 1), float4{1, 2, 3, 4}, remote_address(&barrier, 1));"},
    {Since::kSm90, "copy_to_remote(remote_address(memory, 1), memory, 128, remote_address(&barrier, 1));"},
    {Since::kSm90, "prefetch(map); tma_load(memory, map, 1, 2, barrier); tma_load(memory, map, 1, 2, 3, barrier);"},
    {Since::kSm90, "tma_multicast(memory, map, 1, 2, barrier, 3); tma_multicast(memory, map, 1, 2, 3, barrier, 3);"},
    {Since::kSm90, "fence_async_copies(); tma_store(map, 1, 2, memory); tma_store(map, 1, 2, 3, memory);"},
    {Since::kSm90, "tma_add(map, 1, 2, memory); commit_stores(); wait_stores_read<1>(); wait_stores<0>();"},
    {Since::kSm90, "bulk_load(memory, out, 64, barrier); bulk_store(out, memory, 64); bulk_add(out, memory, 64);"},
    {Since::kSm80, "uint32_t r[4]; load_matrices(r, shared_address(memory)); out[0] = r[0] + r[3];"},
    {Since::kSm80, "uint32_t r[4]; load_matrices_transposed(r, shared_address(memory)); out[0] = r[0] + r[3];"},
    {Since::kSm90, "uint32_t r[4] = {pack_fp16(1, 2), pack_bf16(1, 2), 3, 4}; store_matrices(shared_address(memory), r);"},
    {Since::kSm80, "float d[4] = {}; uint32_t a[4] = {1, 2, 3, 4}, b[2] = {5, 6};"
                   " mma_fp16(d, a, b); mma_bf16(d, a, b); mma_tf32(d, a, b); out[0] = d[0];"},
    {Since::kSm80, "out[0] = to_tf32(out[1]) + pack_fp16(out[2], 1) + pack_bf16(out[3], 1);"},
    {Since::kSm80, "out[0] = half(out[1]) + bfloat16(out[2]);"},
    {Since::kSm80, "out[0] = fp8e4m3(out[1]) + fp8e5m2(out[2]);"},
    {Since::kSm80, "sync_threads<1, 64>(); arrive_threads<2, 64>();"},
    {Since::kSm90, "if (elect()) out[0] = 1;"},
    {Since::kSm90, "wait_for_previous_step(); let_next_step_start();"},
    {Since::kSm90aAnd100a, "fewer_registers<40>(); more_registers<232>();"},
};
// clang-format on

constexpr const char* kHeads = R"(
#include <lathe/cuda.cuh>
#include <lathe/cuda/cluster.cuh>
#include <lathe/cuda/tma.cuh>
#include <lathe/cuda/warp.cuh>
#include <lathe/cuda/wgmma.cuh>
using namespace lathe;
)";

std::string kernel(std::size_t number, const std::string& use) {
  return "extern \"C\" __global__ void __launch_bounds__(128) k" + std::to_string(number) +
         "(const __grid_constant__ TensorMap map, float* out) {\n"
         "__shared__ __align__(1024) float memory[8192]; __shared__ Barrier barrier;\n" +
         use + "\n}\n";
}

bool exists(Since since, std::string_view arch) { return arch != "sm_80" || since == Since::kSm80; }

/// A product of wgmma.cuh; `shape` holds the arguments of Wgmma.
std::string product(const std::string& n, const std::string& shape) {
  return "float d[" + n + " / 2]; const uint64_t t = swizzled_tile(memory, 8192); wgmma_begin(); Wgmma<" +
         shape +
         ">::run(d, t, advance(t, 32), false); wgmma_commit(); wgmma_wait<0>(d); init(barrier, 1);\n" +
         "for (int i = 0; i < " + n + " / 2; ++i) out[128 * i + threadIdx.x] = d[i];";
}

class PrimitivesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc_.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc_.error().to_string();
  }
  Compiled compile(const std::string& source, const std::string& arch) const {
    return nvrtc_->compile(kHeads + source, {"-arch=" + arch, "-I" LATHE_SOURCE_DIR "/device", kNoteFlags});
  }
  const Result<Nvrtc> nvrtc_ = Nvrtc::open();
};

TEST_F(PrimitivesTest, CompileWhereTheyExist) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    SCOPED_TRACE(arch);
    std::string source;
    std::size_t kernels = 0;
    for (const Primitive& primitive : kPrimitives)
      if (exists(primitive.since, arch)) source += kernel(kernels++, primitive.use);
    const Compiled compiled = compile(source, arch);
    ASSERT_TRUE(compiled.ok) << compiled.log;
    const auto image = parse_cubin(compiled.cubin);
    ASSERT_TRUE(image.ok());
    EXPECT_THAT(image->kernels, SizeIs(kernels));
  }
}

TEST_F(PrimitivesTest, AreUnknownWhereTheyDoNotExist) {
  for (const Primitive& primitive : kPrimitives) {
    if (primitive.since == Since::kSm80) continue;
    EXPECT_FALSE(compile(kernel(0, primitive.use), "sm_80").ok) << primitive.use;
  }
  EXPECT_FALSE(compile(kernel(0, "wgmma_begin();"), "sm_100a").ok);
}

TEST_F(PrimitivesTest, EveryProductOfAWarpgroupCompilesWithoutBeingSerialised) {
  std::string source;
  std::size_t kernels = 0;
  for (const std::string n : {"8", "16", "24", "32", "48", "64", "80", "96", "112", "128", "144", "160",
                              "176", "192", "208", "224", "240", "256"})
    for (const std::string& shape :
         {"Tf32, " + n, "Fp16, " + n + ", kAlongK, kAlongMN", "Bf16, " + n + ", kAlongMN"})
      source += kernel(kernels++, product(n, shape));
  const Compiled compiled = compile(source, "sm_90a");
  ASSERT_TRUE(compiled.ok) << compiled.log;
  EXPECT_THAT(facts_of_log(compiled.log), IsEmpty()) << compiled.log;
}

}  // namespace
}  // namespace lathe::cuda
