#pragma once

// The products of wgmma.cuh, which includes this file: one instruction each, for N in 8, 16, 24, 32
// and then in steps of 16 to 256.

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

namespace lathe {

#define LATHE_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LATHE_TEXT_8 "%0, %1, %2, %3"
#define LATHE_REGS_8 LATHE_F4(0)
#define LATHE_TEXT_16 LATHE_TEXT_8 ", %4, %5, %6, %7"
#define LATHE_REGS_16 LATHE_REGS_8, LATHE_F4(4)
#define LATHE_TEXT_24 LATHE_TEXT_16 ", %8, %9, %10, %11"
#define LATHE_REGS_24 LATHE_REGS_16, LATHE_F4(8)
#define LATHE_TEXT_32 LATHE_TEXT_24 ", %12, %13, %14, %15"
#define LATHE_REGS_32 LATHE_REGS_24, LATHE_F4(12)
#define LATHE_TEXT_48 LATHE_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LATHE_REGS_48 LATHE_REGS_32, LATHE_F4(16), LATHE_F4(20)
#define LATHE_TEXT_64 LATHE_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LATHE_REGS_64 LATHE_REGS_48, LATHE_F4(24), LATHE_F4(28)
#define LATHE_TEXT_80 LATHE_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LATHE_REGS_80 LATHE_REGS_64, LATHE_F4(32), LATHE_F4(36)
#define LATHE_TEXT_96 LATHE_TEXT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LATHE_REGS_96 LATHE_REGS_80, LATHE_F4(40), LATHE_F4(44)
#define LATHE_TEXT_112 LATHE_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LATHE_REGS_112 LATHE_REGS_96, LATHE_F4(48), LATHE_F4(52)
#define LATHE_TEXT_128 LATHE_TEXT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LATHE_REGS_128 LATHE_REGS_112, LATHE_F4(56), LATHE_F4(60)
#define LATHE_TEXT_144 LATHE_TEXT_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LATHE_REGS_144 LATHE_REGS_128, LATHE_F4(64), LATHE_F4(68)
#define LATHE_TEXT_160 LATHE_TEXT_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LATHE_REGS_160 LATHE_REGS_144, LATHE_F4(72), LATHE_F4(76)
#define LATHE_TEXT_176 LATHE_TEXT_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define LATHE_REGS_176 LATHE_REGS_160, LATHE_F4(80), LATHE_F4(84)
#define LATHE_TEXT_192 LATHE_TEXT_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define LATHE_REGS_192 LATHE_REGS_176, LATHE_F4(88), LATHE_F4(92)
#define LATHE_TEXT_208 LATHE_TEXT_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define LATHE_REGS_208 LATHE_REGS_192, LATHE_F4(96), LATHE_F4(100)
#define LATHE_TEXT_224 LATHE_TEXT_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define LATHE_REGS_224 LATHE_REGS_208, LATHE_F4(104), LATHE_F4(108)
#define LATHE_TEXT_240 LATHE_TEXT_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define LATHE_REGS_240 LATHE_REGS_224, LATHE_F4(112), LATHE_F4(116)
#define LATHE_TEXT_256 LATHE_TEXT_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define LATHE_REGS_256 LATHE_REGS_240, LATHE_F4(120), LATHE_F4(124)

// Sums of fp16 lie in pairs in half as many registers.
#define LATHE_R4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define LATHE_WORDS_8 LATHE_R4(0)
#define LATHE_WORDS_16 LATHE_WORDS_8, LATHE_R4(4)
#define LATHE_WORDS_32 LATHE_WORDS_16, LATHE_R4(8), LATHE_R4(12)
#define LATHE_WORDS_48 LATHE_WORDS_32, LATHE_R4(16), LATHE_R4(20)
#define LATHE_WORDS_64 LATHE_WORDS_48, LATHE_R4(24), LATHE_R4(28)
#define LATHE_WORDS_80 LATHE_WORDS_64, LATHE_R4(32), LATHE_R4(36)
#define LATHE_WORDS_96 LATHE_WORDS_80, LATHE_R4(40), LATHE_R4(44)
#define LATHE_WORDS_128 LATHE_WORDS_96, LATHE_R4(48), LATHE_R4(52), LATHE_R4(56), LATHE_R4(60)

// After the accumulators come two descriptors, the predicate and the operands' orders; their
// numbers are arguments.
#define LATHE_WGMMA_HEAD(n, k, type, a, b, p)                                                            \
  "{.reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned.m64n" #n k ".f32." type "." type \
  " {" LATHE_TEXT_##n "}, " a ", " b ", p, 1, 1"
#define LATHE_WGMMA_HALF(n, Type, type, a, b, p, order_a, order_b)                                   \
  template <Major kA, Major kB>                                                                      \
  struct Wgmma<Type, n, kA, kB> {                                                                    \
    __device__ static inline void run(float (&d)[n / 2], uint64_t left, uint64_t right, bool keep) { \
      asm volatile(LATHE_WGMMA_HEAD(n, "k16", type, a, b, p) ", " order_a ", " order_b ";}"          \
                   : LATHE_REGS_##n                                                                  \
                   : "l"(left), "l"(right), "r"(static_cast<int>(keep)), "n"(static_cast<int>(kA)),  \
                     "n"(static_cast<int>(kB)));                                                     \
    }                                                                                                \
  };
#define LATHE_WGMMA(n, a, b, p, order_a, order_b)                                                    \
  LATHE_WGMMA_HALF(n, Fp16, "f16", a, b, p, order_a, order_b)                                        \
  LATHE_WGMMA_HALF(n, Bf16, "bf16", a, b, p, order_a, order_b)                                       \
  template <>                                                                                        \
  struct Wgmma<Tf32, n, kAlongK, kAlongK> {                                                          \
    __device__ static inline void run(float (&d)[n / 2], uint64_t left, uint64_t right, bool keep) { \
      asm volatile(LATHE_WGMMA_HEAD(n, "k8", "tf32", a, b, p) ";}"                                   \
                   : LATHE_REGS_##n                                                                  \
                   : "l"(left), "l"(right), "r"(static_cast<int>(keep)));                            \
    }                                                                                                \
  };
LATHE_WGMMA(8, "%4", "%5", "%6", "%7", "%8")
LATHE_WGMMA(16, "%8", "%9", "%10", "%11", "%12")
LATHE_WGMMA(24, "%12", "%13", "%14", "%15", "%16")
LATHE_WGMMA(32, "%16", "%17", "%18", "%19", "%20")
LATHE_WGMMA(48, "%24", "%25", "%26", "%27", "%28")
LATHE_WGMMA(64, "%32", "%33", "%34", "%35", "%36")
LATHE_WGMMA(80, "%40", "%41", "%42", "%43", "%44")
LATHE_WGMMA(96, "%48", "%49", "%50", "%51", "%52")
LATHE_WGMMA(112, "%56", "%57", "%58", "%59", "%60")
LATHE_WGMMA(128, "%64", "%65", "%66", "%67", "%68")
LATHE_WGMMA(144, "%72", "%73", "%74", "%75", "%76")
LATHE_WGMMA(160, "%80", "%81", "%82", "%83", "%84")
LATHE_WGMMA(176, "%88", "%89", "%90", "%91", "%92")
LATHE_WGMMA(192, "%96", "%97", "%98", "%99", "%100")
LATHE_WGMMA(208, "%104", "%105", "%106", "%107", "%108")
LATHE_WGMMA(224, "%112", "%113", "%114", "%115", "%116")
LATHE_WGMMA(240, "%120", "%121", "%122", "%123", "%124")
LATHE_WGMMA(256, "%128", "%129", "%130", "%131", "%132")

#define LATHE_WGMMA_FP16(n, half_n, a, b, p, order_a, order_b)                                              \
  template <Major kA, Major kB>                                                                             \
  struct WgmmaFp16Sums<n, kA, kB> {                                                                         \
    __device__ static inline void run(uint32_t (&d)[n / 4], uint64_t left, uint64_t right, bool keep) {     \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned.m64n" #n           \
                   "k16.f16.f16.f16 {" LATHE_TEXT_##half_n "}, " a ", " b ", p, 1, 1, " order_a ", " order_b \
                   ";}"                                                                                     \
                   : LATHE_WORDS_##half_n                                                                   \
                   : "l"(left), "l"(right), "r"(static_cast<int>(keep)), "n"(static_cast<int>(kA)),         \
                     "n"(static_cast<int>(kB)));                                                            \
    }                                                                                                       \
  };
LATHE_WGMMA_FP16(32, 16, "%8", "%9", "%10", "%11", "%12")
LATHE_WGMMA_FP16(64, 32, "%16", "%17", "%18", "%19", "%20")
LATHE_WGMMA_FP16(96, 48, "%24", "%25", "%26", "%27", "%28")
LATHE_WGMMA_FP16(128, 64, "%32", "%33", "%34", "%35", "%36")
LATHE_WGMMA_FP16(160, 80, "%40", "%41", "%42", "%43", "%44")
LATHE_WGMMA_FP16(192, 96, "%48", "%49", "%50", "%51", "%52")
LATHE_WGMMA_FP16(256, 128, "%64", "%65", "%66", "%67", "%68")

}  // namespace lathe

#endif
