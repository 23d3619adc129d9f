// The device itself: guard, streams and memory, all over host memory.
#include "device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_set>

namespace fxregion {
namespace {

std::atomic<bool> is_active{false};
std::atomic<int> capability_major{9};
std::atomic<int> capability_minor{0};

// ---- streams: names only.  Work is done when it is submitted, so every order is kept. ----------

thread_local c10::StreamId current_stream = 0;
std::atomic<c10::StreamId> next_stream{1};

c10::Stream stream_of(c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, kDevice, id);
}

// The guard of this torch's own CUDA build; none in a CPU build.
const c10::impl::DeviceGuardImplInterface* own_guard = nullptr;

const c10::impl::DeviceGuardImplInterface& build_s_own() {
  TORCH_CHECK(own_guard != nullptr, "PyTorch is not linked with support for cuda devices");
  return *own_guard;
}

struct VirtualGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return c10::DeviceType::CUDA;
  }
  c10::Device getDevice() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_index(device);
    return kDevice;
  }
  void setDevice(c10::Device device) const override {
    check_index(device);
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  // One even while inactive: the autograd engine makes its device threads once, at the first
  // backward of the process, from this number.
  c10::DeviceIndex deviceCount() const noexcept override {
    return 1;
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    return c10::DeviceCapability();
  }
  c10::Stream getStream(c10::Device) const override {
    return stream_of(current_stream);
  }
  c10::Stream getDefaultStream(c10::Device) const override {
    return stream_of(0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return active() ? stream_of(next_stream++)
                    : build_s_own().getStreamFromGlobalPool(device, high_priority);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return active() ? stream_of(next_stream++) : build_s_own().getNewStream(device, priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto previous = stream_of(current_stream);
    current_stream = stream.id();
    return previous;
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag)
      const override {
    // Any non-null value says "recorded".
    *event = const_cast<std::atomic<bool>*>(&is_active);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override {
    refuse("torch.Event.elapsed_time");
    return 0.0;
  }
};

// ---- memory ------------------------------------------------------------------------------------

// How much there is, how much there was at most, how much there ever was.
class Gauge {
 public:
  void add(int64_t amount) {
    const auto now = figures_[0] += amount;
    auto peak = figures_[1].load();
    while (now > peak && !figures_[1].compare_exchange_weak(peak, now)) {
    }
    if (amount > 0) {
      figures_[2] += amount;
    }
  }
  int64_t figure(int which) const {
    return figures_[which];
  }
  void reset_peak() {
    figures_[1] = figures_[0].load();
  }

 private:
  std::atomic<int64_t> figures_[3]{0, 0, 0};
};

Gauge bytes_allocated;
Gauge blocks_allocated;

struct HostAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto owned = c10::GetCPUAllocator()->allocate(bytes);
    auto* data = owned.get();
    return counted(data, bytes, std::move(owned));
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// Pinned memory is host memory that remembers being asked for.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto owned = c10::GetCPUAllocator()->allocate(bytes);
    auto* data = owned.get();
    auto* block = new Block{data, std::move(owned)};
    {
      std::lock_guard<std::mutex> lock(mutex());
      starts().insert(data);
    }
    return {data, block, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static bool owns(const void* data) {
    std::lock_guard<std::mutex> lock(mutex());
    return starts().count(data) != 0;
  }

 private:
  struct Block {
    void* data;
    c10::DataPtr memory;
  };
  // Never destroyed: blocks may be freed while the process ends.
  static std::mutex& mutex() {
    static auto* value = new std::mutex;
    return *value;
  }
  static std::unordered_set<const void*>& starts() {
    static auto* value = new std::unordered_set<const void*>;
    return *value;
  }
  static void free_block(void* context) {
    auto* block = static_cast<Block*>(context);
    {
      std::lock_guard<std::mutex> lock(mutex());
      starts().erase(block->data);
    }
    delete block;
  }
};

HostAllocator host_allocator;
PinnedAllocator pinned;

VirtualGuard* guard() {
  // Leaked on purpose: the registry does not own it and may be used until the process ends.
  static auto* value = new VirtualGuard;
  return value;
}

} // namespace

bool active() {
  return is_active;
}

Capability capability() {
  return {capability_major, capability_minor};
}

c10::Allocator* allocator() {
  return &host_allocator;
}

c10::Allocator* pinned_allocator() {
  return &pinned;
}

bool is_pinned(const void* data) {
  return PinnedAllocator::owns(data);
}

void check_index(c10::Device device) {
  TORCH_CHECK(
      device.index() <= 0,
      "CUDA error: invalid device ordinal (the virtual device is cuda:0 alone, asked for ",
      device,
      ")");
}

void count_memory(int64_t bytes) {
  bytes_allocated.add(bytes);
  blocks_allocated.add(bytes > 0 ? 1 : bytes < 0 ? -1 : 0);
}

void refuse(const std::string& what) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fxregion_virtual::refuse", "")
                             .typed<void(c10::string_view)>();
  op.call(what);
}

void install_device() {
  auto& slot = c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)];
  own_guard = slot.exchange(guard());
  c10::SetAllocator(c10::DeviceType::CUDA, &host_allocator, 255);
}

} // namespace fxregion

#define FXREGION_EXPORT __attribute__((visibility("default")))

extern "C" {

// Null, or what went wrong; the text lives as long as the process.
FXREGION_EXPORT const char* fxregion_virtual_install() {
  static std::string message;
  try {
    fxregion::install_device();
    fxregion::install_operators();
    fxregion::install_attention();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

FXREGION_EXPORT void fxregion_virtual_activate(int major, int minor) {
  fxregion::capability_major = major;
  fxregion::capability_minor = minor;
  fxregion::is_active = true;
}

// Of bytes (0) or blocks (1): those there are (0), were at most (1), ever were (2).
FXREGION_EXPORT int64_t fxregion_virtual_memory(int blocks, int which) {
  return (blocks != 0 ? fxregion::blocks_allocated : fxregion::bytes_allocated).figure(which);
}

FXREGION_EXPORT void fxregion_virtual_reset_peak_memory() {
  fxregion::bytes_allocated.reset_peak();
  fxregion::blocks_allocated.reset_peak();
}

FXREGION_EXPORT void fxregion_virtual_deactivate() {
  fxregion::is_active = false;
}
}
