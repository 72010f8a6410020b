#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/task/ops/harness.h"

namespace lathe {
namespace {

using Kernel = void (*)(const float* const* in, float* out, std::int64_t count);

/// Kernels that apply c_expression to one value at a time and to vectors of the machine's width.
class CompiledExpressions {
 public:
  explicit CompiledExpressions(const std::vector<OpCase>& cases) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("lathe-c-{}", ::getpid());
    std::filesystem::create_directories(folder);
    std::ofstream source(folder / "kernels.cpp");
    source << "#include \"lathe/cpu.h\"\nusing namespace lathe;\n";
    for (std::size_t i = 0; i < cases.size(); ++i) source << kernels(cases[i], i);
    source.close();
    const std::string object = (folder / "kernels.so").string();
    const std::string command =
        fmt::format("g++ -std=c++20 -O1 -march=native -shared -fPIC -I{}/device {} -o {} 2>{}",
                    LATHE_SOURCE_DIR, (folder / "kernels.cpp").string(), object, (folder / "log").string());
    compiled_ = std::system(command.c_str()) == 0;
    std::ifstream log(folder / "log");
    log_.assign(std::istreambuf_iterator<char>(log), {});
    handle_ = compiled_ ? ::dlopen(object.c_str(), RTLD_NOW) : nullptr;
    std::filesystem::remove_all(folder);
  }

  bool compiled() const { return handle_ != nullptr; }
  const std::string& log() const { return log_; }
  Kernel find(std::string_view kind, std::size_t index) const {
    return reinterpret_cast<Kernel>(::dlsym(handle_, fmt::format("{}_{}", kind, index).c_str()));
  }

 private:
  /// Whole numbers that fp32 vectors do not hold are computed one at a time.
  static std::string kernels(const OpCase& op_case, std::size_t index) {
    const bool wide = !op_case.draws.empty() && op_case.draws[0].whole == DType::kI32;
    std::vector<std::string> operands;
    std::string scalars;
    std::string vectors;
    for (std::size_t k = 0; k < op_case.in.size(); ++k) {
      operands.push_back(fmt::format("x{}", k));
      scalars +=
          fmt::format("const auto x{0} = static_cast<{1}>(in[{0}][i]);", k, wide ? "int32_t" : "float");
      vectors += fmt::format("const f32v x{0} = load(in[{0}] + i);", k);
    }
    const std::string expression = find_op(op_case.op)->c_expression(op_case.attrs, operands);
    const std::string head = "(const float* const* in, float* out, int64_t n)";
    const std::string scalar_loop = fmt::format(
        "{} {{ for (int64_t i = 0; i < n; ++i) {{ {} out[i] = {}; }} }}\n", head, scalars, expression);
    if (wide)
      return fmt::format("extern \"C\" void scalar_{0}{1}extern \"C\" void vector_{0}{1}", index,
                         scalar_loop);
    return fmt::format(
        "extern \"C\" void scalar_{0}{2}"
        "extern \"C\" void vector_{0}{1} {{ for (int64_t i = 0; i < n; i += kLanes) {{ {3} store(out + i, "
        "f32v({4})); }} "
        "}}\n",
        index, head, scalar_loop, vectors, expression);
  }

  bool compiled_ = false;
  std::string log_;
  void* handle_ = nullptr;
};

/// All operands have one shape, so that every kernel is a plain loop.
OpCase flat(OpCase op_case) {
  for (Shape& shape : op_case.in) shape = {256};
  return op_case;
}

/// The op on one element after another: 256 sites of one element each would say the same.
Value evaluate_flat(const OpCase& op_case, const std::vector<Value>& in) {
  OpCase element = op_case;
  Value out;
  for (Shape& shape : element.in) shape = {1};
  if (op_case.op == "bias_add" || op_case.op == "batch_norm") element.in[0] = {1, 1};
  if (op_case.op == "bias_add") element.attrs = {};
  for (std::size_t i = 0; i < 256; ++i) {
    std::vector<Value> one;
    for (std::size_t k = 0; k < in.size(); ++k) one.push_back({element.in[k], {in[k].data[i]}, {}});
    const Value y = evaluate(element, one, Numerics{});
    out.data.push_back(y.data[0]);
    out.err.push_back(y.error_at(0));
  }
  return out;
}

TEST(CExpression, MeansWhatTheOpMeansOnScalarsAndVectors) {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : elementwise_cases()) cases.push_back(flat(op_case));
  const CompiledExpressions compiled(cases);
  ASSERT_TRUE(compiled.compiled()) << compiled.log();
  Rng rng(Seed::from_number(9));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<Value> in = draw_inputs(cases[i], rng);
    const Value want = evaluate_flat(cases[i], in);
    std::vector<std::vector<float>> operands;
    std::vector<const float*> operand_pointers;
    for (const Value& value : in) operands.emplace_back(value.data.begin(), value.data.end());
    for (const auto& operand : operands) operand_pointers.push_back(operand.data());
    for (const std::string_view kind : {"scalar", "vector"}) {
      std::vector<float> got(256);
      compiled.find(kind, i)(operand_pointers.data(), got.data(), 256);
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_NEAR(static_cast<double>(got[k]), want.data[k],
                    want.err[k] + 0x1p-24 * std::fabs(want.data[k]))
            << kind << " " << cases[i].op;
      }
    }
  }
}

TEST(CExpression, EveryElementwiseOpHasOneAndNoOtherDoes) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  for (const Op* op : all_ops()) {
    const bool has_one = !op->c_expression({}, names).empty();
    EXPECT_EQ(has_one, op->op_class() == OpClass::kElementwise) << op->name();
  }
}

}  // namespace
}  // namespace lathe
