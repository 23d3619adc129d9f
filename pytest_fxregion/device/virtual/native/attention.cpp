// Attention as CUDA has it: which fused operator stands in the graph, and what it computes.
//
// The choice follows the rules that torch documents (torch.nn.functional.scaled_dot_product_attention
// and torch.nn.attention) and applies on CUDA: an order of preference, and conditions for each
// operator by type, head size, mask, layout and compute capability.  The operators are computed in
// float32 on the CPU, with the outputs, layouts and random state of the real ones.
#include "device.h"
#include "host_call.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <cmath>

namespace fxregion {
namespace {

using at::Tensor;
using std::optional;

// ---- the choice --------------------------------------------------------------------------------

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
  return sdp::check_batch_size_and_num_heads_dense<true>(p, false) &&
      sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<true>(p, false);
}

// Memory-efficient attention (CUTLASS): any float type of up to 32 bits; head sizes and addresses
// in units of 16 bytes; no grouped queries.
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
    if (!TORCH_GUARD_OR_TRUE((t->sym_storage_offset() % unit).sym_eq(0))) {
      return false;
    }
  }
  return sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<false>(p, false) &&
      sdp::check_batch_size_and_num_heads_dense<false>(p, false);
}

// cuDNN: 16-bit floats, head sizes in units of 8 up to 128.
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
  const auto head = p.query.sym_size(-1), value_head = p.value.sym_size(-1);
  const bool mla = capability().major >= 9 && equal(head, 192) && equal(value_head, 128);
  if (!mla && !(at_most(head, 128) && at_most(value_head, 128))) {
    return false;
  }
  if (!multiple_of(head, 8) || !multiple_of(value_head, 8) ||
      !at_most(p.query.sym_size(0), 65535) || !at_most(p.query.sym_size(1), 65535)) {
    return false;
  }
  if (!TORCH_GUARD_OR_FALSE(p.key.sym_size(2).sym_ne(1)) ||
      (p.dropout != 0.0 && !TORCH_GUARD_OR_FALSE(p.query.sym_size(2).sym_ne(1)))) {
    return false;
  }
  return sdp::check_attn_mask_shape(p, false) &&
      sdp::check_nonzero_sequence_lengths_dense(p, false) &&
      sdp::check_last_dim_stride_equals_1_dense<true>(p, false) &&
      sdp::check_batch_size_and_num_heads_dense<true, false>(p, false);
}

// The user's order if one was set (sdpa_kernel(..., set_priority=True)), else CUDA's own: cuDNN
// comes first on Hopper and Blackwell data centre chips, since cuDNN 9.15.1 (pytorch#169849).
std::vector<at::SDPBackend> order_of_preference() {
  using at::SDPBackend;
  const auto set = at::globalContext().sDPPriorityOrder();
  std::vector<SDPBackend> order(set.begin(), set.end());
  const std::vector<SDPBackend> untouched{
      SDPBackend::flash_attention, SDPBackend::efficient_attention, SDPBackend::math,
      SDPBackend::cudnn_attention};
  const auto major = capability().major;
  const bool is_default =
      order.size() >= 4 && std::equal(untouched.begin(), untouched.end(), order.begin());
  if (is_default && (major == 9 || major == 10)) {
    order = {
        SDPBackend::cudnn_attention, SDPBackend::flash_attention, SDPBackend::efficient_attention,
        SDPBackend::math};
  }
  return order;
}

int64_t choose(
    const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& mask,
    double dropout, bool is_causal, optional<double>, bool enable_gqa) {
  using at::SDPBackend;
  const sdp::sdp_params params{query, key, value, mask, dropout, is_causal, enable_gqa};
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

// ---- the computation ---------------------------------------------------------------------------

struct Dropout {
  double probability;
  uint64_t seed = 0;
  uint64_t offset = 0;

  // 1/(1-p) where kept, 0 where dropped; the same for the same seed and offset.
  Tensor scale(const Tensor& like) const {
    auto keep = at::empty_like(like).bernoulli_(1.0 - probability, host_generator(seed, offset));
    return keep.div_(1.0 - probability);
  }
};

Dropout new_dropout(double probability) {
  Dropout dropout{probability};
  if (probability > 0.0) {
    auto* own = default_generator().get<VirtualGenerator>();
    std::tie(dropout.seed, dropout.offset) = own->advance();
  }
  return dropout;
}

struct Inputs {
  Tensor query, key, value, bias; // on the host, float32; heads of key and value repeated
  double scale;
  bool is_causal;
};

Tensor on_host(const Tensor& t) {
  return HostCall().to_host(t);
}
Tensor on_device(const Tensor& t) {
  return HostCall().to_device(t);
}

Tensor widened(const Tensor& t, int64_t heads) {
  auto host = on_host(t).to(at::kFloat);
  return host.size(1) == heads ? host : host.repeat_interleave(heads / host.size(1), 1);
}

Inputs inputs(
    const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& bias,
    bool is_causal, optional<double> scale) {
  const auto heads = query.size(1);
  Tensor added;
  if (bias.has_value() && bias->defined()) {
    auto host = on_host(*bias);
    added = host.scalar_type() == at::kBool
        ? at::zeros(host.sizes(), at::kFloat).masked_fill_(host.logical_not(), -INFINITY)
        : host.to(at::kFloat);
  }
  return {
      widened(query, heads), widened(key, heads), widened(value, heads), added,
      scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))), is_causal};
}

