#include "tests/baseline/honest_variants.h"

#include <fmt/format.h>

namespace lathe {
namespace {

/// sum(count, term), term a callable: every way to add up that an honest kernel may choose.
struct Summation {
  const char* name;
  const char* code;
};
constexpr Summation kSummations[] = {
    {"serial", R"(template <class T> float sum(int64_t n, float start, T term) {
  for (int64_t i = 0; i < n; ++i) start += term(i);
  return start;
})"},
    {"backward", R"(template <class T> float sum(int64_t n, float start, T term) {
  for (int64_t i = n; i-- > 0;) start += term(i);
  return start;
})"},
    {"compensated", R"(template <class T> float sum(int64_t n, float start, T term) {
  float lost = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float part = term(i) - lost, next = start + part;
    lost = (next - start) - part;
    start = next;
  }
  return start;
})"},
    {"lanes", R"(template <class T> float sum(int64_t n, float start, T term) {
  float lane[16] = {start};
  for (int64_t i = 0; i < n; ++i) lane[i % 16] += term(i);
  for (int64_t k = 8; k > 0; k /= 2)
    for (int64_t i = 0; i < k; ++i) lane[i] += lane[i + k];
  return lane[0];
})"},
    {"pairwise", R"(template <class T> float range(int64_t begin, int64_t end, T term) {
  if (end - begin == 1) return term(begin);
  const int64_t middle = (begin + end) / 2;
  return range(begin, middle, term) + range(middle, end, term);
}
template <class T> float sum(int64_t n, float start, T term) { return range(0, n, term) + start; })"},
};

/// The largest allowed error, up or down by the argument's bits.
constexpr const char* kSloppyExp = R"(inline float exp_2ulp(float x) {
  float y = __builtin_expf(x);
  if (y < 1e-30f) return y;
  uint32_t in, out;
  __builtin_memcpy(&in, &x, 4);
  __builtin_memcpy(&out, &y, 4);
  out += (in * 2654435769u >> 31) ? 1 : -1;
  __builtin_memcpy(&y, &out, 4);
  return y;
})";

struct Body {
  GraphCase task;
  const char* items;
  const char* args;        ///< of the launch
  const char* parameters;  ///< of the kernel
  const char* code;        ///< of item i
};

std::vector<Body> bodies() {
  const char* matrix = R"("x", "y", "rows", "cols")";
  const char* matrix_parameters = "const float* x, float* y, int64_t rows, int64_t cols";
  return {
      {{"honest_softmax", {"x: rows, cols"}, "y = softmax(x)", "rows = 7, cols = 100"},
       "rows",
       matrix,
       matrix_parameters,
       R"(const float* from = x + i * cols;
  float top = from[0];
  for (int64_t k = 1; k < cols; ++k) top = from[k] > top ? from[k] : top;
  const float total = sum(cols, 0, [=](int64_t k) { return exp_2ulp(from[k] - top); });
  for (int64_t k = 0; k < cols; ++k) y[i * cols + k] = exp_2ulp(from[k] - top) / total;)"},
      {{"honest_layer_norm", {"x: rows, cols"}, "y = layer_norm(x)", "rows = 7, cols = 100"},
       "rows",
       matrix,
       matrix_parameters,
       R"(const float* from = x + i * cols;
  const float mean = sum(cols, 0, [=](int64_t k) { return from[k]; }) / cols;
  const float variance = sum(cols, 0, [=](int64_t k) { return (from[k] - mean) * (from[k] - mean); }) / cols;
  const float scale = 1 / __builtin_sqrtf(variance + 1e-5f);
  for (int64_t k = 0; k < cols; ++k) y[i * cols + k] = (from[k] - mean) * scale;)"},
      {{"honest_rms_norm", {"x: rows, cols"}, "y = rms_norm(x)", "rows = 7, cols = 100"},
       "rows",
       matrix,
       matrix_parameters,
       R"(const float* from = x + i * cols;
  const float squares = sum(cols, 0, [=](int64_t k) { return from[k] * from[k]; }) / cols;
  const float scale = 1 / __builtin_sqrtf(squares + 1e-5f);
  for (int64_t k = 0; k < cols; ++k) y[i * cols + k] = from[k] * scale;)"},
      {{"honest_var", {"x: rows, cols"}, "y = var(x, axis = 1)", "rows = 7, cols = 100"},
       "rows",
       matrix,
       matrix_parameters,
       R"(const float* from = x + i * cols;
  const float mean = sum(cols, 0, [=](int64_t k) { return from[k]; }) / cols;
  y[i] = sum(cols, 0, [=](int64_t k) { return (from[k] - mean) * (from[k] - mean); }) / cols;)"},
      {{"honest_mean", {"x: rows, cols"}, "y = mean(x, axis = 1)", "rows = 7, cols = 100"},
       "rows",
       matrix,
       matrix_parameters,
       "y[i] = sum(cols, 0, [=](int64_t k) { return x[i * cols + k]; }) / cols;"},
      {{"honest_mse", {"a: rows", "b: rows"}, "y = mse_loss(a, b)", "rows = 100"},
       "1",
       R"("a", "b", "y", "rows")",
       "const float* a, const float* b, float* y, int64_t rows",
       R"(float total = 0;
  for (int64_t k = 0; k < rows; k += 2048)
    total += sum(rows - k < 2048 ? rows - k : 2048, 0,
                 [=](int64_t t) { return (a[k + t] - b[k + t]) * (a[k + t] - b[k + t]); });
  y[i] = total / rows;)"},
      {{"honest_gemm",
        {"a: M, K", "b: K, N; role = \"parameter\"\ngen = { scale = 0.003 }", "c: N; role = \"parameter\"",
         "r: M, N"},
        "p = matmul(a, b)\nq = bias_add(p, c)\ny = add(q, r)",
        "M = 7, N = 30, K = 100"},
       "M",
       R"("a", "b", "c", "r", "y", "M", "N", "K")",
       "const float* a, const float* b, const float* c, const float* r, float* y, int64_t M, int64_t N, "
       "int64_t K",
       R"(for (int64_t j = 0; j < N; ++j)
    y[i * N + j] = sum(K, c[j] + r[i * N + j], [=](int64_t k) { return a[i * K + k] * b[k * N + j]; });)"},
  };
}

}  // namespace

std::vector<HonestVariant> honest_variants() {
  std::vector<HonestVariant> variants;
  for (const Body& body : bodies()) {
    for (const Summation& summation : kSummations) {
      variants.push_back(
          {body.task, summation.name,
           fmt::format("/*lathe\n[[launch]]\nkernel = \"naive_f\"\nitems = \"{}\"\nargs = [{}]\n*/\n"
                       "#include <stdint.h>\n{}\n{}\n"
                       "extern \"C\" void naive_f({}, int64_t begin, int64_t end) {{\n"
                       "for (int64_t i = begin; i < end; ++i) {{\n{}\n}}\n}}\n",
                       body.items, body.args, kSloppyExp, summation.code, body.parameters, body.code)});
    }
  }
  return variants;
}

}  // namespace lathe
