// The number-theoretic transform.
#pragma once

#include "ff/field.cuh"
#include "host/cuda_call.hpp"

namespace ntt {

// From values at w^0, w^1, ... to coefficients; `domain` holds those powers of w. All three are device memory of
// 2^log_size elements, log_size >= 1.
Status inverse(const uint64_t *values, const uint64_t *domain, uint64_t *coefficients, uint32_t log_size);

} // namespace ntt
