#include <lathe_softmax_rows.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A plain program that calls an exported softmax kernel: on one thread, on two of its own, and outside the
 * kernel's domain. It checks every number and prints the time of a call. */

enum { kThreads = 2, kCalls = 20 };

typedef void (*body_function)(void* state, int64_t begin, int64_t end);

struct share {
  body_function body;
  void* state;
  int64_t begin, end;
};

static void* run_share(void* argument) {
  struct share* share = argument;
  share->body(share->state, share->begin, share->end);
  return NULL;
}

static void run_on_threads(void* context, int64_t items, body_function body, void* state) {
  pthread_t threads[kThreads];
  struct share shares[kThreads];
  (void)context;
  for (int t = 0; t < kThreads; ++t) {
    shares[t] = (struct share){body, state, items * t / kThreads, items * (t + 1) / kThreads};
    if (pthread_create(&threads[t], NULL, run_share, &shares[t]) != 0) abort();
  }
  for (int t = 0; t < kThreads; ++t) pthread_join(threads[t], NULL);
}

static float* aligned_floats(int64_t count) {
  const size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
  float* floats = aligned_alloc(64, bytes);
  if (floats == NULL) abort();
  return floats;
}

/* The largest error relative to softmax computed in double precision. */
static double worst_error(const float* x, const float* y, int64_t rows, int64_t cols) {
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double top = x[r * cols], sum = 0;
    for (int64_t c = 1; c < cols; ++c) top = fmax(top, x[r * cols + c]);
    for (int64_t c = 0; c < cols; ++c) sum += exp(x[r * cols + c] - top);
    for (int64_t c = 0; c < cols; ++c) {
      const double want = exp(x[r * cols + c] - top) / sum;
      const double error = fabs(y[r * cols + c] - want) / want;
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

static double now_seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int check(int64_t rows, int64_t cols, const lathe_parallel* parallel) {
  const int64_t workspace_bytes = lathe_softmax_rows_workspace_bytes(rows, cols, parallel);
  if (workspace_bytes < 0) return 1;
  float* x = aligned_floats(rows * cols);
  float* y = aligned_floats(rows * cols);
  void* workspace = workspace_bytes > 0 ? aligned_floats((workspace_bytes + 3) / 4) : NULL;
  for (int64_t i = 0; i < rows * cols; ++i) x[i] = (float)((i * 2654435761u) % 2000) / 100.0f - 10.0f;

  int status = LATHE_OK;
  double best_seconds = 1e9;
  for (int call = 0; call < kCalls && status == LATHE_OK; ++call) {
    const double begin = now_seconds();
    status = lathe_softmax_rows(x, y, rows, cols, workspace, parallel);
    best_seconds = fmin(best_seconds, now_seconds() - begin);
  }
  const double error = status == LATHE_OK ? worst_error(x, y, rows, cols) : INFINITY;
  printf("%5lld x %-5lld %d thread(s): status %d, worst relative error %.1e, %.1f us\n", (long long)rows,
         (long long)cols, parallel ? kThreads : 1, status, error, 1e6 * best_seconds);
  free(x);
  free(y);
  free(workspace);
  return error < 1e-5 ? 0 : 1;
}

int main(void) {
  const lathe_parallel threads = {kThreads, NULL, run_on_threads};
  int failures =
      check(1024, 512, NULL) + check(1024, 512, &threads) + check(37, 129, NULL) + check(3, 1, &threads);

  float* small = aligned_floats(16);
  failures += lathe_softmax_rows(small, small, 0, 5, NULL, NULL) != LATHE_OUTSIDE_DOMAIN;
  failures += lathe_softmax_rows(small + 1, small, 1, 5, NULL, NULL) != LATHE_MISALIGNED;
  free(small);
  printf(failures == 0 ? "all correct\n" : "%d checks failed\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
