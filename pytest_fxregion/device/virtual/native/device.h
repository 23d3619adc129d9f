// What the parts of the library share: the device, whether it is in use, its generator.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/GeneratorImpl.h>
#include <torch/headeronly/version.h>

// 215 for torch 2.15.
#define FXREGION_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

namespace fxregion {

// cuDNN of this torch's CUDA wheels; the same for its CPU build, whose graphs are to be the same.
constexpr long kCudnnOfWheels =
    FXREGION_TORCH >= 215 ? 92600 : FXREGION_TORCH >= 214 ? 92400 : 91900;

// One device, always index 0; every process (each xdist worker) has its own.
inline const c10::Device kDevice{c10::DeviceType::CUDA, 0};

// True inside `activate(arch)`.  Outside, the hooks answer what this torch's own do; tensors made
// inside stay usable.
bool active();

// Compute capability of the named architecture, for the choices that ATen makes by it.
struct Capability {
  int major;
  int minor;
};
Capability capability();

c10::Allocator* allocator();

// Pinned memory is host memory that remembers being asked for.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

// Raises for any other device than cuda:0.
void check_index(c10::Device device);

void count_memory(int64_t bytes);

// Raises DeviceError in Python, naming what cannot be done; `torch::Library` has its operator.
void refuse(const std::string& what);

template <typename Owner>
struct CountedBlock {
  CountedBlock(Owner owner, size_t size)
      : memory(std::move(owner)), bytes(static_cast<int64_t>((size + 511) / 512 * 512)) {
    count_memory(bytes);
  }
  ~CountedBlock() {
    count_memory(-bytes);
  }
  CountedBlock(const CountedBlock&) = delete;
  CountedBlock& operator=(const CountedBlock&) = delete;
  Owner memory;
  int64_t bytes;
};

// Memory that `owner` keeps alive, as the device's; counted until it is freed, in blocks of 512
// bytes as CUDA's caching allocator counts.
template <typename Owner>
c10::DataPtr counted(void* data, size_t bytes, Owner owner) {
  auto free_block = [](void* context) { delete static_cast<CountedBlock<Owner>*>(context); };
  return {data, new CountedBlock<Owner>(std::move(owner), bytes), free_block, kDevice};
}

// A CUDA generator's state is a seed and an offset; clones made by `graphsafe_get_state` share it.
struct GeneratorState final : c10::intrusive_ptr_target {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
};

class VirtualGenerator final : public c10::GeneratorImpl {
 public:
  explicit VirtualGenerator(c10::intrusive_ptr<GeneratorState> state);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  static c10::DeviceType device_type() {
    return c10::DeviceType::CUDA;
  }

  // The (seed, offset) that the next random operator uses; moves the offset on.
  std::pair<uint64_t, uint64_t> advance();

 private:
  VirtualGenerator* clone_impl() const override;
  c10::intrusive_ptr<GeneratorState> state_;
};

const at::Generator& default_generator();

// A CPU generator whose stream is a function of (seed, offset) alone.
at::Generator host_generator(uint64_t seed, uint64_t offset);
at::Generator next_host_generator(const std::optional<at::Generator>& generator);

// Registration that a CUDA build's own libraries would undo when they load, done after them.
void install_device();
void install_operators();
void install_attention();

} // namespace fxregion
