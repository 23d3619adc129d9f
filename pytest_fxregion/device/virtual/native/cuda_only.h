// Operators that only CUDA has, or whose choice of a kernel looks at the device.
#pragma once

#include <torch/library.h>

namespace fxregion {

// Registers them in a library of `aten` kernels for CUDA.
void install_cuda_only_operators(torch::Library& aten);

} // namespace fxregion
