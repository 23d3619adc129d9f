// The device's random numbers: CUDA's state (a seed and an offset), the CPU's stream of numbers.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <mutex>

namespace fxregion {

VirtualGenerator::VirtualGenerator(c10::intrusive_ptr<GeneratorState> state)
    : c10::GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::CUDA)),
      state_(std::move(state)) {}

void VirtualGenerator::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}
void VirtualGenerator::set_offset(uint64_t offset) {
  state_->offset = offset;
}
uint64_t VirtualGenerator::get_offset() const {
  return state_->offset;
}
uint64_t VirtualGenerator::current_seed() const {
  return state_->seed;
}
uint64_t VirtualGenerator::seed() {
  auto value = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(value);
  return value;
}

void VirtualGenerator::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(
      new_state.numel() == 16 || new_state.numel() == 8, "RNG state is wrong size: a CUDA generator's is 16 bytes");
  const auto* bytes = new_state.data_dtype_initialized<uint8_t>();
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::memcpy(&seed, bytes, 8);
  if (new_state.numel() == 16) {
    std::memcpy(&offset, bytes + 8, 8);
  }
  state_->seed = seed;
  state_->offset = offset;
}

c10::intrusive_ptr<c10::TensorImpl> VirtualGenerator::get_state() const {
  auto tensor = at::detail::empty_cpu(
      {16}, at::ScalarType::Byte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  auto* bytes = tensor.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &state_->seed, 8);
  std::memcpy(bytes + 8, &state_->offset, 8);
  return tensor.getIntrusivePtr();
}

void VirtualGenerator::graphsafe_set_state(
    const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  auto* other = dynamic_cast<VirtualGenerator*>(new_state.get());
  TORCH_CHECK(other != nullptr, "graphsafe_set_state takes a generator of the same device");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> VirtualGenerator::graphsafe_get_state() const {
  return c10::make_intrusive<VirtualGenerator>(state_);
}

VirtualGenerator* VirtualGenerator::clone_impl() const {
  auto state = c10::make_intrusive<GeneratorState>();
  state->seed = state_->seed;
  state->offset = state_->offset;
  return new VirtualGenerator(std::move(state));
}

std::pair<uint64_t, uint64_t> VirtualGenerator::advance() {
  std::lock_guard<std::mutex> lock(mutex_);
  auto before = std::make_pair(state_->seed, state_->offset);
  // CUDA moves on in fours (one philox counter); how many an operator takes depends on the launch.
  state_->offset += 4;
  return before;
}

const at::Generator& default_generator() {
  static auto* value = new at::Generator(
      at::make_generator<VirtualGenerator>(c10::make_intrusive<GeneratorState>()));
  return *value;
}

namespace {
// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
} // namespace

at::Generator host_generator(uint64_t seed, uint64_t offset) {
  return at::detail::createCPUGenerator(mix(mix(seed) + offset));
}

at::Generator next_host_generator(const std::optional<at::Generator>& generator) {
  const auto& chosen =
      generator.has_value() && generator->defined() ? *generator : default_generator();
  auto* own = dynamic_cast<VirtualGenerator*>(chosen.unsafeGetGeneratorImpl());
  TORCH_CHECK(
      own != nullptr,
      "Expected a 'cuda' device type for generator but found '",
      chosen.device().type(),
      "'");
  auto [seed, offset] = own->advance();
  return host_generator(seed, offset);
}

} // namespace fxregion
