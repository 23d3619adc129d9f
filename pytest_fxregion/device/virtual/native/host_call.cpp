#include "host_call.h"

#include "device.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

namespace fxregion {
namespace {

// A CPU storage over the bytes of a device storage, which lives as long as this one does.
c10::Storage host_storage(const c10::Storage& device) {
  auto free_reference = [](void* context) { delete static_cast<c10::Storage*>(context); };
  c10::DataPtr data(
      device.mutable_data(), new c10::Storage(device), free_reference, c10::Device(c10::kCPU));
  return c10::Storage(
      c10::Storage::use_byte_size_t(), device.nbytes(), std::move(data), c10::GetCPUAllocator(),
      true);
}

// The bytes of a CPU storage as the device's memory.
c10::DataPtr device_data(const c10::Storage& host) {
  return counted(host.mutable_data(), host.nbytes(), host);
}

at::Tensor tensor_over(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  auto keys = c10::DispatchKeySet(key);
  if (like._is_zerotensor()) {
    keys = keys.add(c10::DispatchKey::ZeroTensor); // no memory behind it: must stay known as such
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) {
    impl->_set_conj(true);
  }
  if (like.is_neg()) {
    impl->_set_neg(true);
  }
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return at::Tensor(std::move(impl));
}

void check_dense(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided) {
    refuse(c10::str("layout ", tensor.layout(), " (dense tensors only)"));
  }
}

} // namespace

c10::Storage HostCall::to_host(const c10::Storage& storage) {
  if (storage.device_type() != c10::DeviceType::CUDA) {
    return storage;
  }
  for (const auto& pair : storages_) {
    if (pair.device.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return pair.host;
    }
  }
  auto host = host_storage(storage);
  storages_.push_back({storage, host});
  return host;
}

at::Tensor HostCall::to_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) {
    return tensor;
  }
  check_dense(tensor);
  auto host = tensor_over(to_host(tensor.storage()), c10::DispatchKey::CPU, tensor);
  tensors_.push_back({tensor, host});
  return host;
}

c10::Storage HostCall::device_storage(const c10::Storage& host) {
  for (const auto& pair : storages_) {
    if (pair.host.unsafeGetStorageImpl() == host.unsafeGetStorageImpl()) {
      return pair.device;
    }
  }
  c10::Storage device(
      c10::Storage::use_byte_size_t(), host.nbytes(), device_data(host), allocator(), true);
  storages_.push_back({device, host});
  return device;
}

at::Tensor HostCall::to_device(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu()) {
    return tensor;
  }
  for (const auto& pair : tensors_) {
    if (pair.host.is_same(tensor)) {
      return pair.device;
    }
  }
  check_dense(tensor);
  return tensor_over(device_storage(tensor.storage()), c10::DispatchKey::CUDA, tensor);
}

c10::IValue HostCall::to_host(const c10::IValue& value) {
  if (value.isTensor()) {
    return to_host(value.toTensor());
  }
  if (value.isTensorList()) {
    auto list = value.toTensorVector();
    for (auto& tensor : list) {
      tensor = to_host(tensor);
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      list.push_back(tensor.has_value() ? std::make_optional(to_host(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isStorage()) {
    return to_host(value.toStorage());
  }
  if (value.isDevice() && value.toDevice().is_cuda()) {
    TORCH_CHECK(
        value.toDevice().index() <= 0,
        "CUDA error: invalid device ordinal (the virtual device is cuda:0 alone)");
    return c10::Device(c10::kCPU);
  }
  return value;
}

c10::IValue HostCall::to_device(const c10::IValue& value) {
  if (value.isTensor()) {
    return to_device(value.toTensor());
  }
  if (value.isTensorList()) {
    auto list = value.toTensorVector();
    for (auto& tensor : list) {
      tensor = to_device(tensor);
    }
    return list;
  }
  return value;
}

void HostCall::write_back() {
  // By index: device_storage() may add pairs.
  for (size_t i = 0, n = storages_.size(); i < n; i++) {
    auto device = storages_[i].device;
    auto host = storages_[i].host;
    if (host.data() != device.data() || host.nbytes() != device.nbytes()) {
      // Resized: the device storage takes the new memory, and holds what owns it.
      device.set_data_ptr_noswap(device_data(host));
      device.set_nbytes(host.nbytes());
    }
  }
  for (size_t i = 0, n = tensors_.size(); i < n; i++) {
    auto* device = tensors_[i].device.unsafeGetTensorImpl();
    auto* host = tensors_[i].host.unsafeGetTensorImpl();
    auto storage = device_storage(host->storage());
    if (storage.unsafeGetStorageImpl() != device->storage().unsafeGetStorageImpl()) {
      device->set_storage_keep_dtype(std::move(storage));
    }
    if (device->sizes() != host->sizes() || device->strides() != host->strides() ||
        device->storage_offset() != host->storage_offset()) {
      device->set_sizes_and_strides(host->sizes(), host->strides(), host->storage_offset());
    }
  }
}

} // namespace fxregion
