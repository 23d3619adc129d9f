// The operators: one boxed kernel that runs any of them on the CPU.
#include "device.h"
#include "cuda_only.h"
#include "host_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstring>
#include <unordered_set>

namespace fxregion {
namespace {

using torch::jit::Stack;

// Operators of which a real device takes CPU tensors of any size among its arguments.
bool takes_cpu_tensors(const std::string& name) {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::copy_", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::index",
      "aten::index.out", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
      "aten::_unsafe_index", "aten::_unsafe_index_put", "aten::set_", "aten::_ctc_loss",
      "aten::_ctc_loss_backward", "aten::_use_miopen_ctc_loss", "aten::_cudnn_ctc_loss", "aten::_use_cudnn_ctc_loss",
      "aten::_pack_padded_sequence", "aten::_fused_adam_", "aten::_fused_adamw_",
      "aten::_fused_sgd_", "aten::_fused_adagrad_", "aten::record_stream", "aten::is_set_to",
      "aten::_foreach_copy_", "aten::copy", "aten::_foreach_copy", "aten::resize_as_",
      "aten::histogramdd", "aten::_histogramdd_from_bin_cts",
      "aten::_histogramdd_from_bin_tensors", "aten::unfold_backward"};
  return names->count(name) != 0;
}

void check_one_device(const c10::OperatorHandle& op, const c10::IValue* arguments, size_t count) {
  std::optional<c10::Device> stray;
  bool on_device = false;
  auto look = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      return;
    }
    if (tensor.is_cuda()) {
      on_device = true;
    } else if (tensor.is_cpu() && tensor.dim() > 0) {
      stray = tensor.device();
    }
  };
  for (size_t i = 0; i < count; i++) {
    if (arguments[i].isTensor()) {
      look(arguments[i].toTensor());
    } else if (arguments[i].isTensorList()) {
      for (const auto& tensor : arguments[i].toTensorVector()) {
        look(tensor);
      }
    }
  }
  if (on_device && stray.has_value()) {
    TORCH_CHECK(
        takes_cpu_tensors(op.schema().name()),
        "Expected all tensors to be on the same device, but found at least two devices, ",
        kDevice, " and ", *stray, "! (when checking arguments of ", op.schema().name(), ")");
  }
}

// For random operators that take no generator: the process's CPU generator becomes the device's
// for the length of the call.
class DefaultGeneratorGuard {
 public:
  explicit DefaultGeneratorGuard(const at::Generator& source)
      : generator_(at::get_generator_or_default<at::CPUGeneratorImpl>(
            std::nullopt, at::detail::getDefaultCPUGenerator())) {
    std::lock_guard<std::mutex> lock(generator_->mutex_);
    saved_ = generator_->clone();
    take(*source.get<at::CPUGeneratorImpl>());
  }
  ~DefaultGeneratorGuard() {
    std::lock_guard<std::mutex> lock(generator_->mutex_);
    take(*saved_);
  }
  DefaultGeneratorGuard(const DefaultGeneratorGuard&) = delete;
  DefaultGeneratorGuard& operator=(const DefaultGeneratorGuard&) = delete;

 private:
  void take(at::CPUGeneratorImpl& other) {
    generator_->set_engine(other.engine());
    generator_->set_next_float_normal_sample(other.next_float_normal_sample());
    generator_->set_next_double_normal_sample(other.next_double_normal_sample());
  }
  at::CPUGeneratorImpl* generator_;
  std::shared_ptr<at::CPUGeneratorImpl> saved_;
};

bool takes_generator(const c10::Argument& argument) {
  const auto* type = argument.type().get();
  if (const auto optional = argument.type()->cast<c10::OptionalType>()) {
    type = optional->getElementType().get();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

// Below autograd, and without the CPU's autocast: what runs here is one device kernel.
void call_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const auto first = stack->size() - count;
  check_one_device(op, stack->data() + first, count);

  HostCall call;
  bool result_on_cpu = false;
  for (size_t i = 0; i < count; i++) {
    auto& value = (*stack)[first + i];
    result_on_cpu |= value.isDevice() && value.toDevice().is_cpu();
    value = call.to_host(value);
  }

  if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    std::optional<DefaultGeneratorGuard> guard;
    bool given = false;
    for (size_t i = 0; i < count; i++) {
      if (takes_generator(schema.arguments()[i])) {
        auto& value = (*stack)[first + i];
        value = next_host_generator(value.toOptional<at::Generator>());
        given = true;
      }
    }
    if (!given) {
      guard.emplace(next_host_generator(std::nullopt));
    }
    call_on_cpu(op, stack);
  } else {
    call_on_cpu(op, stack);
  }

  call.write_back();
  if (result_on_cpu) {
    return;
  }
  const auto results = schema.returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); i++) {
    (*stack)[i] = call.to_device((*stack)[i]);
  }
}

