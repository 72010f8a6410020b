#include "task/foreign_names.h"

#include <gmock/gmock.h>

#include <regex>

#include "task/op.h"

namespace lathe {
namespace {

using testing::HasSubstr;

TEST(ForeignNames, AreHintedByMeaning) {
  EXPECT_THAT(hint_for_foreign_op("cat"), HasSubstr("concat")) << "which 'cast' is nearer to in letters";
  EXPECT_THAT(hint_for_foreign_op("permute"), HasSubstr("transpose(x, perm"));
  EXPECT_THAT(hint_for_foreign_op("view"), HasSubstr("reshape"));
  EXPECT_THAT(hint_for_foreign_op("stack"), HasSubstr("concat"));
  EXPECT_THAT(hint_for_foreign_op("amax"), HasSubstr("reduce_max"));
  EXPECT_THAT(hint_for_foreign_op("std_mean"), HasSubstr("unbiased"));
  EXPECT_THAT(hint_for_foreign_op("kl_divergence"), HasSubstr("batchmean"));
  EXPECT_THAT(hint_for_foreign_op("Einsum"), HasSubstr("matmul"));
  EXPECT_THAT(hint_for_foreign_op("nan_to_num"), HasSubstr("finite"));
  EXPECT_THAT(hint_for_foreign_op("LeakyReLU"), HasSubstr("leaky_relu"));
  EXPECT_THAT(hint_for_foreign_op("edit_distance"), HasSubstr("native")) << "and not some distance";
  EXPECT_THAT(hint_for_foreign_op("fractional_max_pool2d"), HasSubstr("native")) << "and no adaptive pool";
  EXPECT_THAT(hint_for_foreign_op("fori_loop"), HasSubstr("linear_scan"));
  EXPECT_EQ(hint_for_foreign_op("matmull"), "");
  EXPECT_EQ(hint_for_foreign_op("index_select take"), "");
  EXPECT_THAT(hint_for_foreign_attribute("var", "ddof"), HasSubstr("'unbiased'"));
  EXPECT_THAT(hint_for_foreign_attribute("kl_div", "reduction"), HasSubstr("batchmean"));
  EXPECT_THAT(hint_for_foreign_attribute("max_pool2d", "return_indices"), HasSubstr("argmax"));
  EXPECT_EQ(hint_for_foreign_attribute("var", "axs"), "");
}

/// No hint sends to an op that there is not, and none is about an op that there is.
TEST(ForeignNames, AreNoneOfTheLanguageAndLeadToIt) {
  const std::regex call("write ([a-z_0-9]+)");
  for (const char* name : {"index_select",
                           "take_along_dim",
                           "sort_indices",
                           "index_add",
                           "histc",
                           "topk",
                           "view",
                           "permute",
                           "cat",
                           "stack",
                           "split",
                           "select",
                           "masked_fill",
                           "mm",
                           "addmm",
                           "dense",
                           "amax",
                           "amin",
                           "maximum",
                           "minimum",
                           "reduce_sum",
                           "average",
                           "reduce_prod",
                           "std_mean",
                           "multiply",
                           "subtract",
                           "divide",
                           "mod",
                           "negative",
                           "absolute",
                           "power",
                           "inv",
                           "inverse_sqrt",
                           "clip",
                           "rint",
                           "fix",
                           "sgn",
                           "less",
                           "less_equal",
                           "greater",
                           "greater_equal",
                           "equal",
                           "not_equal",
                           "and",
                           "or",
                           "not",
                           "xor",
                           "lshift",
                           "bitwise_right_shift",
                           "srl",
                           "log10",
                           "arctan2",
                           "swish",
                           "relu6",
                           "gelu_tanh",
                           "logsigmoid",
                           "arctan",
                           "arcsin",
                           "arccos",
                           "soft_shrink",
                           "hard_shrink",
                           "tanhshrink",
                           "astype",
                           "quantize",
                           "dequantize",
                           "prefix_sum",
                           "nll",
                           "index_copy",
                           "embedding_bag",
                           "median",
                           "triplet_loss",
                           "cosine",
                           "poisson_nll",
                           "margin_ranking_loss",
                           "bce",
                           "mae",
                           "mse",
                           "kldiv",
                           "sdpa",
                           "arange",
                           "zeros",
                           "repeat",
                           "interpolate",
                           "lerp",
                           "hypot",
                           "cbrt",
                           "dist",
                           "renorm",
                           "huber",
                           "kl",
                           "ger",
                           "fft",
                           "lp_pool2d",
                           "global_max_pool",
                           "circshift",
                           "pixel_shuffle",
                           "global_avg_pool",
                           "l2_norm",
                           "normalize",
                           "softmax2d",
                           "addbmm",
                           "matrix_power",
                           "vdot",
                           "batched_outer",
                           "kron",
                           "cross",
                           "one_hot",
                           "eye",
                           "cdist",
                           "int_div",
                           "umulhi",
                           "mul_lo",
                           "rotl",
                           "murmur",
                           "unpack_int4",
                           "frexp",
                           "asinh",
                           "atanh",
                           "signbit",
                           "copysign",
                           "norm_cdf",
                           "logistic",
                           "softmin",
                           "hardmax",
                           "softcap",
                           "masked_softmax",
                           "masked_mean",
                           "unbind",
                           "slice_scatter",
                           "gather_nd",
                           "inverse_permutation",
                           "rank",
                           "fliplr",
                           "rot90",
                           "aminmax",
                           "count_nonzero",
                           "isin",
                           "allclose",
                           "rms",
                           "zscore",
                           "cov",
                           "diff",
                           "quantile",
                           "interp",
                           "numel",
                           "reflection_pad2d",
                           "replication_pad1d",
                           "circular_pad",
                           "zero_pad2d",
                           "maxpool",
                           "rolling_mean",
                           "dilation",
                           "running_max",
                           "max_pool2d_with_indices",
                           "median_filter",
                           "sobel",
                           "depthwise_conv2d",
                           "deconv",
                           "BatchNorm2d",
                           "local_response_norm",
                           "weight_norm",
                           "spectral_norm",
                           "layer_scale",
                           "linear_attention",
                           "paged_attention",
                           "moe",
                           "wkv",
                           "mxfp8",
                           "nf4",
                           "nt_xent",
                           "hinge",
                           "multi_margin_loss",
                           "dct",
                           "meshgrid",
                           "popc"}) {
    const std::string hint = hint_for_foreign_op(name);
    std::smatch found;
    ASSERT_TRUE(std::regex_search(hint, found, call)) << name << ": " << hint;
    const std::string op = found[1];
    EXPECT_TRUE(op == "two" || find_op(op) != nullptr) << name << ": " << hint;
  }
  for (const Op* op : all_ops()) EXPECT_EQ(hint_for_foreign_op(op->name()), "") << op->name();
}

}  // namespace
}  // namespace lathe
