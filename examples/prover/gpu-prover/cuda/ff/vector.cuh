// Vectors of field elements. All pointers are device memory.
#pragma once

#include "ff/field.cuh"
#include "host/cuda_call.hpp"

namespace ff {

// base^0, base^1, ..., base^(size - 1)
Status powers(uint64_t base, uint64_t *result, uint32_t size);

// The sum of left[i] * right[i], to one element.
Status inner_product(const uint64_t *left, const uint64_t *right, uint64_t *result, uint32_t size);

// (values[i] - value) / (domain[i] - point): the quotient polynomial's values on the domain, where the point is not.
Status quotient_values(const uint64_t *values, const uint64_t *domain, uint64_t value, uint64_t point, uint64_t *result,
                       uint32_t size);

// What the device code says about itself.
struct KernelIdentity {
    char tag[32];
    int arch;
};

Status kernel_identity(KernelIdentity *result);

} // namespace ff
