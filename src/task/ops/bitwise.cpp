#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "task/ops/factories.h"
#include "task/ops/support/bounds.h"
#include "task/ops/support/indexing.h"
#include "task/ops/support/jumps.h"
#include "task/ops/support/shape_rules.h"

namespace lathe::ops {
namespace {

/// The bits of whole numbers as two's complement.
using Word = std::int64_t;
using Formula = Word (*)(Word a, Word b, DType dtype);

int bits_of(DType dtype) { return static_cast<int>(8 * info(dtype).bytes); }

/// A double that is whole, or the nearest end of what a word holds.
Word word_of(double x) {
  constexpr double kEnd = 0x1p63;
  if (!(x < kEnd)) return std::numeric_limits<Word>::max();
  return x < -kEnd ? std::numeric_limits<Word>::min() : static_cast<Word>(x);
}

/// The low bits of x as a number of the dtype.
Word wrapped(Word x, DType dtype) {
  const int above = 64 - bits_of(dtype);
  const std::uint64_t low = static_cast<std::uint64_t>(x) << above;
  return info(dtype).is_unsigned() ? static_cast<Word>(low >> above) : static_cast<Word>(low) >> above;
}

bool is_inside(Word by, DType dtype) { return by >= 0 && by < bits_of(dtype); }

Word shifted_left(Word x, Word by, DType dtype) {
  if (!is_inside(by, dtype)) return 0;
  return wrapped(static_cast<Word>(static_cast<std::uint64_t>(x) << by), dtype);
}

Word shifted_right(Word x, Word by, DType dtype) {
  if (is_inside(by, dtype)) return x >> by;
  return x < 0 ? -1 : 0;
}

/// As of unsigned numbers: zeros come in from above.
Word shifted_right_logically(Word x, Word by, DType dtype) {
  if (!is_inside(by, dtype)) return 0;
  const auto all = ~std::uint64_t{0} >> (64 - bits_of(dtype));
  return wrapped(static_cast<Word>((static_cast<std::uint64_t>(x) & all) >> by), dtype);
}

/// Of numbers of 32 bits, as unsigned ones.
std::uint64_t product_of_bits(Word a, Word b) {
  return std::uint64_t{static_cast<std::uint32_t>(a)} * static_cast<std::uint32_t>(b);
}

Word held(Word x, DType dtype) {
  return std::clamp(x, word_of(info(dtype).lowest), word_of(info(dtype).largest));
}

Word count_of_ones(Word x, Word, DType dtype) {
  return std::popcount(static_cast<std::uint64_t>(x) & ~std::uint64_t{0} >> (64 - bits_of(dtype)));
}

constexpr std::string_view kAlsoUnsigned = "int8, uint8, int32 or int64";

/// An op on bits: of one number, of two, or of one and an attribute.
struct BitOp {
  std::string_view name;
  std::string_view attribute;  ///< in place of the second input; empty if there is none
  Formula f;
  std::string_view mistake_name;
  Formula mistake;
  Formula textbook;  ///< nullptr for none
  std::string_view dtypes = "int8, int32 or int64";

  bool takes(DType dtype) const {
    return dtype == DType::kU8 ? dtypes == kAlsoUnsigned : dtypes.find(info(dtype).name) != dtypes.npos;
  }
  bool shifts() const { return attribute == "by"; }
};

constexpr BitOp kBitOps[] = {
    {"bitwise_and", "value", [](Word a, Word b, DType) { return a & b; }, "or",
     [](Word a, Word b, DType) { return a | b; }, nullptr, kAlsoUnsigned},
    {"bitwise_or", "value", [](Word a, Word b, DType) { return a | b; }, "and",
     [](Word a, Word b, DType) { return a & b; }, nullptr, kAlsoUnsigned},
    {"bitwise_xor", "value", [](Word a, Word b, DType) { return a ^ b; }, "and",
     [](Word a, Word b, DType) { return a & b; }, nullptr, kAlsoUnsigned},
    {"bitwise_not", "", [](Word a, Word, DType) { return ~a; }, "negated",
     [](Word a, Word, DType dtype) {
       return wrapped(static_cast<Word>(0 - static_cast<std::uint64_t>(a)), dtype);
     },
     nullptr},
    {"shift_left", "by", shifted_left, "off_by_one",
     [](Word a, Word b, DType dtype) { return shifted_left(a, b > 0 ? b - 1 : b + 1, dtype); }, nullptr},
    {"shift_right", "by", shifted_right, "off_by_one",
     [](Word a, Word b, DType dtype) { return shifted_right(a, b > 0 ? b - 1 : b + 1, dtype); },
     shifted_right_logically, kAlsoUnsigned},
    {"popcount", "", count_of_ones, "of_magnitude",
     [](Word a, Word, DType dtype) { return count_of_ones(a < 0 ? -a : a, 0, dtype); }, nullptr,
     "int32 or int64"},
    {"wrapping_add", "value", [](Word a, Word b, DType dtype) { return wrapped(a + b, dtype); }, "no_carry",
     [](Word a, Word b, DType) { return a ^ b; }, nullptr, "int32"},
    {"wrapping_mul", "value", [](Word a, Word b, DType dtype) { return wrapped(a * b, dtype); }, "clamped",
     [](Word a, Word b, DType dtype) { return held(a * b, dtype); }, nullptr, "int32"},
    {"mul_high", "value",
     [](Word a, Word b, DType dtype) {
       return wrapped(static_cast<Word>(product_of_bits(a, b) >> 32), dtype);
     },
     "low_half", [](Word a, Word b, DType dtype) { return wrapped(a * b, dtype); },
     [](Word a, Word b, DType) { return a * b >> 32; }, "int32"},
};

/// The whole numbers that an operand may be, whose error is an open jump.
struct Candidates {
  Word first;
  Word last;

