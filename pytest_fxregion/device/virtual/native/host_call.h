// One call of an operator with the device's tensors seen as CPU tensors over the same bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

namespace fxregion {

// Keeps, for one call, which device storage stands behind which CPU storage and which device tensor
// behind which CPU tensor.  Results that are views come back on the same device storage, in-place
// and out= arguments come back as the same tensor, and a storage that the CPU operator resized is
// resized on the device, for every tensor that uses it.
class HostCall {
 public:
  at::Tensor to_host(const at::Tensor& tensor);
  c10::Storage to_host(const c10::Storage& storage);
  at::Tensor to_device(const at::Tensor& tensor);
  c10::IValue to_host(const c10::IValue& value);
  c10::IValue to_device(const c10::IValue& value);
  // Carries what the operator did to its arguments' sizes and storages over to the device tensors.
  void write_back();

 private:
  c10::Storage device_storage(const c10::Storage& host);

  struct StoragePair {
    c10::Storage device;
    c10::Storage host;
  };
  struct TensorPair {
    at::Tensor device;
    at::Tensor host;
  };
  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
};

} // namespace fxregion
