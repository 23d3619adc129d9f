// Follows the rules that torch documents (torch.nn.functional.scaled_dot_product_attention and
// torch.nn.attention) and applies on CUDA (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): an
// order of preference, and conditions for each operator by type, head size, mask, layout and
// compute capability.  They differ by torch version, and where cuDNN decides, by that of its wheels.
#include "attention_choice.h"

#include "device.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <c10/util/env.h>

#include <cmath>

namespace fxregion {
namespace {

using at::Tensor;
using std::optional;

bool is_half(const Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

bool same_type(const sdp::sdp_params& p) {
  return p.query.scalar_type() == p.key.scalar_type() &&
      p.query.scalar_type() == p.value.scalar_type();
}

bool at_most(const c10::SymInt& value, int64_t limit) {
  return TORCH_GUARD_OR_FALSE(value.sym_le(limit));
}

bool multiple_of(const c10::SymInt& value, int64_t unit) {
  return TORCH_GUARD_OR_FALSE((value % unit).sym_eq(0)) && TORCH_GUARD_OR_FALSE(value.sym_gt(0));
}

bool equal(const c10::SymInt& a, const c10::SymInt& b) {
  return TORCH_GUARD_OR_FALSE(a.sym_eq(b));
}

// Whether the numbers of heads fit: fewer of keys and values in groups (enable_gqa) or, since torch
// 2.14, one for all queries without being asked (pytorch#191085).
template <bool takes_groups, bool same_for_keys_and_values = true>
bool heads_fit(const sdp::sdp_params& p) {
#if FXREGION_TORCH >= 214
  return sdp::check_batch_size_and_num_heads_dense<takes_groups, same_for_keys_and_values, true>(
      p, false);
#else
  return sdp::check_batch_size_and_num_heads_dense<takes_groups, same_for_keys_and_values>(
      p, false);
#endif
}

// Memory-efficient attention takes groups of heads since torch 2.14 (pytorch#191085).
constexpr bool kEfficientTakesGroups = FXREGION_TORCH >= 214;

bool dense_and_4d(const sdp::sdp_params& p) {
  return sdp::has_only_dense_inputs(p) && sdp::check_tensor_shapes(p, false);
}

// FlashAttention 2: 16-bit floats, one head size up to 256, no mask, causal only for a square.
bool can_use_flash(const sdp::sdp_params& p) {
  const auto [major, minor] = capability();
  if (!at::globalContext().userEnabledFlashSDP() || major < 8 || !dense_and_4d(p) ||
      !same_type(p) || !is_half(p.query) || p.attn_mask.has_value()) {
    return false;
  }
  const auto head = p.query.sym_size(-1);
  if (!equal(head, p.key.sym_size(-1)) || !equal(head, p.value.sym_size(-1)) ||
      !at_most(head, 256)) {
    return false;
  }
  // Its backward does not fit the shared memory of the smaller chips for large heads.
  const bool small_chip = (major == 8 && minor >= 6) || major == 12;
  if (small_chip && sdp::input_requires_grad(p) && !at_most(head, 192) &&
      (p.dropout > 0.0 || at_most(head, 224))) {
    return false;
  }
  if (p.is_causal && !equal(p.query.sym_size(-2), p.key.sym_size(-2))) {
    return false;
  }
  return heads_fit<true>(p) && sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<true>(p, false);
}

// Memory-efficient attention (CUTLASS): any float type of up to 32 bits; head sizes, and since
// torch 2.12 addresses, in units of 16 bytes.
bool can_use_efficient(const sdp::sdp_params& p) {
  if (!at::globalContext().userEnabledMemEfficientSDP() || !dense_and_4d(p) || !same_type(p) ||
      !(is_half(p.query) || p.query.scalar_type() == at::kFloat)) {
    return false;
  }
  const int64_t unit = 16 / static_cast<int64_t>(p.query.element_size());
  const auto head = p.query.sym_size(-1);
  if (!equal(head, p.key.sym_size(-1)) || !multiple_of(head, unit) ||
      !multiple_of(p.value.sym_size(-1), unit)) {
    return false;
  }
  for (const auto* t : {&p.query, &p.key, &p.value}) {
    if (FXREGION_TORCH > 211 && !TORCH_GUARD_OR_TRUE((t->sym_storage_offset() % unit).sym_eq(0))) {
      return false;
    }
  }
  return sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<false>(p, false) &&
      heads_fit<kEfficientTakesGroups>(p);
}

// Head sizes up to 128; on Hopper and Blackwell 192 with values of 128, and since torch 2.14 and
// cuDNN 9.22 up to 256, of which the backward takes only some.
bool cudnn_takes_head_sizes(const sdp::sdp_params& p) {
  const auto head = p.query.sym_size(-1), value_head = p.value.sym_size(-1);
  if (!multiple_of(head, 8) || !multiple_of(value_head, 8)) {
    return false;
  }
  const bool small = at_most(head, 128) && at_most(value_head, 128);
  if (small || capability().major < 9 || capability().major > 10) {
    return small;
  }
  const bool mla = equal(head, 192) && equal(value_head, 128);
  if (FXREGION_TORCH < 214 || mla) {
    return mla;
  }
  return sdp::input_requires_grad(p) ? equal(head, 256) && equal(value_head, 256)
                                     : at_most(head, 256) && at_most(value_head, 256);
}

// A single query: switched off on Blackwell for cuDNN 9.19 to 9.25 but 9.24.1 (pytorch#193893).
bool cudnn_takes_single_query() {
  const bool broken = kCudnnOfWheels >= 91900 && kCudnnOfWheels <= 92500 && kCudnnOfWheels != 92401;
  return FXREGION_TORCH < 214 || capability().major != 10 || !broken;
}

// cuDNN: 16-bit floats.
bool can_use_cudnn(const sdp::sdp_params& p) {
  const auto& context = at::globalContext();
  if (!context.userEnabledCuDNNSDP() || capability().major < 8 || !dense_and_4d(p) ||
      !same_type(p) || !is_half(p.query) ||
      (context.deterministicAlgorithms() && !context.deterministicAlgorithmsWarnOnly())) {
    return false;
  }
  // Its dropout has a resolution of 1/16.
  if (p.dropout * 16.0 != std::floor(p.dropout * 16.0)) {
    return false;
  }
  if (!cudnn_takes_head_sizes(p) || !at_most(p.query.sym_size(0), 65535) ||
      !at_most(p.query.sym_size(1), 65535)) {
    return false;
  }
  const bool several_queries = TORCH_GUARD_OR_FALSE(p.query.sym_size(2).sym_ne(1));
  if (!TORCH_GUARD_OR_FALSE(p.key.sym_size(2).sym_ne(1)) ||
      (!several_queries && (p.dropout != 0.0 || !cudnn_takes_single_query()))) {
    return false;
  }
  return sdp::check_attn_mask_shape(p, false) &&
      sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<true>(p, false) && heads_fit<true, false>(p);
}

// The user's order if one was set (sdpa_kernel(..., set_priority=True)), else CUDA's own: cuDNN
// comes first on Hopper and Blackwell data centre chips, since cuDNN 9.15.1 (pytorch#169849), unless
// the environment says otherwise.
std::vector<at::SDPBackend> order_of_preference() {
  using at::SDPBackend;
  const auto set = at::globalContext().sDPPriorityOrder();
  std::vector<SDPBackend> order(set.begin(), set.end());
  const std::vector<SDPBackend> untouched{
      SDPBackend::flash_attention, SDPBackend::efficient_attention, SDPBackend::math,
      SDPBackend::cudnn_attention};
  static const bool deprioritized = c10::utils::check_env("TORCH_CUDNN_SDPA_DEPRIORITIZED") == true;
  const auto major = capability().major;
  const bool is_default =
      order.size() >= 4 && std::equal(untouched.begin(), untouched.end(), order.begin());
  if (is_default && !deprioritized && (major == 9 || major == 10)) {
    order = {
        SDPBackend::cudnn_attention, SDPBackend::flash_attention, SDPBackend::efficient_attention,
        SDPBackend::math};
  }
  return order;
}

} // namespace

int64_t choose_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask,
    double dropout, bool is_causal, optional<double>, bool enable_gqa) {
  using at::SDPBackend;
  sdp::sdp_params params{query, key, value, mask, dropout, is_causal, enable_gqa};
#if FXREGION_TORCH >= 214
  params = sdp::normalize_unbatched_input(params);
#endif
  for (auto backend : order_of_preference()) {
    const bool usable = (backend == SDPBackend::cudnn_attention && can_use_cudnn(params)) ||
        (backend == SDPBackend::flash_attention && can_use_flash(params)) ||
        (backend == SDPBackend::efficient_attention && can_use_efficient(params)) ||
        (backend == SDPBackend::math && at::globalContext().userEnabledMathSDP());
    if (usable) {
      return static_cast<int64_t>(backend);
    }
  }
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

} // namespace fxregion