Tensor scores(const Inputs& in) {
  auto out = at::matmul(in.query * in.scale, in.key.transpose(-1, -2));
  if (in.bias.defined()) {
    out = out + in.bias;
  }
  if (in.is_causal) {
    // Aligned at the top left, as scaled_dot_product_attention's is_causal is.
    auto hidden = at::ones({out.size(-2), out.size(-1)}, at::kBool).triu_(1);
    out.masked_fill_(hidden, -INFINITY);
  }
  return out;
}

struct Forward {
  Tensor out, logsumexp; // float32, host
};

Forward forward(const Inputs& in, const Dropout& dropout) {
  auto s = scores(in);
  auto lse = s.logsumexp(-1);
  // A row with everything masked has no probabilities: zeros, not NaN.
  auto p = (s - lse.unsqueeze(-1)).exp_().nan_to_num_(0.0);
  if (dropout.probability > 0.0) {
    p = p * dropout.scale(p);
  }
  return {at::matmul(p, in.value), lse};
}

struct Backward {
  Tensor query, key, value, bias; // float32, host
};

Tensor folded(const Tensor& grad, int64_t heads) {
  return grad.size(1) == heads ? grad
                               : grad.unflatten(1, {heads, grad.size(1) / heads}).sum(2);
}

Backward backward(
    const Inputs& in, const Dropout& dropout, const Tensor& grad_out, const Tensor& out,
    const Tensor& logsumexp, int64_t key_heads) {
  auto grad = on_host(grad_out).to(at::kFloat);
  auto p = (scores(in) - logsumexp.unsqueeze(-1)).exp_().nan_to_num_(0.0);
  auto dp = at::matmul(grad, in.value.transpose(-1, -2));
  auto kept = p;
  if (dropout.probability > 0.0) {
    auto scale = dropout.scale(p);
    kept = p * scale;
    dp = dp * scale;
  }
  auto delta = (grad * on_host(out).to(at::kFloat)).sum(-1, true);
  auto ds = p * (dp - delta);
  return {
      at::matmul(ds, in.key) * in.scale,
      folded(at::matmul(ds.transpose(-1, -2), in.query) * in.scale, key_heads),
      folded(at::matmul(kept.transpose(-1, -2), grad), key_heads), ds};
}

// ---- layouts -----------------------------------------------------------------------------------

Tensor laid_out_like(const Tensor& values, const Tensor& like) {
  return on_device(at::empty_like(on_host(like)).copy_(values));
}

// (batch, heads, length, size) stored as (batch, length, heads, size).
Tensor length_before_heads(const Tensor& values, at::ScalarType type) {
  return on_device(values.transpose(1, 2).to(type).contiguous().transpose(1, 2));
}

// Strides in the same order as those of `query`, for the shape of `values`.
Tensor in_order_of(const Tensor& values, const Tensor& query) {
  std::vector<int64_t> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return query.stride(a) > query.stride(b);
  });
  return on_device(at::empty_permuted(
                       values.sizes(), order, at::TensorOptions(query.scalar_type()))
                       .copy_(values));
}

Tensor int64_scalar(uint64_t value) {
  return on_device(at::scalar_tensor(static_cast<int64_t>(value), at::kLong));
}

uint64_t scalar_of(const Tensor& t, int64_t index = 0) {
  auto host = on_host(t);
  return host.numel() > index ? static_cast<const uint64_t*>(host.const_data_ptr())[index] : 0;
}

