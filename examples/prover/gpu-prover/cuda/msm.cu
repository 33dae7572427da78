// Pippenger's method: buckets by digit, buckets to window sums, window sums to the result.

#include "msm/msm.cuh"

namespace msm {

using curve::Projective;

// One thread a bucket. It reads all scalars: more work than sorting them first, but no atomics, the same order of
// additions each time, and short vectors hardly notice.
static __global__ void fill_buckets(const uint64_t *scalars, const curve::Affine *points, uint32_t size,
                                    Projective *buckets)
{
    const uint32_t window = blockIdx.x;
    const uint32_t bucket = threadIdx.x;
    if (bucket >= BUCKETS)
        return;
    Projective sum = curve::infinity();
    for (uint32_t i = 0; i < size; ++i)
        if (digit(scalars[i], window) == bucket + 1)
            sum = curve::add(sum, curve::projective(points[i]));
    buckets[window * BUCKETS + bucket] = sum;
}

// One thread a window: sum of (bucket + 1) * buckets[bucket], from the top with a running sum.
static __global__ void sum_windows(const Projective *buckets, Projective *windows)
{
    const uint32_t window = threadIdx.x;
    Projective running = curve::infinity(), sum = curve::infinity();
    for (uint32_t bucket = BUCKETS; bucket-- > 0;) {
        running = curve::add(running, buckets[window * BUCKETS + bucket]);
        sum = curve::add(sum, running);
    }
    windows[window] = sum;
}

Status product(const uint64_t *scalars, const curve::Affine *points, uint32_t size, curve::Affine *result)
{
    DeviceBuffer<Projective> buckets, windows;
    TRY(buckets.allocate(WINDOWS * BUCKETS));
    TRY(windows.allocate(WINDOWS));
    fill_buckets<<<WINDOWS, BUCKETS + 1>>>(scalars, points, size, buckets.get());
    CUDA_TRY(cudaGetLastError());
    sum_windows<<<1, WINDOWS>>>(buckets.get(), windows.get());
    CUDA_TRY(cudaGetLastError());

    // 64 doublings in a row are a wait for a GPU thread and nothing for the host.
    Projective sums[WINDOWS];
    TRY(windows.download(sums, WINDOWS));
    Projective total = curve::infinity();
    for (uint32_t window = WINDOWS; window-- > 0;) {
        for (uint32_t bit = 0; bit < WINDOW_BITS; ++bit)
            total = curve::add(total, total);
        total = curve::add(total, sums[window]);
    }
    *result = curve::affine(total);
    return OK;
}

} // namespace msm

extern "C" const char *gpu_prover_msm_tag()
{
    return PROVER_BUILD_TAG;
}
