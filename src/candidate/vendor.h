#ifndef LATHE_CANDIDATE_VENDOR_H_
#define LATHE_CANDIDATE_VENDOR_H_

/* The C interface of liblathe_vendor.so (and of liblathe_vendor_cuda.so, for a GPU): trusted library
 * implementations of graph nodes. A runner loads it only for plans that have `node` steps, and calls
 * prepare() before it locks itself down: afterwards execute() makes no system call but futex. Both libraries
 * keep worker threads: set OPENBLAS_NUM_THREADS and OMP_NUM_THREADS to the plan's threads before loading this
 * one, and execute on the thread that prepared, the main one: workspaces come from its heap, of which each
 * prepare() leaves 64 MiB free. */

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_VENDOR_API __attribute__((visibility("default")))

typedef struct lathe_vendor_call lathe_vendor_call;

/* `json` is BoundStep::node_text:
 *   {"library":"onednn","nodes":[{"op":"matmul","attrs":{},"in":[{"buffer":0,"shape":[M,K],"dtype":"fp32"},
 *    {"node":0}],"out":{"buffer":3,"shape":[M,N],"dtype":"fp32"}}]}
 * where "buffer" indexes the pointer array given to execute and "node" an earlier node of the same call.
 * A null return leaves the reason in `error` (always terminated): "no_library: ..." where the machine lacks
 * the library or what that needs, anything else is the call's fault. */
LATHE_VENDOR_API lathe_vendor_call* lathe_vendor_prepare(const char* json, int threads, char* error,
                                                         unsigned long error_size);

/* Runs one call on 64-byte-aligned buffers. Returns 0, or a library's error code. Not thread-safe a handle.
 */
LATHE_VENDOR_API int lathe_vendor_execute(lathe_vendor_call* call, void* const* buffers);

LATHE_VENDOR_API void lathe_vendor_release(lathe_vendor_call* call);

/* liblathe_vendor_cuda.so alone: buffers are device memory of the current context, and execute() enqueues on
 * this stream (a CUstream). Returns 0, or a library's error code. */
LATHE_VENDOR_API int lathe_vendor_set_stream(void* stream);

/* liblathe_vendor_cuda.so alone: looks for cuDNN, once a process, at `first_place` (a file; may be empty), in
 * the loader's path and in CUDA's folder. 1, and its path in `text`, or 0 and why there is none. Its parts
 * are opened from the same folder when calls are prepared. */
LATHE_VENDOR_API int lathe_vendor_find_cudnn(const char* first_place, char* text, unsigned long text_size);

#ifdef __cplusplus
}
#endif

#endif
