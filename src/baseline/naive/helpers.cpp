#include <array>
#include <cctype>

#include "baseline/naive/kernel.h"

namespace lathe::naive {
namespace {

/// Whether `code` calls `function` outside any namespace.
bool calls_plainly(std::string_view code, std::string_view function) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
  };
  for (std::size_t at = code.find(function); at != code.npos; at = code.find(function, at + 1))
    if ((at == 0 || !is_word(code[at - 1])) && code.substr(at + function.size()).starts_with('('))
      return true;
  return false;
}

struct Helper {
  std::string_view call;
  std::string_view definition;
};

constexpr std::array kHelpers = {
    Helper{"lathe::exp(",
           "inline float exp(float x) { return __builtin_expf(x); }\n"
           "inline double exp(double x) { return __builtin_exp(x); }"},
    Helper{"lathe::exp2(",
           "inline float exp2(float x) { return __builtin_exp2f(x); }\n"
           "inline double exp2(double x) { return __builtin_exp2(x); }"},
    Helper{"lathe::expm1(",
           "inline float expm1(float x) { return __builtin_expm1f(x); }\n"
           "inline double expm1(double x) { return __builtin_expm1(x); }"},
    Helper{"lathe::log(",
           "inline float log(float x) { return __builtin_logf(x); }\n"
           "inline double log(double x) { return __builtin_log(x); }"},
    Helper{"lathe::log2(",
           "inline float log2(float x) { return __builtin_log2f(x); }\n"
           "inline double log2(double x) { return __builtin_log2(x); }"},
    Helper{"lathe::log1p(",
           "inline float log1p(float x) { return __builtin_log1pf(x); }\n"
           "inline double log1p(double x) { return __builtin_log1p(x); }"},
    Helper{"lathe::tanh(",
           "inline float tanh(float x) { return __builtin_tanhf(x); }\n"
           "inline double tanh(double x) { return __builtin_tanh(x); }"},
    Helper{"lathe::erf(",
           "inline float erf(float x) { return __builtin_erff(x); }\n"
           "inline double erf(double x) { return __builtin_erf(x); }"},
    Helper{"lathe::sin(",
           "inline float sin(float x) { return __builtin_sinf(x); }\n"
           "inline double sin(double x) { return __builtin_sin(x); }"},
    Helper{"lathe::cos(",
           "inline float cos(float x) { return __builtin_cosf(x); }\n"
           "inline double cos(double x) { return __builtin_cos(x); }"},
    Helper{"lathe::tan(",
           "inline float tan(float x) { return __builtin_tanf(x); }\n"
           "inline double tan(double x) { return __builtin_tan(x); }"},
    Helper{"lathe::asin(",
           "inline float asin(float x) { return __builtin_asinf(x); }\n"
           "inline double asin(double x) { return __builtin_asin(x); }"},
    Helper{"lathe::acos(",
           "inline float acos(float x) { return __builtin_acosf(x); }\n"
           "inline double acos(double x) { return __builtin_acos(x); }"},
    Helper{"lathe::atan(",
           "inline float atan(float x) { return __builtin_atanf(x); }\n"
           "inline double atan(double x) { return __builtin_atan(x); }"},
    Helper{"lathe::sinh(",
           "inline float sinh(float x) { return __builtin_sinhf(x); }\n"
           "inline double sinh(double x) { return __builtin_sinh(x); }"},
    Helper{"lathe::cosh(",
           "inline float cosh(float x) { return __builtin_coshf(x); }\n"
           "inline double cosh(double x) { return __builtin_cosh(x); }"},
    Helper{"lathe::floor(",
           "inline float floor(float x) { return __builtin_floorf(x); }\n"
           "inline double floor(double x) { return __builtin_floor(x); }"},
    Helper{"lathe::ceil(",
           "inline float ceil(float x) { return __builtin_ceilf(x); }\n"
           "inline double ceil(double x) { return __builtin_ceil(x); }"},
    Helper{"lathe::round(",
           "inline float round(float x) { return __builtin_rintf(x); }\n"
           "inline double round(double x) { return __builtin_rint(x); }"},
    Helper{"lathe::trunc(",
           "inline float trunc(float x) { return __builtin_truncf(x); }\n"
           "inline double trunc(double x) { return __builtin_trunc(x); }"},
    Helper{"lathe::exponent(",
           "inline float exponent(float x) {\n"
           "  const int32_t e = static_cast<int32_t>(__builtin_bit_cast(uint32_t, x) >> 23 & 255) - 127;\n"
           "  return static_cast<float>(e < -126 ? -126 : e);\n}\n"
           "inline double exponent(double x) {\n"
           "  const int32_t e = static_cast<int32_t>(__builtin_bit_cast(uint64_t, x) >> 52 & 2047) - 1023;\n"
           "  return e < -126 ? -126 : e;\n}"},
    Helper{"lathe::sqrt(",
           "inline float sqrt(float x) { return __builtin_sqrtf(x); }\n"
           "inline double sqrt(double x) { return __builtin_sqrt(x); }"},
    Helper{"lathe::rsqrt(",
           "inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }\n"
           "inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }"},
    Helper{"lathe::sigmoid(",
           "inline float sigmoid(float x) { return 1.0f / (1.0f + __builtin_expf(-x)); }\n"
           "inline double sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }"},
    Helper{"lathe::abs(",
           "inline float abs(float x) { return __builtin_fabsf(x); }\n"
           "inline double abs(double x) { return __builtin_fabs(x); }"},
    Helper{"lathe::pow(",
           "inline float pow(float x, float y) { return __builtin_powf(x, y); }\n"
           "inline double pow(double x, double y) { return __builtin_pow(x, y); }"},
    Helper{"lathe::copysign(",
           "inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }\n"
           "inline double copysign(double x, double y) { return __builtin_copysign(x, y); }"},
    Helper{"lathe::atan2(",
           "inline float atan2(float x, float y) { return __builtin_atan2f(x, y); }\n"
           "inline double atan2(double x, double y) { return __builtin_atan2(x, y); }"},
    Helper{"lathe::fmod(",
           "inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }\n"
           "inline double fmod(double x, double y) { return __builtin_fmod(x, y); }\n"
           "inline int32_t fmod(int32_t x, int32_t y) { return y == 0 || y == -1 ? 0 : x % y; }\n"
           "inline int64_t fmod(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }"},
    Helper{"lathe::remainder(",
           "template <class T> T remainder(T x, T y) {\n"
           "  const T r = lathe::fmod(x, y);\n"
           "  return r != 0 && (r < 0) != (y < 0) ? r + y : r;\n}"},
    Helper{"lathe::floor_divide(",
           "template <class T> T floor_divide(T x, T y) {\n"
           "  if (y == 0 || y == -1) return y * x;\n"
           "  return x % y != 0 && (x < 0) != (y < 0) ? x / y - 1 : x / y;\n}"},
    Helper{"lathe::to_int8(",
           "template <class T> int32_t to_int8(T x) {\n"
           "  return x <= -128 ? -128 : x >= 127 ? 127 : static_cast<int32_t>(x);\n}"},
    Helper{"lathe::to_uint8(",
           "template <class T> int32_t to_uint8(T x) {\n"
           "  return x <= 0 ? 0 : x >= 255 ? 255 : static_cast<int32_t>(x);\n}"},
    Helper{"lathe::to_int32(",
           "template <class T> int32_t to_int32(T x) {\n"
           "  return x <= -0x1p31 ? INT32_MIN : x >= 0x1p31 - 1 ? INT32_MAX : static_cast<int32_t>(x);\n}"},
    Helper{"lathe::to_int64(",
           "template <class T> int64_t to_int64(T x) {\n"
           "  return x < -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(x);\n}"},
    Helper{"lathe::bitwise_and(",
           "template <class T> T bitwise_and(T x, int64_t y) { return x & static_cast<T>(y); }"},
    Helper{"lathe::bitwise_or(",
           "template <class T> T bitwise_or(T x, int64_t y) { return x | static_cast<T>(y); }"},
    Helper{"lathe::bitwise_xor(",
           "template <class T> T bitwise_xor(T x, int64_t y) { return x ^ static_cast<T>(y); }"},
    Helper{"lathe::bitwise_not(", "template <class T> T bitwise_not(T x) { return ~x; }"},
    Helper{"lathe::shift_left(",
           "inline int32_t shift_left(int32_t x, int64_t by) {\n"
           "  return by < 0 || by > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(x) << by);\n}\n"
           "inline int64_t shift_left(int64_t x, int64_t by) {\n"
           "  return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << by);\n}"},
    Helper{
        "lathe::shift_right(",
        "inline int32_t shift_right(int32_t x, int64_t by) { return x >> (by < 0 || by > 31 ? 31 : by); }\n"
        "inline int64_t shift_right(int64_t x, int64_t by) { return x >> (by < 0 || by > 63 ? 63 : by); }"},
    Helper{"lathe::popcount(",
           "template <class T> T popcount(T x) {\n"
           "  uint64_t v = sizeof(T) == 4 ? static_cast<uint32_t>(x) : static_cast<uint64_t>(x);\n"
           "  v -= v >> 1 & 0x5555555555555555;\n"
           "  v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);\n"
           "  return static_cast<T>((v + (v >> 4) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);\n}"},
    Helper{"lathe::wrapping_add(",
           "inline int32_t wrapping_add(int32_t x, int64_t y) {\n"
           "  return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));\n}"},
    Helper{"lathe::wrapping_mul(",
           "inline int32_t wrapping_mul(int32_t x, int64_t y) {\n"
           "  return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));\n}"},
    Helper{"lathe::mul_high(",
           "inline int32_t mul_high(int32_t x, int64_t y) {\n"
           "  return static_cast<int32_t>(uint64_t{static_cast<uint32_t>(x)} * static_cast<uint32_t>(y) >> "
           "32);\n}"},
    Helper{"lathe::fma(",
           "inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }\n"
           "inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }"},
    Helper{"lathe::max(", "template <class T> T max(T x, T y) { return x > y || x != x ? x : y; }"},
    Helper{"lathe::min(", "template <class T> T min(T x, T y) { return x < y || x != x ? x : y; }"},
    Helper{"lathe::is_nan(", "template <class T> bool is_nan(T x) { return x != x; }"},
    Helper{"lathe::lt(", "template <class T, class U> bool lt(T x, U y) { return x < y; }"},
    Helper{"lathe::le(", "template <class T, class U> bool le(T x, U y) { return x <= y; }"},
    Helper{"lathe::gt(", "template <class T, class U> bool gt(T x, U y) { return x > y; }"},
    Helper{"lathe::ge(", "template <class T, class U> bool ge(T x, U y) { return x >= y; }"},
    Helper{"lathe::eq(", "template <class T, class U> bool eq(T x, U y) { return x == y; }"},
    Helper{"lathe::ne(", "template <class T, class U> bool ne(T x, U y) { return x != y; }"},
    Helper{"lathe::half", R"(struct half {
  _Float16 value;
  half() = default;
  explicit half(float x) : value(static_cast<_Float16>(x)) {}
  half& operator=(float x) { return *this = half(x); }
  operator float() const { return static_cast<float>(value); }
};)"},
    Helper{"lathe::bfloat16", R"(struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  explicit bfloat16(float x) {
    const uint32_t whole = __builtin_bit_cast(uint32_t, x);
    bits = (x != x ? whole | 0x400000 : whole + 0x7fff + (whole >> 16 & 1)) >> 16;
  }
  bfloat16& operator=(float x) { return *this = bfloat16(x); }
  operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
};)"},
    Helper{"lathe::fp8", R"(template <int kMantissa, bool kHasInfinity>
struct Fp8 {
  static constexpr int kBias = (1 << (6 - kMantissa)) - 1, kAbove = kHasInfinity ? 0x7c : 0x7e;
  uint8_t bits;
  Fp8() = default;
  explicit Fp8(float x) {
    const float size = __builtin_fabsf(x);
    const int own = static_cast<int>(__builtin_bit_cast(uint32_t, size) >> 23) - 127;
    const int exponent = own < 1 - kBias ? 1 - kBias : own;
    int code = kAbove;
    if (size < 65536.0f)
      code = static_cast<int>(__builtin_rintf(size / power_of_two(exponent - kMantissa))) +
             ((exponent + kBias - 1) << kMantissa);
    if (code > kAbove) code = kAbove;
    if (x != x) code = 0x7f;
    bits = code | (__builtin_signbit(x) ? 0x80 : 0);
  }
  Fp8& operator=(float x) { return *this = Fp8(x); }
  operator float() const {
    const int code = bits & 0x7f, exponent = code >> kMantissa, mantissa = code - (exponent << kMantissa);
    float size = exponent == 0 ? mantissa * power_of_two(1 - kBias - kMantissa)
                               : ((1 << kMantissa) + mantissa) * power_of_two(exponent - kBias - kMantissa);
    if (code > kAbove) size = __builtin_nanf("");
    if (kHasInfinity && code == kAbove) size = __builtin_inff();
    return bits & 0x80 ? -size : size;
  }
  static float power_of_two(int exponent) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
  }
};
using fp8e4m3 = Fp8<3, false>;
using fp8e5m2 = Fp8<2, true>;)"},
    Helper{"lathe::select(",
           "template <class T, class U> auto select(bool m, T x, U y) { return m ? x : y; }"},
};

constexpr std::array kIntegerHelpers = {
    Helper{"cdiv", "static inline int64_t cdiv(int64_t x, int64_t y) { return (x + y - 1) / y; }"},
    Helper{"min", "static inline int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }"},
    Helper{"max", "static inline int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }"},
    Helper{"align", "static inline int64_t align(int64_t x, int64_t y) { return (x + y - 1) / y * y; }"},
};

}  // namespace

std::string helpers_for(std::string_view code) {
  std::string text;
  for (const Helper& helper : kIntegerHelpers)
    if (calls_plainly(code, helper.call)) text += std::string(helper.definition) + "\n";
  std::string named;
  for (auto helper = kHelpers.rbegin(); helper != kHelpers.rend(); ++helper)  // one may call those before it
    if (code.find(helper->call) != code.npos || named.find(helper->call) != named.npos)
      named = std::string(helper->definition) + "\n" + named;
  if (!named.empty()) text += "namespace lathe {\n" + named + "}  // namespace lathe\n";
  return text.empty() ? text : "\n" + text;
}

}  // namespace lathe::naive
