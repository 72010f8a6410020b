#ifndef LATHE_CANDIDATE_VENDOR_H_
#define LATHE_CANDIDATE_VENDOR_H_

/* The C interface of liblathe_vendor.so and, for a GPU, liblathe_vendor_cuda.so: trusted library
 * implementations of graph nodes. A runner loads it only for plans with `node` steps and calls
 * prepare() before it locks itself down; after that, execute() makes no system call but futex. The
 * CPU libraries keep worker threads: set OPENBLAS_NUM_THREADS and OMP_NUM_THREADS to the plan's
 * number of threads before loading this library, and call execute() on the main thread, which must
 * also have called prepare(): workspaces come from its heap, of which each prepare() leaves 64 MiB
 * free. */

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_VENDOR_API __attribute__((visibility("default")))

typedef struct lathe_vendor_call lathe_vendor_call;

/* Why a call cannot be prepared. */
typedef struct lathe_vendor_error {
  int no_library; /* the machine lacks the library or one of its dependencies; else the call is invalid */
  char text[512]; /* terminated */
} lathe_vendor_error;

/* `json` is BoundStep::node_text:
 *   {"library":"onednn","nodes":[{"op":"matmul","attrs":{},"in":[{"buffer":0,"shape":[M,K],"dtype":"fp32"},
 *    {"node":0}],"out":{"buffer":3,"shape":[M,N],"dtype":"fp32"}}]}
 * where "buffer" indexes the pointer array given to execute() and "node" an earlier node of the
 * same call. Returns null on failure and says why in `error`. */
LATHE_VENDOR_API lathe_vendor_call* lathe_vendor_prepare(const char* json, int threads,
                                                         lathe_vendor_error* error);

/* Runs one call on 64-byte-aligned buffers. Returns 0 or the library's error code. A handle is not
 * thread-safe. */
LATHE_VENDOR_API int lathe_vendor_execute(lathe_vendor_call* call, void* const* buffers);

LATHE_VENDOR_API void lathe_vendor_release(lathe_vendor_call* call);

/* Only in liblathe_vendor_cuda.so: buffers are device memory of the current context, and execute()
 * enqueues on this stream (a CUstream). Returns 0 or the library's error code. */
LATHE_VENDOR_API int lathe_vendor_set_stream(void* stream);

/* Only in liblathe_vendor_cuda.so: finds cuDNN, once per process, at `first_place` (a file; may be
 * empty), in the loader's path or in CUDA's folder. Returns 1 and writes its path to `text`, or
 * returns 0 and writes the reason. Its sub-libraries are opened from the same folder when calls are
 * prepared. */
LATHE_VENDOR_API int lathe_vendor_find_cudnn(const char* first_place, char* text, unsigned long text_size);

#ifdef __cplusplus
}
#endif

#endif
