// What ATen asks about CUDA: the virtual device's answers while it is active, else those of this
// torch's own hooks, so that a program outside sees what it would see without us.
#include "device.h"

#include <ATen/detail/CUDAHooksInterface.h>

namespace fxregion {
namespace {

using at::CUDAHooksInterface;
using at::DeviceIndex;
using Hooks = std::unique_ptr<CUDAHooksInterface>;

class VirtualHooks final : public CUDAHooksInterface {
 public:
  explicit VirtualHooks(Hooks own) : own_(std::move(own)) {}

  bool hasCUDA() const override {
    return active() || own_->hasCUDA();
  }
  bool isBuilt() const override {
    return active() || own_->isBuilt();
  }
  bool isAvailable() const override {
    return active() || own_->isAvailable();
  }
  void init() const override {
    if (!active()) {
      own_->init();
    }
  }
  int getNumGPUs() const override {
    return active() ? 1 : own_->getNumGPUs();
  }
  DeviceIndex deviceCount() const override {
    return active() ? 1 : own_->deviceCount();
  }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return active() ? default_generator() : own_->getDefaultGenerator(index);
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return active() ? at::make_generator<VirtualGenerator>(c10::make_intrusive<GeneratorState>())
                    : own_->getNewGenerator(index);
  }
  at::Allocator* getPinnedMemoryAllocator() const override {
    return active() ? pinned_allocator() : own_->getPinnedMemoryAllocator();
  }

  // Asked about tensors that were made inside and live on: the same inside and outside.
  bool hasPrimaryContext(DeviceIndex) const override {
    return active();
  }
  DeviceIndex current_device() const override {
    return 0;
  }
  DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  void setCurrentDevice(DeviceIndex index) const override {
    check_index(at::Device(c10::kCUDA, index));
  }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    check_index(at::Device(c10::kCUDA, index));
    return 0;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override {
    return 0;
  }
  void deviceSynchronize(DeviceIndex) const override {}
  at::Device getDeviceFromPtr(void*) const override {
    return kDevice;
  }
  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data);
  }
  at::Allocator* getCUDADeviceAllocator() const override {
    return allocator();
  }

  // cuDNN is there, as in every CUDA wheel: it decides which operators stand in the graph
  // (cudnn_batch_norm) and the memory format of convolutions.
  bool hasCuDNN() const override {
    return active() || own_->hasCuDNN();
  }
  bool compiledWithCuDNN() const override {
    return active() || own_->compiledWithCuDNN();
  }
  bool supportsDilatedConvolutionWithCuDNN() const override {
    return active() || own_->supportsDilatedConvolutionWithCuDNN();
  }
  bool supportsDepthwiseConvolutionWithCuDNN() const override {
    return active() || own_->supportsDepthwiseConvolutionWithCuDNN();
  }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override {
    return active() || own_->supportsBFloat16ConvolutionWithCuDNNv8();
  }
  bool supportsBFloat16RNNWithCuDNN() const override {
    return active() || own_->supportsBFloat16RNNWithCuDNN();
  }
  long versionCuDNN() const override {
    return says_cudnn_version() ? own_->versionCuDNN() : kCudnnOfWheels;
  }
  long versionRuntimeCuDNN() const override {
    return says_cudnn_version() ? own_->versionRuntimeCuDNN() : kCudnnOfWheels;
  }
  double batchnormMinEpsilonCuDNN() const override {
    return active() ? 0.0 : own_->batchnormMinEpsilonCuDNN();
  }
  bool hasCuBLASLt() const override {
    return active() || own_->hasCuBLASLt();
  }
  bool hasCuSOLVER() const override {
    return active() || own_->hasCuSOLVER();
  }

  // Of the build, not of a device.
  bool hasCUDART() const override {
    return own_->hasCUDART();
  }
  bool hasMAGMA() const override {
    return own_->hasMAGMA();
  }
  long versionCUDART() const override {
    return own_->versionCUDART();
  }
  std::string showConfig() const override {
    return own_->showConfig();
  }

 private:
  bool says_cudnn_version() const {
    return !active() || own_->compiledWithCuDNN();
  }

  Hooks own_;
};

// ATen makes the hooks once, at their first use, from the creator that is registered by then.
bool register_hooks() {
  auto* registry = at::CUDAHooksRegistry();
  auto own = std::make_shared<Hooks>(registry->Create("CUDAHooks", at::CUDAHooksArgs{}));
  if (*own == nullptr) {
    *own = std::make_unique<CUDAHooksInterface>();
  }
  registry->Register(
      "CUDAHooks",
      [own](at::CUDAHooksArgs) -> Hooks { return std::make_unique<VirtualHooks>(std::move(*own)); },
      c10::REGISTRY_PREFERRED);
  return true;
}

[[maybe_unused]] const bool registered = register_hooks();

} // namespace
} // namespace fxregion
