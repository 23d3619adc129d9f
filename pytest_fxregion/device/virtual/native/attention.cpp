// CUDA's fused attention operators, forward and backward: computed in float32 on the CPU, with the
// outputs, layouts and random state of the real ones.
#include "attention_choice.h"
#include "device.h"
#include "host_call.h"

#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <cmath>

namespace fxregion {
namespace {

using at::Tensor;
using std::optional;

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

// Subtracting the largest score first, as the kernels do: exp(score - logsumexp) loses bits where
// scores are large.  A row with everything masked has no probabilities: zeros, not NaN.
Tensor probabilities(const Tensor& scores) {
  auto nothing = scores.amax(-1, true).eq(-INFINITY);
  return at::softmax(scores, -1).masked_fill_(nothing, 0.0);
}

struct Forward {
  Tensor out, logsumexp; // float32, host
};

Forward forward(const Inputs& in, const Dropout& dropout) {
  auto s = scores(in);
  auto p = probabilities(s);
  if (dropout.probability > 0.0) {
    p = p * dropout.scale(p);
  }
  return {at::matmul(p, in.value), s.logsumexp(-1)};
}

// From the inputs alone: the saved output and logsumexp are rounded.
struct Backward {
  Tensor query, key, value, bias; // float32, host
};

Tensor folded(const Tensor& grad, int64_t heads) {
  return grad.size(1) == heads ? grad
                               : grad.unflatten(1, {heads, grad.size(1) / heads}).sum(2);
}

Backward backward(
    const Inputs& in, const Dropout& dropout, const Tensor& grad_out, int64_t key_heads) {
  auto grad = on_host(grad_out).to(at::kFloat);
  auto p = probabilities(scores(in));
  auto dp = at::matmul(grad, in.value.transpose(-1, -2));
  auto kept = p;
  if (dropout.probability > 0.0) {
    auto scale = dropout.scale(p);
    kept = p * scale;
    dp = dp * scale;
  }
  auto ds = p * (dp - (dp * p).sum(-1, true));
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
    const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt,
    c10::SymInt, double dropout_p, bool is_causal, const Tensor& rng_state, const Tensor&,
    optional<double> scale) {
  const Dropout dropout{dropout_p, scalar_of(rng_state, 0), scalar_of(rng_state, 1)};
  auto grads = backward(
      inputs(query, key, value, {}, is_causal, scale), dropout, grad_out, key.size(1));
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
    const Tensor& bias, const Tensor&, const Tensor&, const Tensor& seed,
    const Tensor& offset, double dropout_p, std::array<bool, 4> wanted, bool is_causal,
    optional<double> scale) {
  if (!grad_out.defined()) {
    return {};
  }
  const Dropout dropout{dropout_p, scalar_of(seed), scalar_of(offset)};
  auto grads = backward(
      inputs(query, key, value, bias, is_causal, scale), dropout, grad_out, key.size(1));
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
    const Tensor&, const Tensor&, const Tensor& seed, const Tensor& offset,
    const Tensor& bias, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout_p,
    bool is_causal, optional<double> scale) {
  const Dropout dropout{dropout_p, scalar_of(seed), scalar_of(offset)};
  auto grads = backward(
      inputs(query, key, value, bias, is_causal, scale), dropout, grad_out, key.size(1));
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
  aten->impl("_fused_sdp_choice", &choose_attention);
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
}

} // namespace fxregion
