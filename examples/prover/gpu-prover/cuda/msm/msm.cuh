// The multi-scalar product, sum of scalars[i] * points[i].
#pragma once

#include "host/cuda_call.hpp"
#include "msm/bucket.cuh"

namespace msm {

// The arrays are device memory; the result is on the host, and the kernels are done when it is there.
Status product(const uint64_t *scalars, const curve::Affine *points, uint32_t size, curve::Affine *result);

} // namespace msm