void refuse_layout(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack*) {
  refuse(op.schema().name() + " of a sparse or nested tensor (dense tensors only)");
}

constexpr c10::DispatchKey kOtherLayouts[] = {
    c10::DispatchKey::SparseCUDA, c10::DispatchKey::SparseCsrCUDA,
    c10::DispatchKey::NestedTensorCUDA};

// ---- what Python asks of the library ------------------------------------------------------------

// Storages cannot be passed to operators from Python; a tensor of bytes over one stands for it.
void resize_storage(const at::Tensor& bytes, int64_t size) {
  auto storage = bytes.storage();
  auto memory = allocator()->allocate(size);
  auto kept = std::min<size_t>(size, storage.nbytes());
  if (kept != 0) {
    std::memcpy(memory.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(size);
}

// Fails outside of the device with the words of this torch's own hooks.
void initialize() {
  at::detail::getCUDAHooks().init();
}

at::Generator default_generator_for_python() {
  return default_generator();
}

// Composite operators that ask a table of kernels by device; the table has no entry for CUDA in a
// CPU build, so the whole operator goes to the CPU.
constexpr const char* kWholeOnHost[] = {
    "aten::copy_", "aten::_copy_from", "aten::convolution_backward",
    // Composite where no backend has a kernel, and a CUDA build has: these stay whole in graphs.
    "aten::silu_backward", "aten::mish_backward", "aten::_fused_rms_norm",
    // Composite of their own out= form, which warns of the shape that the composite gives it.
    "aten::mse_loss", "aten::smooth_l1_loss"};

// A CUDA build has kernels of its own; without a GPU none of them can run.
void shadow_existing_kernels(
    c10::DispatchKey key, const c10::KernelFunction& kernel,
    std::vector<c10::RegistrationHandleRAII>& keep) {
  static const std::unordered_set<std::string> own{
      "aten::convolution", "aten::cudnn_batch_norm", "aten::cudnn_batch_norm_backward",
      "aten::_fused_rms_norm_backward", "aten::_embedding_bag",
      "aten::_embedding_bag_forward_only",
      "aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_lstm_cell_backward_impl",
      "aten::_thnn_fused_gru_cell", "aten::_thnn_fused_gru_cell_backward", "aten::record_stream"};
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 && name.name.rfind("prims::", 0) != 0) {
      continue;
    }
    auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema() || own.count(name.name) != 0 ||
        !op->hasKernelForDispatchKey(key)) {
      continue;
    }
    keep.push_back(dispatcher.registerImpl(
        name, key, kernel, {}, nullptr, "the virtual CUDA device"));
  }
}

struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

} // namespace

void install_operators() {
  static bool done = false;
  if (done) {
    return;
  }
  done = true;
  // Kept until the process ends: unregistering while Python's interpreter is gone is not safe.
  static auto* keep = new std::vector<c10::RegistrationHandleRAII>;
  // Replacing a kernel is what is meant; torch's warning about it would go to standard error.
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  shadow_existing_kernels(
      c10::DispatchKey::CUDA, c10::KernelFunction::makeFromBoxedFunction<&run_on_host>(), *keep);

  static auto* any = new torch::Library(
      torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  for (const auto key : kOtherLayouts) {
    shadow_existing_kernels(
        key, c10::KernelFunction::makeFromBoxedFunction<&refuse_layout>(), *keep);
    auto* other = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    other->fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout>());
  }

  static auto* aten = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto* name : kWholeOnHost) {
    if (!dispatcher.findOp({name, ""})->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) {
      aten->impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    }
  }
  install_cuda_only_operators(*aten);

  static auto* own = new torch::Library(
      torch::Library::DEF, "fxregion_virtual", std::nullopt, __FILE__, __LINE__);
  own->def("refuse(str what) -> ()"); // its body is Python's
  own->def("default_generator() -> Generator?", &default_generator_for_python);
  own->def("initialize() -> ()", &initialize);
  own->def("resize_storage(Tensor(a!) bytes, int size) -> ()", &resize_storage);
}

} // namespace fxregion
