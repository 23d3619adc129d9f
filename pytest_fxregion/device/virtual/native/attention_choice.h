// Which attention operator CUDA would take.
#pragma once

#include <ATen/core/Tensor.h>

namespace fxregion {

// Value of `at::SDPBackend`; raises when the user's settings leave none that can be used.
int64_t choose_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
    std::optional<double> scale, bool enable_gqa);

} // namespace fxregion
