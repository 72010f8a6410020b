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
    {" cat concatenate hstack vstack column_stack ", "write concat(a, b, axis = ...)"},
    {" stack ",
     "write reshape(x, shape = [...]) with an extent of 1 for each, then concat(a, b, axis = ...)"},
    {" split chunk narrow getitem index unbind hsplit vsplit dsplit tensor_split dynamic_slice ",
     "write slice(x, axis = ..., start = ..., stop = ...)"},
    {" slice_scatter select_scatter slice_assign setitem index_fill dynamic_update_slice masked_scatter "
     "put_ ",
     "write where(mask, x, base) by a mask of an iota, or scatter(base, index, x) along the first axis"},
    {" gather_nd ", "write reshape to one axis, then gather at i * N + j"},
    {" gather_rows row_gather ", "write gather(x, index)"},
    {" scatter_rows row_scatter ", "write scatter(base, index, x)"},
    {" inverse_permutation argunsort ", "write scatter(base, p, i) of i = iota(shape = [\"N\"])"},
    {" rank argrank ", "write argsort(x), then argsort of that"},
    {" argpartition partition msort ", "write argsort(x) or sort(x), then slice"},
    {" fliplr ", "write flip(x, axis = 1)"},
    {" flipud ", "write flip(x, axis = 0)"},
    {" rot90 ", "write transpose(x, perm = [1, 0]), then flip(axis = 0)"},
    {" select ", "write where(mask, a, b) to choose by a mask, slice for one index of an axis"},
    {" masked_fill masked_select ifelse cond ", "write where(mask, a, b), a where the mask is not 0"},
    {" mm bmm dot gemm mv matvec tensordot ",
     "write matmul(a, b): [.., M, K] times [.., K, N]; linear(x, w) takes the weight as [N, K]"},
    {" einsum ",
     "write matmul(a, b): [.., M, K] times [.., K, N], after transpose and reshape; three operands are two "
     "products, a node each"},
    {" addmm baddbmm addbmm addmv addr ", "write matmul(a, b), then add"},
    {" chain_matmul multi_dot matrix_power bilinear_form quadratic_form trace_product ",
     "write matmul(a, b), a node for each product"},
    {" inner inner_product vdot ", "write mul(a, b), then sum(axis = -1)"},
    {" outer_product batched_outer tensor_product ger ",
     "write outer(a, b), or mul(a, b) of [.., M, 1] and [.., 1, N]"},
    {" kron kronecker khatri_rao ", "write mul(a, b) of [M, 1, N, 1] and [1, P, 1, Q], then reshape"},
    {" cross cross_product ",
     "write roll(a, shift = -1) times roll(b, shift = 1), less roll(a, shift = 1) times roll(b, shift = -1), "
     "a "
     "node each"},
    {" one_hot onehot ",
     "write eq(r, c) of r = reshape(i, shape = [\"M\", 1]) and c = iota(shape = [\"C\"], dtype = "
     "\"int32\"), then cast"},
    {" eye ", "write eq(r, c) of two iotas, [N, 1] and [N], then cast(dtype = \"fp32\")"},
    {" cdist pairwise_distance euclidean_distance minkowski manhattan_distance ",
     "write sub(a, b), of [M, 1, D] and [N, D] for all pairs, then norm or l1_norm(axis = -1)"},
    {" dense fc fully_connected affine ", "write linear(x, w, b), with the weight as [N, K]"},
    {" amax maximum_reduce reduce_maximum ", kReduceMax},
    {" amin reduce_minimum ", "write reduce_min(x, axis = ...); min takes two tensors"},
    {" maximum fmax ", "write max(a, b)"},
    {" minimum fmin ", "write min(a, b)"},
    {" aminmax ptp ", "write reduce_min(x) and reduce_max(x), a node each"},
    {" count_nonzero nonzero_count ", "write ne(x, value = 0), cast(dtype = \"int64\") and sum"},
    {" isin in1d ", "write eq(x, s) of [M, 1] and [N], then any(axis = -1)"},
    {" isclose allclose ", "write sub(a, b), abs, le(value = ...) and all"},
    {" sumsq square_sum squared_sum sum_of_squares ", "write square(x), then sum(axis = ...)"},
    {" mean_square rms rmse ", "write square(x), mean and sqrt"},
    {" variance ", "write var(x, axis = ...), which divides by n unless unbiased = true"},
    {" stddev std_dev standard_deviation ",
     "write std(x, axis = ...), which divides by n unless unbiased = true"},
    {" zscore standardize ", "write mean, sub, std(keepdims = true), add_scalar(by = an epsilon) and div"},
    {" cov corrcoef covariance ",
     "write mean, sub, matmul(c, c, transpose_b = true) and scale(by = 1 / (n - 1)); l2_normalize the rows "
     "for "
     "correlations"},
    {" diff ediff1d lag gradient ", "write slice(x, start = 1) and slice(x, stop = \"N - 1\"), then sub"},
    {" trapz trapezoid cumtrapz cumulative_trapezoid ",
     "write two slices, add, scale(by = 0.5) and sum or cumsum"},
    {" quantile percentile nanquantile nanmedian ",
     "write sort(x), slices at floor(q (n - 1)) and behind it, then sub, scale and add"},
    {" interp lookup_table lut ", "write floor, cast(dtype = \"int32\"), two gathers, sub, mul and add"},
    {" numel ", "write full(shape = [1], value = \"M * N\")"},
    {" reduce_sum nansum ", "write sum(x, axis = ...)"},
    {" reduce_mean average nanmean ", "write mean(x, axis = ...)"},
    {" reduce_prod ", "write prod(x, axis = ...)"},
    {" std_mean var_mean ", "write std or var (which divide by n unless unbiased = true), and mean"},
    {" multiply times ", "write mul(a, b), or scale(x, by = ...) for a constant"},
    {" subtract rsub minus ", "write sub(a, b)"},
    {" divide true_divide ", "write div(a, b)"},
    {" intdiv int_div idiv floordiv trunc_divide ",
     "write floor_divide(a, b) of whole numbers, rounded down"},
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
    {" mulhi umulhi mul_hi umul_high ",
     "write mul_high(a, b), the upper 32 bits of the product of unsigned numbers"},
    {" mullo mul_lo mul_wrap imul uint32_mul ", "write wrapping_mul(a, b), which drops what leaves int32"},
    {" add_wrap uint32_add ", "write wrapping_add(a, b), which drops what leaves int32"},
    {" rotl rotr rotate_left rotate_right rotl32 rotr32 ",
     "write shift_left(x, by = r) and shift_right(x, by = 32 - r), bitwise_and of that, and bitwise_or"},
    {" hash murmur murmur3 xorshift philox threefry crc32 fnv ",
     "write wrapping_mul, mul_high, bitwise_xor and shifts, a node each"},
    {" pack_int4 unpack_int4 dequantize_int4 int4_matmul ",
     "write shift_right(q, by = 4) for one half, shift_left and shift_right for the other, then cast and "
     "mul"},
    {" frexp ilogb logb getexp ", "write exponent(x): of the power of two at or below |x|"},
    {" ldexp ", "write exp2(e), then mul"},
    {" isnan isinf isfinite nan_to_num ", kFinite},
    {" asinh arcsinh acosh arccosh ", "write log(s) of s = x + sqrt(x x + 1), or x x - 1, a node each"},
    {" atanh arctanh ", "write log1p(x), log1p of -x, sub and scale(by = 0.5)"},
    {" deg2rad rad2deg ", "write scale(x, by = ...)"},
    {" signbit ", "write lt(x, value = 0)"},
    {" copysign ", "write abs(a), sign(b) and mul"},
    {" norm_cdf normal_cdf ndtr ",
     "write scale(x, by = 0.7071067811865476), erf, add_scalar(by = 1) and scale(by = 0.5)"},
    {" log10 ", "write log(x), then scale(by = 0.4342944819032518)"},
    {" arctan2 ", "write atan2(a, b)"},
    {" arctan ", "write atan(x)"},
    {" arcsin ", "write asin(x)"},
    {" arccos ", "write acos(x)"},
    {" swish ", "write silu(x)"},
    {" logistic ", "write sigmoid(x)"},
    {" rrelu leakyrelu ", "write leaky_relu(x, slope = ...)"},
    {" softmin ", "write neg(x), then softmax"},
    {" hardmax ", "write argmax(x, keepdims = true), then eq with an iota"},
    {" softcap logit_softcap ", "write scale(x, by = 1 / cap), tanh and scale(by = cap)"},
    {" softmax_with_temperature ", "write scale(x, by = 1 / t), then softmax"},
    {" masked_softmax causal_softmax causal_mask alibi sliding_window_attention ",
     "write where(mask, x, full(shape = [1], value = -inf)), then softmax; masks are comparisons of two "
     "iotas"},
    {" masked_mean masked_sum ", "write mul(x, mask), sum, and div by the sum of the mask"},
    {" masked_max ", "write where(mask, x, full(shape = [1], value = -inf)), then reduce_max"},
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
    {" pixel_shuffle pixel_unshuffle channel_shuffle depth_to_space space_to_depth ",
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
    {" kl kl_divergence kl_loss kldiv kl_div_loss ",
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
    {" unique nonzero masked_select_count svd qr lu eigh cholesky solve "
     "triangular_solve solve_triangular tridiagonal_solve det matrix_exp expm ctc_loss nms roi_align "
     "deform_conv2d mode lfilter biquad max_unpool2d ",
     kNative},
    {" fft ifft rfft irfft stft fft2 dft ",
     "write matmul by the cosines and the sines of the angles, which cos and sin of iotas give; of long ones "
     "the reference in C++ (reference = \"native\")"},
    {" lstm gru rnn ",
     "write one step: linear of input and state, add, slices, sigmoid and tanh; of many steps the reference "
     "in C++ (reference = \"native\")"},
    {" trace diagonal ",
     "write reshape to [N * N], pad(after = \"N\"), reshape to [N, N + 1] and slice(stop = 1)"},
    {" diag_embed ", "write diag(x)"},
    {" celu ", "write scale(x, by = 1 / alpha), elu, and scale(by = alpha)"},
    {" threshold threshold_ ", "write gt(x, value = ...), then where(mask, x, full(value = ...))"},
    {" erfc ", "write erf(x), neg and add_scalar(by = 1), or erf's own tail in C++ (reference = \"native\")"},
    {" frac ", "write trunc(x), then sub(x, t)"},
    {" exp10 ", "write scale(x, by = 3.321928094887362), then exp2"},
    {" glu reglu geglu swiglu ",
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
    {" popc bit_count population_count ", "write popcount(x)"},
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
    {" cbrt ", "write pow_scalar(abs(x), exponent = 0.3333333333333333) times sign(x), a node each"},
    {" dist pairwise_distance ", "write sub(a, b), then norm(axis = ...)"},
    {" renorm clip_by_norm ", "write norm(keepdims = true), reciprocal, scale, clamp(high = 1) and mul"},
    {" huber ", "write huber_loss(a, b, delta = ...)"},
    {" reflect_pad reflect_pad1d reflect_pad2d reflection_pad reflection_pad1d reflection_pad2d "
     "reflection_pad3d ",
     "write pad(x, axis = ..., before = ..., after = ..., mode = \"reflect\"), an axis a node"},
    {" replicate_pad replication_pad1d replication_pad2d replication_pad3d edge_pad ",
     "write pad(x, axis = ..., before = ..., after = ..., mode = \"replicate\"), an axis a node"},
    {" circular_pad circular_pad1d circular_pad2d circular_pad3d wrap_pad ",
     "write pad(x, axis = ..., before = ..., after = ..., mode = \"circular\"), an axis a node"},
    {" zero_pad zero_pad2d constant_pad1d constant_pad2d constant_pad3d ",
     "write pad(x, axis = ..., before = ..., after = ..., value = ...), an axis a node"},
    {" maxpool max_pool maxpool2d ", "write max_pool2d(x, kernel = ..., stride = ...)"},
    {" avgpool avg_pool avgpool2d ", "write avg_pool2d(x, kernel = ..., stride = ...)"},
    {" global_average_pool ", "write mean(x, axes = [...])"},
    {" sum_pool sum_pool1d sum_pool2d ", "write avg_pool2d(x, kernel = ...), then scale by its elements"},
    {" rolling_mean moving_average window_sum rolling_sum ",
     "write avg_pool1d(x, kernel = ..., stride = 1) of [B, 1, T]"},
    {" rolling_max dilation erosion morphology ",
     "write max_pool2d(x, kernel = ..., stride = 1, padding = ...), of neg(x) for the smallest"},
    {" running_max prefix_max cumulative_max ", "write cummax(x, axis = ...)"},
    {" max_pool2d_with_indices max_pool_with_indices ",
     "write unfold(x, kernel = ...), reshape, reduce_max and argmax"},
    {" median_filter bilateral_filter ", "write unfold(x, kernel = ...), then sort or exp, mul and sum"},
    {" conv convolution convolve correlate cross_correlation xcorr autocorrelation fir gaussian_blur sobel "
     "laplacian stencil ",
     "write conv1d(x, w) or conv2d(x, w), which do not turn w around"},
    {" depthwise_conv2d conv2d_depthwise separable_conv2d ",
     "write conv2d(x, w, groups = \"C\") with w as [C, 1, K, K]; a conv2d of kernel 1 behind it for the "
     "pointwise part"},
    {" deconv deconv2d conv_transpose conv2d_transpose ", "write conv_transpose2d(x, w)"},
    {" batchnorm batchnorm1d batchnorm2d batchnorm3d ", "write batch_norm(x, gamma, beta, mean, variance)"},
    {" local_response_norm lrn ", "write avg_pool2d of squares: docs/tasks.md has the nodes"},
    {" weight_norm ", "write norm(v, axis = -1, keepdims = true), div and mul"},
    {" spectral_norm power_iteration ", "write matmul and l2_normalize, a node for each step"},
    {" layer_scale ", "write mul(x, gamma)"},
    {" rope rotary rotary_embedding apply_rotary_pos_emb ",
     "write two slices, mul by the cosines and the sines, sub, add and concat"},
    {" positional_encoding sinusoidal timestep_embedding sin_embedding ",
     "write iota, scale, exp, mul, sin, cos and concat"},
    {" linear_attention ", "write matmul(k, v, transpose_a = true), then matmul(q, kv)"},
    {" paged_attention ", "write gather(cache, pages), then attention"},
    {" moe fused_moe ", "write grouped_matmul(x, w, offsets): docs/tasks.md has the nodes around it"},
    {" rwkv wkv ", "write linear_scan(a, b) of the numerator and of the denominator, then div"},
    {" quantize_int8 quantize_fp8 mxfp8 ",
     "write abs, reduce_max, div, round, clamp and cast; exponent(x) and exp2 for scales that are powers of "
     "two"},
    {" nf4 mxfp4 ", "write gather(table, q), then mul by the scale"},
    {" adam adamw sgd momentum lion rmsprop adagrad ",
     "write its formula, a node each, on tensors of role = \"inout\""},
    {" softmax_backward gelu_backward layer_norm_backward ", "write the gradient's formula, a node each"},
    {" info_nce nt_xent contrastive contrastive_loss clip_loss ",
     "write l2_normalize, matmul(a, b, transpose_b = true), scale and cross_entropy(l, i) of an iota"},
    {" cross_entropy_with_logits sparse_softmax_cross_entropy ", "write cross_entropy(logits, index)"},
    {" sigmoid_cross_entropy ", "write bce_with_logits(logits, targets)"},
    {" hinge squared_hinge ", "write hinge_loss(x, targets), or mul, neg, add_scalar, relu and square"},
    {" multi_margin_loss multilabel_margin_loss ",
     "write take_along(x, t, axis = 1), sub, add_scalar(by = 1), relu and mean"},
    {" sigmoid_focal_loss dice jaccard jaccard_loss tversky_loss log_cosh logcosh charbonnier quantile_loss "
     "pinball pinball_loss mape smape msle js_divergence entropy perplexity hinge_embedding_loss ",
     "write its formula, a node each"},
    {" iou box_iou bbox_overlaps ", "write slices of the corners, max, min, sub, relu, mul and div"},
    {" complex complex_mul conj real imag polar angle view_as_real view_as_complex ",
     "there are no complex numbers: give real and imaginary parts as two tensors"},
    {" dct idct hadamard walsh haar dwt wavelet ",
     "write matmul by the matrix of the transform, which iotas, cos or bits give"},
    {" spectrogram mel log_mel mfcc ",
     "write the short-time Fourier transform of docs/tasks.md, then matmul by the filters"},
    {" meshgrid cartesian_prod logspace tril_indices ", "write iota(shape = [...], axis = ...)"},
    {" gumbel_softmax multinomial drop_path stochastic_depth alpha_dropout dropout2d random_uniform "
     "random_normal ",
     "a task is a function of its inputs; give the random numbers as one"},
    {" while while_loop for fori_loop loop lax_scan recurrence ",
     "a graph has no loops: write few steps out, linear_scan(a, b) for y[t] = a[t] y[t - 1] + b[t], and else "
     "the "
     "reference in C++ (reference = \"native\")"},
    {" erfinv lgamma gammaln digamma polygamma i0 bessel_j0 beta erfcx delta_rule levenshtein edit_distance "
     "dtw "
     "smith_waterman viterbi sparsemax entmax clz ctz ffs count_leading_zeros bitreverse byteswap gcd lcm "
     "slogdet logdet pinv lstsq eig eigvals svdvals cholesky_solve lu_solve fractional_max_pool2d "
     "fractional_max_pool3d argwhere compact stream_compaction roi_pool max_unpool1d max_unpool3d ",
     kNative},
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

constexpr std::string_view kIndices =
    "a node has one result; argmax and argsort give places, of unfold's columns for a pool";

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
  if (attribute == "return_indices") return std::string(kIndices);
  const std::string_view text = find(kAttributes, attribute);
  return text.empty() ? "" : fmt::format("{} calls it {}", of, text);
}

}  // namespace lathe