// ---- flash -------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash(
    const Tensor& query, const Tensor& key, const Tensor& value, double dropout_p, bool is_causal,
    bool return_debug_mask, optional<double> scale) {
  TORCH_CHECK(!return_debug_mask, "the virtual CUDA device has no attention debug mask");
  const auto dropout = new_dropout(dropout_p);
  auto [out, lse] = forward(inputs(query, key, value, {}, is_causal, scale), dropout);
  auto state = at::empty({2}, at::kUInt64);
  auto* state_data = state.mutable_data_ptr<uint64_t>();
  state_data[0] = dropout.seed;
  state_data[1] = dropout.offset;
  return {
      laid_out_like(out, query), on_device(lse), Tensor(), Tensor(), query.size(2), key.size(2),
      on_device(state), on_device(at::empty({}, at::kUInt64)),
      on_device(at::empty({0}, query.scalar_type()))};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& out, const Tensor& logsumexp, const Tensor&, const Tensor&, c10::SymInt,
    c10::SymInt, double dropout_p, bool is_causal, const Tensor& rng_state, const Tensor&,
    optional<double> scale) {
  const Dropout dropout{dropout_p, scalar_of(rng_state, 0), scalar_of(rng_state, 1)};
  auto grads = backward(
      inputs(query, key, value, {}, is_causal, scale), dropout, grad_out, out, on_host(logsumexp),
      key.size(1));
  return {
      laid_out_like(grads.query, query), laid_out_like(grads.key, key),
      laid_out_like(grads.value, value)};
}

// ---- memory-efficient --------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(
    const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& bias,
    bool compute_log_sumexp, double dropout_p, bool is_causal, optional<double> scale) {
  const auto dropout = new_dropout(dropout_p);
  auto [out, lse] = forward(inputs(query, key, value, bias, is_causal, scale), dropout);
  // Rows are padded to a multiple of 32.
  const auto rows = compute_log_sumexp ? (query.size(2) + 31) / 32 * 32 : 0;
  auto padded = at::zeros({query.size(0), query.size(1), rows}, at::kFloat);
  if (compute_log_sumexp) {
    padded.narrow(2, 0, query.size(2)).copy_(lse);
  }
  return {
      length_before_heads(out, query.scalar_type()), on_device(padded),
      int64_scalar(dropout.seed), int64_scalar(dropout.offset)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, const Tensor& out, const Tensor& logsumexp, const Tensor& seed,
    const Tensor& offset, double dropout_p, std::array<bool, 4> wanted, bool is_causal,
    optional<double> scale) {
  if (!grad_out.defined()) {
    return {};
  }
  const Dropout dropout{dropout_p, scalar_of(seed), scalar_of(offset)};
  auto lse = on_host(logsumexp).narrow(2, 0, query.size(2));
  auto grads = backward(
      inputs(query, key, value, bias, is_causal, scale), dropout, grad_out, out, lse, key.size(1));
  Tensor bias_grad;
  if (bias.defined() && wanted[3]) {
    auto sizes = bias.sizes().vec();
    const auto last = sizes.back();
    sizes.back() = (last + 15) / 16 * 16;
    bias_grad = on_device(at::empty(sizes, bias.scalar_type())
                              .narrow(-1, 0, last)
                              .copy_(grads.bias.sum_to_size(bias.sizes())));
  }
  return {
      length_before_heads(grads.query, query.scalar_type()),
      length_before_heads(grads.key, key.scalar_type()),
      length_before_heads(grads.value, value.scalar_type()), bias_grad};
}

// ---- cuDNN -------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn(
    const Tensor& query, const Tensor& key, const Tensor& value, const optional<Tensor>& bias,
    bool, double dropout_p, bool is_causal, bool return_debug_mask, optional<double> scale) {
  TORCH_CHECK(!return_debug_mask, "the virtual CUDA device has no attention debug mask");
  const auto dropout = new_dropout(dropout_p);
  auto [out, lse] = forward(inputs(query, key, value, bias, is_causal, scale), dropout);
  return {
      in_order_of(out, query), on_device(lse.unsqueeze(-1)), Tensor(), Tensor(), query.size(2),
      key.size(2), int64_scalar(dropout.seed), int64_scalar(dropout.offset), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& out, const Tensor& logsumexp, const Tensor& seed, const Tensor& offset,
    const Tensor& bias, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout_p,
    bool is_causal, optional<double> scale) {
  const Dropout dropout{dropout_p, scalar_of(seed), scalar_of(offset)};
  auto grads = backward(
      inputs(query, key, value, bias, is_causal, scale), dropout, grad_out, out,
      on_host(logsumexp).squeeze(-1), key.size(1));
  return {
      laid_out_like(grads.query, query), laid_out_like(grads.key, key),
      laid_out_like(grads.value, value)};
}

} // namespace

void install_attention() {
  static auto* aten = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  aten->impl("_scaled_dot_product_flash_attention", &flash);
  aten->impl("_scaled_dot_product_flash_attention_backward", &flash_backward);
  aten->impl("_scaled_dot_product_efficient_attention", &efficient);
  aten->impl("_scaled_dot_product_efficient_attention_backward", &efficient_backward);
  aten->impl("_scaled_dot_product_cudnn_attention", &cudnn);
  aten->impl("_scaled_dot_product_cudnn_attention_backward", &cudnn_backward);
  aten->impl("_fused_sdp_choice", &choose);
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
}

} // namespace fxregion