  Candidates(double x, double error, DType dtype) {
    const double reach = reach_to_jump(x, error);
    const double lowest = info(dtype).lowest, largest = info(dtype).largest;
    first = word_of(std::clamp(std::ceil(x - reach), lowest, largest));
    last = std::max(first, word_of(std::clamp(std::floor(x + reach), lowest, largest)));
  }
  bool several() const { return last > first; }
  double count() const { return static_cast<double>(last) - static_cast<double>(first) + 1; }
};

/// Exact. What is shifted by no number of [0, bits) has lost all its bits:
/// 0 is left of it, or its sign.
class Bitwise final : public NamedOp {
 public:
  explicit Bitwise(const BitOp& op)
      : NamedOp({op.name, OpClass::kElementwise, 1, op.attribute.empty() ? 1 : 2, rules(op)}), op_(op) {}

  Result<SymbolicType> infer(const InferContext& context) const override {
    const SymbolicType& x = context.in[0];
    const DTypeInfo& type = info(x.dtype);
    if (type.is_float || x.dtype == DType::kBool) {
      return invalid("needs whole numbers, got " + describe(x),
                     type.is_float ? "convert it with the op 'cast'"
                                   : "combine masks with logical_and, logical_or and logical_not");
    }
    if (!op_.takes(x.dtype)) {
      return invalid("takes " + std::string(op_.dtypes) + ", got " + describe(x),
                     x.dtype == DType::kU8
                         ? "convert it with cast(x, dtype = \"int32\"), and drop what is above its bits "
                           "with bitwise_and(y, value = 255)"
                         : "convert it with the op 'cast', and drop the copies of the sign with "
                           "bitwise_and(x, value = 255) if it was int8");
    }
    if (op_.attribute.empty()) return x;
    const std::string attribute(op_.attribute);
    const bool constant = context.attrs.has(attribute);
    if (constant == (context.in.size() == 2)) {
      return invalid("takes input 2 or the attribute '" + attribute + "'",
                     constant ? "drop one of them" : "give one of them");
    }
    if (constant) {
      LATHE_TRY(const std::int64_t value, fixed_integer(context.attrs, attribute, 0));
      LATHE_CHECK_OK(check_constant(value, x.dtype));
      return x;
    }
    const SymbolicType& other = context.in[1];
    if (x.dtype != other.dtype) {
      return invalid("inputs 1 and 2 have different dtypes: " + describe(x) + " and " + describe(other),
                     "convert one of them with the op 'cast'");
    }
    LATHE_TRY(auto shape, broadcast(context, x.shape, other.shape));
    return SymbolicType{x.dtype, std::move(shape)};
  }

  std::optional<ValueRange> takes(std::size_t input, DType dtype) const override {
    if (!op_.shifts() || input != 1) return std::nullopt;
    return ValueRange{0, static_cast<double>(bits_of(dtype) - 1)};
  }

  void evaluate(const OpSite& site, std::span<const Value* const> in, const Numerics& numerics,
                Value& out) const override {
    apply(numerics.textbook && op_.textbook != nullptr ? op_.textbook : op_.f, site, in, out);
  }

  double flops(const OpSite& site) const override { return static_cast<double>(element_count(site.out)); }

  std::string c_expression(const Attrs& attrs, std::span<const std::string> operands) const override {
    std::string call = "lathe::" + std::string(op_.name) + "(" + operands[0];
    if (attrs.has(op_.attribute))
      call += ", " + std::to_string(attrs.integer(op_.attribute, 0));
    else if (!op_.attribute.empty())
      call += ", " + operands[1];
    return call + ")";
  }

