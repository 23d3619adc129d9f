#include "cuda_only.h"

#include "host_call.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/RNN.h>
#include <ATen/native/Resize.h>

#include <numeric>

namespace fxregion {
namespace {

at::Tensor on_host(const at::Tensor& tensor) {
  return HostCall().to_host(tensor);
}
std::optional<at::Tensor> on_host(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? std::make_optional(on_host(*tensor)) : std::nullopt;
}
at::Tensor on_device(const at::Tensor& tensor) {
  return HostCall().to_device(tensor);
}

// The memory format is the one that cuDNN would give, which is what fake tensors say too.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  auto backend = at::native::select_conv_backend(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
      std::nullopt);
  auto format = at::native::_determine_backend_memory_format(input, weight, backend);
  auto out = at::convolution_symint(
      on_host(input), on_host(weight), on_host(bias), stride, padding, dilation, transposed,
      output_padding, groups);
  return on_device(out.dim() == input.dim() && (out.dim() == 4 || out.dim() == 5)
                       ? out.contiguous(format)
                       : out.contiguous());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& running_mean, const std::optional<at::Tensor>& running_var,
    bool training, double momentum, double epsilon) {
  auto [out, mean, invstd] = at::native_batch_norm(
      on_host(input), on_host(weight), on_host(bias), on_host(running_mean), on_host(running_var),
      training, momentum, epsilon);
  auto reserve = at::empty({0}, at::TensorOptions(at::kByte));
  return {on_device(out), on_device(mean), on_device(invstd), on_device(reserve)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm_backward(
    const at::Tensor& input, const at::Tensor& grad, const at::Tensor& weight,
    const std::optional<at::Tensor>& running_mean, const std::optional<at::Tensor>& running_var,
    const std::optional<at::Tensor>& save_mean, const std::optional<at::Tensor>& save_var,
    double epsilon, const at::Tensor&) {
  auto [input_grad, weight_grad, bias_grad] = at::native_batch_norm_backward(
      on_host(grad), on_host(input), on_host(weight), on_host(running_mean), on_host(running_var),
      on_host(save_mean), on_host(save_var), true, epsilon, {true, true, true});
  return {on_device(input_grad), on_device(weight_grad), on_device(bias_grad)};
}

// `normal` is what the forward scaled by the weight.  The layouts of the results are those that the
// elementwise operators give, which is what fake tensors say.
std::tuple<at::Tensor, at::Tensor> fused_rms_norm_backward(
    const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef normalized_shape,
    const at::Tensor& rstd, const std::optional<at::Tensor>& weight, std::array<bool, 2> wanted) {
  const auto type = at::toOpMathType(input.scalar_type());
  auto wide = [&](const at::Tensor& t) {
    return on_host(t).to(type, false, false, at::MemoryFormat::Contiguous);
  };
  const auto scale = wide(rstd);
  const auto normal = wide(input) * scale;
  const auto wide_grad = wide(grad);
  const bool has_weight = weight.has_value() && weight->defined();

  at::Tensor input_grad, weight_grad;
  if (wanted[0]) {
    std::vector<int64_t> rows(normalized_shape.size());
    std::iota(rows.begin(), rows.end(), input.dim() - static_cast<int64_t>(rows.size()));
    const auto normal_grad = has_weight ? wide_grad * wide(*weight) : wide_grad;
    const auto along = (normal_grad * normal).mean(rows, true);
    input_grad = on_device(((normal_grad - normal * along) * scale).to(input.scalar_type()));
  }
  if (wanted[1] && has_weight) {
    const auto sum = (wide_grad * normal).sum_to_size(normalized_shape);
    weight_grad = on_device(sum.to(input.scalar_type()));
  }
  return {input_grad, weight_grad};
}

// Gates in torch's order: input, forget, cell, output.
std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cell,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  auto gates = input_gates + hidden_gates;
  if (input_bias.has_value() && input_bias->defined()) {
    gates = gates + *input_bias;
  }
  if (hidden_bias.has_value() && hidden_bias->defined()) {
    gates = gates + *hidden_bias;
  }
  auto parts = gates.chunk(4, 1);
  auto in = parts[0].sigmoid();
  auto forget = parts[1].sigmoid();
  auto candidate = parts[2].tanh();
  auto output = parts[3].sigmoid();
  auto next_cell = forget * cell + in * candidate;
  auto hidden = output * next_cell.tanh();
  return {hidden, next_cell, at::cat({in, forget, candidate, output}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell_backward(
    const std::optional<at::Tensor>& hidden_grad, const std::optional<at::Tensor>& cell_grad,
    const at::Tensor& cell, const at::Tensor& next_cell, const at::Tensor& workspace,
    bool has_bias) {
  auto parts = workspace.chunk(4, 1);
  const auto &in = parts[0], &forget = parts[1], &candidate = parts[2], &output = parts[3];
  auto or_zero = [&](const std::optional<at::Tensor>& grad) {
    return grad.has_value() && grad->defined() ? *grad : at::zeros_like(next_cell);
  };
  auto squashed = next_cell.tanh();
  auto dh = or_zero(hidden_grad);
  auto dc = or_zero(cell_grad) + dh * output * (1 - squashed * squashed);
  auto gates_grad = at::cat(
      {dc * candidate * in * (1 - in), dc * cell * forget * (1 - forget),
       dc * in * (1 - candidate * candidate), dh * squashed * output * (1 - output)},
      1);
  auto bias_grad = has_bias ? gates_grad.sum(0, false) : at::Tensor();
  return {gates_grad, dc * forget, bias_grad};
}

// Gates in torch's order: reset, update, new.  The workspace keeps what the backward needs.
std::tuple<at::Tensor, at::Tensor> fused_gru_cell(
    const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hidden,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  auto with = [](const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
    return bias.has_value() && bias->defined() ? gates + *bias : gates;
  };
  auto from_input = with(input_gates, input_bias).chunk(3, 1);
  auto from_hidden = with(hidden_gates, hidden_bias).chunk(3, 1);
  auto reset = (from_input[0] + from_hidden[0]).sigmoid();
  auto update = (from_input[1] + from_hidden[1]).sigmoid();
  auto fresh = (from_input[2] + reset * from_hidden[2]).tanh();
  auto out = fresh + update * (hidden - fresh);
  return {out, at::cat({reset, update, fresh, hidden, from_hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_gru_cell_backward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  auto parts = workspace.chunk(5, 1);
  const auto &reset = parts[0], &update = parts[1], &fresh = parts[2], &hidden = parts[3],
             &hidden_new = parts[4];
  auto d_update = grad * (hidden - fresh) * update * (1 - update);
  auto d_fresh = grad * (1 - update) * (1 - fresh * fresh);
  auto d_reset = d_fresh * hidden_new * reset * (1 - reset);
  auto from_input = at::cat({d_reset, d_update, d_fresh}, 1);
  auto from_hidden = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  auto sum = [&](const at::Tensor& t) { return has_bias ? t.sum(0, false) : at::Tensor(); };
  return {from_input, from_hidden, grad * update, sum(from_input), sum(from_hidden)};
}

// A product with a wider result type, which only CUDA has.
template <typename Product>
at::Tensor wide_product(
    const at::Tensor& left, const at::Tensor& right, at::ScalarType type, Product product) {
  return on_device(product(on_host(left).to(type), on_host(right).to(type)));
}
at::Tensor mm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  return wide_product(a, b, type, [](const auto& l, const auto& r) { return at::mm(l, r); });
}
at::Tensor bmm_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  return wide_product(a, b, type, [](const auto& l, const auto& r) { return at::bmm(l, r); });
}
at::Tensor addmm_dtype(
    const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
    const at::Scalar& beta, const at::Scalar& alpha) {
  return wide_product(a, b, type, [&](const auto& l, const auto& r) {
    return at::addmm(on_host(self).to(type), l, r, beta, alpha);
  });
}
at::Tensor baddbmm_dtype(
    const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
    const at::Scalar& beta, const at::Scalar& alpha) {
  return wide_product(a, b, type, [&](const auto& l, const auto& r) {
    return at::baddbmm(on_host(self).to(type), l, r, beta, alpha);
  });
}
at::Tensor& mm_dtype_out(
    const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  at::native::resize_output(out, {a.size(0), b.size(1)});
  return out.copy_(mm_dtype(a, b, type));
}
at::Tensor& bmm_dtype_out(
    const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  at::native::resize_output(out, {a.size(0), a.size(1), b.size(2)});
  return out.copy_(bmm_dtype(a, b, type));
}
at::Tensor& addmm_dtype_out(
    const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
    const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  at::native::resize_output(out, {a.size(0), b.size(1)});
  return out.copy_(addmm_dtype(self, a, b, type, beta, alpha));
}
at::Tensor& baddbmm_dtype_out(
    const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
    const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  at::native::resize_output(out, {a.size(0), a.size(1), b.size(2)});
  return out.copy_(baddbmm_dtype(self, a, b, type, beta, alpha));
}

// What CUDA gives beside the result has other sizes: a bag for each index in every mode, an entry of
// the bags' sizes for the last offset too (the end of the bag before), and largest values in the mode
// that takes them, the third, only.
using Bags = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Bags with_sizes_of_cuda(
    const Bags& found, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode) {
  const auto& [out, bags, sizes, largest] = found;
  const auto count = indices.size(0);
  const auto starts = on_host(offsets);
  const auto bag_of_index = bags.size(0) == count
      ? bags
      : at::searchsorted(starts, at::arange(count, starts.options()), false, /*right=*/true) - 1;
  const auto missing = offsets.size(0) - sizes.size(0);
  const auto all = missing > 0 ? at::constant_pad_nd(sizes, {0, missing}) : sizes;
  const auto type = indices.scalar_type();
  return {
      on_device(out), on_device(bag_of_index.to(type)), on_device(all.to(type)),
      on_device((mode == 2 ? largest : at::empty({0}, largest.options())).to(type))};
}

Bags embedding_bag(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scale,
    int64_t mode, bool sparse, const std::optional<at::Tensor>& weights, bool with_last_offset,
    int64_t padding) {
  return with_sizes_of_cuda(
      at::_embedding_bag(
          on_host(weight), on_host(indices), on_host(offsets), scale, mode, sparse,
          on_host(weights), with_last_offset, padding),
      indices, offsets, mode);
}
Bags embedding_bag_forward_only(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scale,
    int64_t mode, bool sparse, const std::optional<at::Tensor>& weights, bool with_last_offset,
    int64_t padding) {
  return with_sizes_of_cuda(
      at::_embedding_bag_forward_only(
          on_host(weight), on_host(indices), on_host(offsets), scale, mode, sparse,
          on_host(weights), with_last_offset, padding),
      indices, offsets, mode);
}

// cuDNN's CTC loss has no counterpart on the CPU; torch's own CUDA kernel has.
bool no_cudnn_ctc_loss(
    const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) {
  return false;
}
bool no_cudnn_ctc_loss_tensor(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t) {
  return false;
}

void record_stream(at::Tensor&, c10::Stream) {}

// Dispatch of cuDNN's recurrent layers: the same function without cuDNN (cell by cell).
class NoCudnn {
 public:
  NoCudnn() : before_(at::globalContext().userEnabledCuDNN()) {
    at::globalContext().setUserEnabledCuDNN(false);
  }
  ~NoCudnn() {
    at::globalContext().setUserEnabledCuDNN(before_);
  }
  NoCudnn(const NoCudnn&) = delete;
  NoCudnn& operator=(const NoCudnn&) = delete;

 private:
  bool before_;
};

void lstm(
    at::Tensor& out, at::Tensor& hidden, at::Tensor& cell, const at::Tensor& input,
    at::TensorList state, at::TensorList weights, bool has_biases, int64_t layers, double dropout,
    bool train, bool bidirectional, bool batch_first) {
  NoCudnn guard;
  std::tie(out, hidden, cell) = at::lstm(
      input, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first);
}
void lstm_packed(
    at::Tensor& out, at::Tensor& hidden, at::Tensor& cell, const at::Tensor& data,
    const at::Tensor& batch_sizes, at::TensorList state, at::TensorList weights, bool has_biases,
    int64_t layers, double dropout, bool train, bool bidirectional) {
  NoCudnn guard;
  std::tie(out, hidden, cell) = at::lstm(
      data, batch_sizes, state, weights, has_biases, layers, dropout, train, bidirectional);
}

#define FXREGION_RNN(name)                                                                        \
  void name(                                                                                      \
      at::Tensor& out, at::Tensor& hidden, const at::Tensor& input, const at::Tensor& state,      \
      at::TensorList weights, bool has_biases, int64_t layers, double dropout, bool train,        \
      bool bidirectional, bool batch_first) {                                                     \
    NoCudnn guard;                                                                                \
    std::tie(out, hidden) = at::name(                                                             \
        input, state, weights, has_biases, layers, dropout, train, bidirectional, batch_first);   \
  }                                                                                               \
  void name##_packed(                                                                             \
      at::Tensor& out, at::Tensor& hidden, const at::Tensor& data, const at::Tensor& batch_sizes, \
      const at::Tensor& state, at::TensorList weights, bool has_biases, int64_t layers,           \
      double dropout, bool train, bool bidirectional) {                                           \
    NoCudnn guard;                                                                                \
    std::tie(out, hidden) = at::name(                                                             \
        data, batch_sizes, state, weights, has_biases, layers, dropout, train, bidirectional);    \
  }

FXREGION_RNN(gru)
FXREGION_RNN(rnn_tanh)
FXREGION_RNN(rnn_relu)
#undef FXREGION_RNN

} // namespace

void install_cuda_only_operators(torch::Library& aten) {
  aten.impl("convolution", &convolution);
  aten.impl("cudnn_batch_norm", &cudnn_batch_norm);
  aten.impl("cudnn_batch_norm_backward", &cudnn_batch_norm_backward);
  aten.impl("_fused_rms_norm_backward", &fused_rms_norm_backward);
  aten.impl("_thnn_fused_lstm_cell", &fused_lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", &fused_lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", &fused_gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", &fused_gru_cell_backward);
  aten.impl("record_stream", &record_stream);
  aten.impl("_embedding_bag", &embedding_bag);
  aten.impl("_embedding_bag_forward_only", &embedding_bag_forward_only);
  aten.impl("mm.dtype", &mm_dtype);
  aten.impl("bmm.dtype", &bmm_dtype);
  aten.impl("addmm.dtype", &addmm_dtype);
  aten.impl("baddbmm.dtype", &baddbmm_dtype);
  aten.impl("mm.dtype_out", &mm_dtype_out);
  aten.impl("bmm.dtype_out", &bmm_dtype_out);
  aten.impl("addmm.dtype_out", &addmm_dtype_out);
  aten.impl("baddbmm.dtype_out", &baddbmm_dtype_out);
  aten.impl("_use_cudnn_ctc_loss", &no_cudnn_ctc_loss);
  aten.impl("_use_miopen_ctc_loss", &no_cudnn_ctc_loss);
  aten.impl("_use_miopen_ctc_loss.Tensor", &no_cudnn_ctc_loss_tensor);
  aten.impl("_use_cudnn_ctc_loss.Tensor", &no_cudnn_ctc_loss_tensor);

  using namespace at::native;
  lstm_cudnn_stub.set_cuda_dispatch_ptr(&lstm);
  lstm_packed_cudnn_stub.set_cuda_dispatch_ptr(&lstm_packed);
  gru_cudnn_stub.set_cuda_dispatch_ptr(&gru);
  gru_packed_cudnn_stub.set_cuda_dispatch_ptr(&gru_packed);
  rnn_tanh_cudnn_stub.set_cuda_dispatch_ptr(&rnn_tanh);
  rnn_tanh_packed_cudnn_stub.set_cuda_dispatch_ptr(&rnn_tanh_packed);
  rnn_relu_cudnn_stub.set_cuda_dispatch_ptr(&rnn_relu);
  rnn_relu_packed_cudnn_stub.set_cuda_dispatch_ptr(&rnn_relu_packed);
}

} // namespace fxregion
