// Vectors of field elements, and the kernel that tells which source and arch it was compiled from.

#include "ff/vector.cuh"

namespace ff {

constexpr uint32_t THREADS = 128;

static uint32_t blocks_for(uint32_t size)
{
    return (size + THREADS - 1) / THREADS;
}

static __global__ void fill_powers(uint64_t base, uint64_t *result, uint32_t size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        result[i] = pow(base, i);
}

// One block: the vectors here are short, and a second launch to join blocks would cost more than it saves.
static __global__ void sum_products(const uint64_t *left, const uint64_t *right, uint64_t *result, uint32_t size)
{
    __shared__ uint64_t partial[THREADS];
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < size; i += THREADS)
        sum = add(sum, mul(left[i], right[i]));
    partial[threadIdx.x] = sum;
    for (uint32_t width = THREADS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            partial[threadIdx.x] = add(partial[threadIdx.x], partial[threadIdx.x + width]);
    }
    if (threadIdx.x == 0)
        *result = partial[0];
}

static __global__ void divide(const uint64_t *values, const uint64_t *domain, uint64_t value, uint64_t point,
                              uint64_t *result, uint32_t size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        result[i] = mul(sub(values[i], value), inverse(sub(domain[i], point)));
}

static __global__ void identify(KernelIdentity *result)
{
    const char tag[] = PROVER_BUILD_TAG;
    static_assert(sizeof tag <= sizeof result->tag, "PROVER_BUILD_TAG is too long");
    for (uint32_t i = 0; i < sizeof tag; ++i)
        result->tag[i] = tag[i];
#ifdef __CUDA_ARCH__
    result->arch = __CUDA_ARCH__ / 10;
#endif
}

Status powers(uint64_t base, uint64_t *result, uint32_t size)
{
    fill_powers<<<blocks_for(size), THREADS>>>(base, result, size);
    CUDA_TRY(cudaGetLastError());
    return OK;
}

Status inner_product(const uint64_t *left, const uint64_t *right, uint64_t *result, uint32_t size)
{
    sum_products<<<1, THREADS>>>(left, right, result, size);
    CUDA_TRY(cudaGetLastError());
    return OK;
}

Status quotient_values(const uint64_t *values, const uint64_t *domain, uint64_t value, uint64_t point, uint64_t *result,
                       uint32_t size)
{
    divide<<<blocks_for(size), THREADS>>>(values, domain, value, point, result, size);
    CUDA_TRY(cudaGetLastError());
    return OK;
}

Status kernel_identity(KernelIdentity *result)
{
    DeviceBuffer<KernelIdentity> identity;
    TRY(identity.allocate(1));
    identify<<<1, 1>>>(identity.get());
    CUDA_TRY(cudaGetLastError());
    return identity.download(result, 1);
}

} // namespace ff

extern "C" const char *gpu_prover_field_ops_tag()
{
    return PROVER_BUILD_TAG;
}
