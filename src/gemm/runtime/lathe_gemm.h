/* Half-precision matrix products on NVIDIA GPUs (sm_80 and later; the tuned kernels need sm_90).
 *
 * C = alpha A B + beta C for fp16 matrices, rounded once from fp32 sums unless fp16 ones are asked for. Any
 * M, N, K, leading dimension and alignment. The order of sums is fixed: equal calls give equal bits. */
#ifndef LATHE_GEMM_H
#define LATHE_GEMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LATHE_GEMM_EXPORT __attribute__((visibility("default")))
#else
#define LATHE_GEMM_EXPORT
#endif

/* How A and B lie in memory; C is always M rows of N elements. The letters are those of the cuBLAS
 * call that computes the same matrix: the first is B's, the second A's.
 *
 *        A                    B
 *   NN   M rows of K          K rows of N
 *   TN   M rows of K          N rows of K
 *   NT   K rows of M          K rows of N
 *   TT   K rows of M          N rows of K
 *
 * lda, ldb and ldc are the distances between rows as they lie there, in elements. */
typedef enum { LATHE_GEMM_NN = 0, LATHE_GEMM_TN = 1, LATHE_GEMM_NT = 2, LATHE_GEMM_TT = 3 } lathe_gemm_layout;

/* The least precise sums that will do. With fp16 a kernel may sum in fp16, which loses whole numbers beyond
 * 2048 and overflows beyond 65504, or in fp32, whichever was faster. */
typedef enum { LATHE_GEMM_FP32 = 0, LATHE_GEMM_FP16 = 1 } lathe_gemm_accumulator;

typedef enum {
  LATHE_GEMM_OK = 0,
  LATHE_GEMM_INVALID = 1,     /* an argument; lathe_gemm_last_error() says which */
  LATHE_GEMM_NO_DEVICE = 2,   /* no driver, no GPU, no current context, or a GPU before sm_80 */
  LATHE_GEMM_DRIVER_ERROR = 3 /* the driver refused */
} lathe_gemm_status;

typedef struct lathe_gemm_handle_s* lathe_gemm_handle;
typedef void* lathe_gemm_stream; /* a CUstream or cudaStream_t; NULL is the default stream */

/* A handle belongs to the CUDA context that is current here, which it neither creates nor owns. Any
 * number of threads and streams may share it. */
LATHE_GEMM_EXPORT lathe_gemm_status lathe_gemm_create(lathe_gemm_handle* handle);
LATHE_GEMM_EXPORT void lathe_gemm_destroy(lathe_gemm_handle handle);

/* Enqueues the product on `stream`: one kernel, and nothing else. A kernel's first use loads it: before calls
 * are captured into a graph, make one of the same shape.
 *
 * Some kernels need memory for partial sums. The handle allocates it: for each stream at its first need, and
 * for what is captured on a stream into a graph, which keeps it until it is destroyed. Instances of one graph
 * must therefore not run at the same time, and graphs should go before the handle. Where there is no memory,
 * a kernel that needs none is used. */
LATHE_GEMM_EXPORT lathe_gemm_status lathe_hgemm(lathe_gemm_handle handle, lathe_gemm_layout layout, int64_t m,
                                                int64_t n, int64_t k, float alpha, const void* a, int64_t lda,
                                                const void* b, int64_t ldb, float beta, void* c, int64_t ldc,
                                                lathe_gemm_accumulator accumulator, lathe_gemm_stream stream);

/* A product with its arguments, for callers that make it again and again: what lathe_hgemm finds out anew in
 * each call (the kernel, its grid, how the matrices lie) is found once, and a run is a launch and nothing
 * else. The matrices' contents may change between runs, their places may not. The handle must outlive the
 * product; runs on several threads and streams may overlap as calls may. */
typedef struct lathe_gemm_product_s* lathe_gemm_product;
LATHE_GEMM_EXPORT lathe_gemm_status lathe_hgemm_prepare(lathe_gemm_handle handle, lathe_gemm_layout layout,
                                                        int64_t m, int64_t n, int64_t k, float alpha,
                                                        const void* a, int64_t lda, const void* b,
                                                        int64_t ldb, float beta, void* c, int64_t ldc,
                                                        lathe_gemm_accumulator accumulator,
                                                        lathe_gemm_product* product);
LATHE_GEMM_EXPORT lathe_gemm_status lathe_gemm_run(lathe_gemm_product product, lathe_gemm_stream stream);
LATHE_GEMM_EXPORT void lathe_gemm_product_destroy(lathe_gemm_product product);

/* Calls on `stream`, captured or not, use this memory of at least lathe_gemm_workspace_bytes() instead,
 * aligned to 256 bytes. Its first 32768 bytes must be zero; calls leave them so. No two of them may run at
 * once. NULL: the handle's own again. */
LATHE_GEMM_EXPORT size_t lathe_gemm_workspace_bytes(void);
LATHE_GEMM_EXPORT lathe_gemm_status lathe_gemm_set_workspace(lathe_gemm_handle handle,
                                                             lathe_gemm_stream stream, void* memory,
                                                             size_t bytes);

/* The kernel that a packed, aligned product of this size would use on a GPU of `sm_count`
 * multiprocessors (0: the most common); needs no GPU. NULL where an argument is wrong. */
LATHE_GEMM_EXPORT const char* lathe_gemm_kernel(lathe_gemm_layout layout, int64_t m, int64_t n, int64_t k,
                                                int sm_count);

/* What was wrong with this thread's last call that failed. */
LATHE_GEMM_EXPORT const char* lathe_gemm_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