  /// Signs, ends of int8 and bits in turn: no more, for sums of int32 may follow.
  std::vector<double> telling(const Attrs& attrs, std::size_t input, DType) const override {
    if (op_.shifts() && input == 1) return {};
    std::vector<double> values = {0, -1, 1, -128, 127, 85, -86, 15, -16};
    if (op_.name == "mul_high" && attrs.has("value")) add_carries(attrs.integer("value", 0), values);
    return values;
  }

  std::vector<OpMutant> mutants() const override {
    return {{op_.mistake_name, [this](const OpSite& site, std::span<const Value* const> in, Value& out) {
               apply(op_.mistake, site, in, out);
             }}};
  }

 private:
  static std::vector<AttrRule> rules(const BitOp& op) {
    if (op.attribute.empty()) return {};
    return {{op.attribute, AttrKind::kInteger}};
  }

  /// Factors whose product with a constant is at a multiple of 2^32, and just below one: of an odd
  /// constant by as little as there is, which an fp64 does not hold.
  static void add_carries(std::int64_t value, std::vector<double>& values) {
    constexpr std::uint64_t kMost = 16;
    const auto factor = static_cast<std::uint32_t>(value);
    const auto add = [&](std::uint64_t x) {
      values.push_back(static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(x))));
    };
    for (std::uint64_t i = 1; i <= kMost && factor > 1; ++i) {
      const std::uint64_t high = std::max<std::uint64_t>(1, (factor - 1) * i / kMost);
      const std::uint64_t at = ((high << 32) + factor - 1) / factor;
      add(at);
      add(at - 1);
    }
    std::uint32_t inverse = factor;  // modulo 8, and by each step of twice as many bits
    for (int bits = 3; bits < 32; bits *= 2) inverse *= 2 - factor * inverse;
    for (std::uint32_t i = 1; i <= kMost && factor % 2 == 1; ++i) add(0 - i * inverse);
  }

  Status check_constant(std::int64_t value, DType dtype) const {
    const double least = op_.shifts() ? 0 : std::max(info(dtype).lowest, -0x1p53);
    const double most = op_.shifts() ? bits_of(dtype) - 1 : std::min(info(dtype).largest, 0x1p53);
    if (static_cast<double>(value) >= least && static_cast<double>(value) <= most) return Ok{};
    return invalid("attribute '" + std::string(op_.attribute) + "' must be from " +
                       std::to_string(static_cast<std::int64_t>(least)) + " to " +
                       std::to_string(static_cast<std::int64_t>(most)) + " for " +
                       std::string(info(dtype).name),
                   op_.shifts() || info(dtype).is_unsigned() ? "" : "write the bits as a signed number");
  }

  static void apply(Formula f, const OpSite& site, std::span<const Value* const> in, Value& out) {
    const bool two = in.size() > 1;
    const std::string_view attribute = site.attrs.has("by") ? "by" : "value";
    const Value constant{{}, {static_cast<double>(site.attrs.integer(attribute, 0))}, {}};
    const Value* const both[] = {in[0], two ? in[1] : &constant};
    prepare(site.out, needs_error(both, Numerics{.unit_roundoff = 0}), out);
    for_each_row<2>(site.out, {site.in[0], two ? site.in[1] : Shape{}}, [&](const BroadcastRow<2>& row) {
      for (std::size_t i = 0; i < row.length; ++i) {
        const std::size_t ia = row.in[0] + i * row.step[0], ib = row.in[1] + i * row.step[1];
        const double a = both[0]->data[ia], b = both[1]->data[ib];
        double& y = out.data[row.out + i];
        y = std::isnan(a) || std::isnan(b) ? a + b
                                           : static_cast<double>(f(word_of(a), word_of(b), site.dtype));
        if (!out.err.empty() && !std::isnan(y))
          out.err[row.out + i] = spread(f, {a, both[0]->error_at(ia), site.dtype},
                                        {b, both[1]->error_at(ib), site.dtype}, y, site.dtype);
      }
    });
  }

  /// What may come of operands of which several values are right: of many, anything.
  static double spread(Formula f, const Candidates& a, const Candidates& b, double y, DType dtype) {
    constexpr double kMostTried = 1024;
    if (!a.several() && !b.several()) return 0;
    if (a.count() * b.count() > kMostTried) return 2 * info(dtype).largest + 1;
    double most = 0;
    for (Word i = 0; i <= a.last - a.first; ++i)
      for (Word k = 0; k <= b.last - b.first; ++k)
        most = std::max(most, std::fabs(static_cast<double>(f(a.first + i, b.first + k, dtype)) - y));
    return most;
  }

  BitOp op_;
};

}  // namespace

void add_bitwise(OpList& list) {
  for (const BitOp& op : kBitOps) list.push_back(std::make_unique<Bitwise>(op));
}

}  // namespace lathe::ops
