#include "task/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace lathe {
namespace {

struct Hint {
  std::string_view names;  ///< with a space before and behind each
  std::string_view text;
};

constexpr std::string_view kReduceMax = "write reduce_max(x, axis = ...); max takes two tensors";
constexpr std::string_view kFinite =
    "all inputs of a task are finite, so there is nothing to test for; drop it";
constexpr std::string_view kNative = "no op does this; write the reference in C++ (reference = \"native\")";

constexpr std::array kOps = std::to_array<Hint>({
    {" index_select take take_rows lookup ", "write gather(x, index, axis = ...), PyTorch's index_select"},
    {" take_along_dim take_along_axis gather_along gather_elements gatherelements ",
     "write take_along(x, index, axis = ...)"},
    {" embedding_lookup ", "write embedding(table, index)"},
    {" view resize unflatten squeeze unsqueeze expand_dims ravel ",
     "write reshape(x, shape = [...]) or flatten"},
    {" permute swapaxes swapdims moveaxis movedim t ", "write transpose(x, perm = [...])"},
    {" cat concatenate hstack vstack ", "write concat(a, b, axis = ...)"},
    {" stack ",
     "write reshape(x, shape = [...]) with an extent of 1 for each, then concat(a, b, axis = ...)"},
    {" split chunk narrow getitem index ", "write slice(x, axis = ..., start = ..., stop = ...)"},
    {" select ", "write where(mask, a, b) to choose by a mask, slice for one index of an axis"},
    {" masked_fill masked_select ifelse cond ", "write where(mask, a, b), a where the mask is not 0"},
    {" mm bmm dot gemm mv matvec tensordot einsum ",
     "write matmul(a, b): [.., M, K] times [.., K, N]; linear(x, w) takes the weight as [N, K]"},
    {" addmm baddbmm ", "write matmul(a, b), then add"},
    {" dense fc fully_connected affine ", "write linear(x, w, b), with the weight as [N, K]"},
    {" amax maximum_reduce reduce_maximum ", kReduceMax},
    {" amin reduce_minimum ", "write reduce_min(x, axis = ...); min takes two tensors"},
    {" maximum fmax ", "write max(a, b)"},
    {" minimum fmin ", "write min(a, b)"},
    {" reduce_sum nansum ", "write sum(x, axis = ...)"},
    {" reduce_mean average nanmean ", "write mean(x, axis = ...)"},
    {" reduce_prod ", "write prod(x, axis = ...)"},
    {" std_mean var_mean ", "write std or var (which divide by n unless unbiased = true), and mean"},
    {" multiply times ", "write mul(a, b), or scale(x, by = ...) for a constant"},
    {" subtract rsub minus ", "write sub(a, b)"},
    {" divide true_divide ", "write div(a, b)"},
    {" floor_divide ", "write floor(q) after q = div(a, b)"},
    {" mod modulo ", "write remainder(a, b), with b's sign, or fmod(a, b), with a's"},
    {" negative ", "write neg(x)"},
    {" absolute fabs ", "write abs(x)"},
    {" power float_power ", "write pow(a, b), or pow_scalar(x, exponent = ...)"},
    {" inv inverse ",
     "write reciprocal(x); of a matrix, write the reference in C++ (reference = \"native\")"},
    {" inverse_sqrt reciprocal_sqrt ", "write rsqrt(x)"},
    {" clip clamp_min clamp_max ",
     "write clamp(x, low = ..., high = ...), or with tensors clamp(x, low, high)"},
    {" rint round_ around nearbyint ", "write round(x), ties to even"},
    {" fix truncate ", "write trunc(x)"},
    {" sgn signum ", "write sign(x)"},
    {" less ", "write lt(a, b)"},
    {" less_equal ", "write le(a, b)"},
    {" greater ", "write gt(a, b)"},
    {" greater_equal ", "write ge(a, b)"},
    {" equal ", "write eq(a, b)"},
    {" not_equal ", "write ne(a, b)"},
    {" logical_xor xor ", "write ne(a, b) of masks, bitwise_xor(a, b) of whole numbers"},
    {" and ", "write logical_and(a, b) of masks, bitwise_and(a, b) of whole numbers"},
    {" or ", "write logical_or(a, b) of masks, bitwise_or(a, b) of whole numbers"},
    {" not invert ", "write logical_not(x) of masks, bitwise_not(x) of whole numbers"},
    {" bitwise_left_shift left_shift lshift shl sll ", "write shift_left(x, by = ...)"},
    {" bitwise_right_shift right_shift rshift shr sra ",
     "write shift_right(x, by = ...), which keeps the sign"},
    {" srl logical_shift_right ",
     "write shift_right(x, by = ...), then bitwise_and(y, value = ...) to drop the copies of the sign"},
    {" isnan isinf isfinite nan_to_num ", kFinite},
    {" log10 ", "write log(x), then scale(by = 0.4342944819032518)"},
    {" arctan2 ", "write atan2(a, b)"},
    {" arctan ", "write atan(x)"},
    {" arcsin ", "write asin(x)"},
    {" arccos ", "write acos(x)"},
    {" swish ", "write silu(x)"},
    {" relu6 ", "write clamp(x, low = 0, high = 6)"},
    {" gelu_tanh gelu_new quick_gelu fast_gelu ", "write gelu(x, approximate = \"tanh\")"},
    {" logsigmoid ", "write log_sigmoid(x)"},
    {" soft_shrink soft_threshold ", "write softshrink(x, lambda = ...)"},
    {" hard_shrink hard_threshold ", "write hardshrink(x, lambda = ...)"},
    {" tanhshrink ", "write tanh(x), then sub(x, t)"},
    {" astype to type convert float half ", "write cast(x, dtype = \"fp32\")"},
    {" quantize quantize_per_tensor fake_quantize ", "write div, round, clamp and cast(dtype = \"int8\")"},
    {" dequantize ", "write cast(q, dtype = \"fp32\"), then mul by the scale"},
    {" expand broadcast_to expand_as ", "elementwise ops broadcast; reshape to extents of 1"},
    {" repeat ", "write tile(x, axis = ..., times = ...), or repeat_interleave for each element by itself"},
    {" circshift rotate ", "write roll(x, axis = ..., shift = ...)"},
    {" pixel_shuffle pixel_unshuffle channel_shuffle depth_to_space ",
     "write reshape, transpose(perm = [...]) and reshape"},
    {" prefix_sum scan ", "write cumsum(x, axis = ...), exclusive = true or reverse = true if wanted"},
    {" selective_scan associative_scan linear_recurrence ssm_scan mamba_scan ema ewm ",
     "write linear_scan(a, b): y[t] = a[t] y[t - 1] + b[t]"},
    {" im2col im2row extract_patches extract_image_patches ", "write unfold(x, kernel = ...)"},
    {" col2im row2im ", "write fold(columns, kernel = ..., size = [...])"},
    {" bucketize searchsorted digitize ",
     "compare with each boundary, ge(x, b) of [M, 1] and [N], then cast and sum(axis = -1)"},
    {" grouped_gemm grouped_mm group_gemm ragged_dot moe_gemm gmm segment_matmul ",
     "write grouped_matmul(x, w, offsets): rows times the matrix of their group"},
    {" softmax_cross_entropy cross_entropy_loss ", "write cross_entropy(logits, index)"},
    {" binary_cross_entropy_with_logits bce bce_loss binary_cross_entropy ",
     "write bce_with_logits(logits, targets)"},
    {" nll negative_log_likelihood ", "write nll_loss(log_probabilities, index)"},
    {" cosine_embedding_loss cosine cos_sim ", "write cosine_similarity(a, b, axis = ...)"},
    {" triplet_loss ", "write triplet_margin_loss(anchor, positive, negative, margin = ...)"},
    {" margin_ranking_loss ", "write sub, mul, neg, add_scalar(by = margin), relu and mean"},
    {" poisson_nll ", "write poisson_nll_loss(log_rates, counts)"},
    {" mae mae_loss l1 ", "write l1_loss(a, b)"},
    {" mse ", "write mse_loss(a, b)"},
    {" kl_divergence kl_loss kldiv kl_div_loss ",
     "write kl_div(log_probabilities, probabilities), with reduction \"batchmean\""},
    {" scaled_dot_product_attention sdpa flash_attention multi_head_attention mha ",
     "write attention(q, k, v, causal = ...)"},
    {" global_avg_pool ", "write mean(x, axes = [...])"},
    {" global_max_pool ", "write reduce_max(x, axes = [...])"},
    {" lp_pool1d lp_pool2d lp_pool3d ",
     "write pow_scalar(abs(x)), avg_pool2d, scale(by = the kernel's elements) and pow_scalar, a node each"},
    {" interpolate upsample upsample_nearest upsample_linear upsample_bilinear upsample_trilinear ",
     "write upsample_nearest2d(x, size = [...]) or upsample_bilinear2d(x, size = [...])"},
    {" frobenius_norm vector_norm l2_norm norm2 ", "write norm(x, axis = ...)"},
    {" normalize ", "write l2_normalize(x, axis = ...)"},
    {" softmax2d ", "write softmax(x, axis = 1)"},
    {" identity contiguous copy clone detach ", "leave it out: values have no layout and no history"},
    {" arange range linspace positions ", "write iota(shape = [...], axis = ...)"},
    {" zeros ones constant fill full_like zeros_like ones_like ", "write full(shape = [...], value = ...)"},
    {" dropout rand randn bernoulli ", "a task is a function of its inputs; give the mask as one"},
    {" unique nonzero masked_select_count fft ifft rfft irfft stft fft2 svd qr lu eigh cholesky solve "
     "triangular_solve solve_triangular tridiagonal_solve det matrix_exp expm ctc_loss nms roi_align "
     "deform_conv2d mode lstm gru rnn lfilter biquad max_unpool2d ",
     kNative},
    {" dft ", "write matmul by the cosines and the sines of the angles, which cos and sin of iotas give"},
    {" trace diagonal ",
     "write reshape to [N * N], pad(after = \"N\"), reshape to [N, N + 1] and slice(stop = 1)"},
    {" diag_embed ", "write diag(x)"},
    {" celu ", "write scale(x, by = 1 / alpha), elu, and scale(by = alpha)"},
    {" threshold threshold_ ", "write gt(x, value = ...), then where(mask, x, full(value = ...))"},
    {" erfc ", "write erf(x), neg and add_scalar(by = 1), or erf's own tail in C++ (reference = \"native\")"},
    {" frac ", "write trunc(x), then sub(x, t)"},
    {" exp10 ", "write scale(x, by = 3.321928094887362), then exp2"},
    {" glu ",
     "write two slices, sigmoid of the second, and mul; reglu, geglu and swiglu with relu, gelu and silu"},
    {" logit ", "write neg(x), add_scalar(by = 1), div(x, that) and log"},
    {" xlogy ", "write log(y), then mul(x, l)"},
    {" heaviside ", "write gt(x, value = 0), then cast(dtype = \"fp32\")"},
    {" pdist ", "write cdist's nodes and gather the pairs: norm(sub(a, b)) of [M, 1, D] and [M, D]"},
    {" bilinear ", "write matmul by the weight as a matrix, then mul and sum"},
    {" affine_grid ", "write matmul(places, theta, transpose_b = true) of places made of two iotas and ones"},
    {" lstm_cell gru_cell rnn_cell ", "write linear of input and state, add, slices, sigmoid and tanh"},
    {" gaussian_nll_loss multilabel_soft_margin_loss focal_loss dice_loss ",
     "write its formula of log, log_sigmoid, mul and mean"},
    {" popcount bit_count ", kNative},
    {" topk top_k kthvalue ",
     "write sort(x, descending = true), or argsort for the indices, then slice(..., stop = k)"},
    {" arg_sort sort_indices sortperm ", "write argsort(x, axis = ..., descending = ...)"},
    {" index_copy index_put_ scatter_update scatter_nd ",
     "write scatter(base, index, x), which replaces slices along the first axis"},
    {" segment_reduce embedding_bag csr_sum segment_csr ",
     "write segment_sum, segment_max or segment_min(x, offsets), along the first axis"},
    {" scatter_reduce scatter_amax scatter_amin index_reduce unsorted_segment_max ",
     "write scatter_add, scatter_max or scatter_min(base, index, x), along the first axis"},
    {" segment_mean scatter_mean ",
     "divide the sums of segment_sum or scatter_add by clamp(counts, low = 1); bincount counts"},
    {" index_add scatter_sum unsorted_segment_sum index_put scatter_nd_add ",
     "write scatter_add(base, index, x), which adds slices along the first axis"},
    {" histogram histc value_counts ", "write bincount(index, bins = ...), of floats after floor and cast"},
    {" median ", "write sort(x), then slice(..., start = (n - 1) / 2, stop = (n - 1) / 2 + 1)"},
    {" lerp ", "write sub(b, a), mul by the weight, and add to a"},
    {" addcmul addcdiv fma ", "write mul or div, then add"},
    {" hypot ", "write square of each, add and sqrt"},
    {" reduce_any ", "write any(mask, axis = ...)"},
    {" reduce_all ", "write all(mask, axis = ...)"},
    {" log_add_exp logsumexp2 ", "write logaddexp(a, b)"},
});

constexpr std::array kAttributes = std::to_array<Hint>({
    {" dim ", "'axis'"},
    {" dims ", "'axes'"},
    {" keepdim keep_dims ", "'keepdims'"},
    {" correction ddof ", "'unbiased': true divides by n - 1, false (the default) by n"},
    {" kernel_size ", "'kernel'"},
    {" count_include_pad ", "'count_padding'"},
    {" negative_slope ", "'slope'"},
    {" lambd ", "'lambda'"},
    {" num_groups ", "'groups'"},
    {" is_causal ", "'causal'"},
    {" normalized_shape ", "'axis': the first of the axes that are normalised, up to the last"},
    {" min minimum ", "'low'"},
    {" max maximum ", "'high'"},
    {" start_dim ", "'axis'"},
    {" epsilon variance_epsilon ", "'eps'"},
    {" k ", "'diagonal'"},
    {" shifts ", "'shift'"},
    {" output_size scale_factor ", "'size': the extents of the result, such as [\"2 * H\", \"2 * W\"]"},
    {" repeats ", "'times'"},
    {" other scalar threshold ", "'value'"},
});

constexpr std::string_view kReduction =
    "a loss is the mean over all elements; kl_div divides by the first extent alone (\"batchmean\")";

std::string_view find(std::span<const Hint> hints, std::string_view name) {
  if (name.find(' ') != std::string_view::npos) return {};
  std::string word = " ";
  for (const char c : name.substr(0, 64))
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  word += ' ';
  for (const Hint& hint : hints)
    if (hint.names.find(word) != std::string_view::npos) return hint.text;
  return {};
}

}  // namespace

std::string hint_for_foreign_op(std::string_view op) { return std::string(find(kOps, op)); }

std::string hint_for_foreign_attribute(std::string_view of, std::string_view attribute) {
  if (attribute == "reduction") return std::string(kReduction);
  const std::string_view text = find(kAttributes, attribute);
  return text.empty() ? "" : fmt::format("{} calls it {}", of, text);
}

}  // namespace lathe
