// The prover: host code that runs the other units' kernels in order.

#include "prover.cuh"

#include <cstring>

// Stands where a real prover hashes its transcript.
static uint64_t challenge(curve::Affine commitment)
{
    return ff::pow(ff::add(commitment.x, ff::mul(7, commitment.y)), 7);
}

// Coefficients from values, and the commitment to them.
static Status commit(const DeviceBuffer<uint64_t> &values, const DeviceBuffer<uint64_t> &domain,
                     const DeviceBuffer<curve::Affine> &bases, uint32_t log_size, DeviceBuffer<uint64_t> &coefficients,
                     curve::Affine *commitment)
{
    TRY(ntt::inverse(values.get(), domain.get(), coefficients.get(), log_size));
    return msm::product(coefficients.get(), bases.get(), 1u << log_size, commitment);
}

extern "C" Status gpu_prover_prove(const uint64_t *evaluations, const curve::Affine *bases, uint32_t log_size,
                                   Proof *proof)
{
    const uint32_t size = 1u << log_size;
    DeviceBuffer<uint64_t> values, domain, coefficients, point_powers, value;
    DeviceBuffer<curve::Affine> points;
    TRY(values.upload(evaluations, size));
    TRY(points.upload(bases, size));
    TRY(domain.allocate(size));
    TRY(coefficients.allocate(size));
    TRY(point_powers.allocate(size));
    TRY(value.allocate(1));

    TRY(ff::powers(ff::pow(ff::GENERATOR, (ff::P - 1) >> log_size), domain.get(), size));
    TRY(commit(values, domain, points, log_size, coefficients, &proof->commitment));

    proof->challenge = challenge(proof->commitment);
    TRY(ff::powers(proof->challenge, point_powers.get(), size));
    TRY(ff::inner_product(coefficients.get(), point_powers.get(), value.get(), size));
    TRY(value.download(&proof->value, 1));

    // In place: each thread reads and writes its own element.
    TRY(ff::quotient_values(values.get(), domain.get(), proof->value, proof->challenge, values.get(), size));
    return commit(values, domain, points, log_size, coefficients, &proof->quotient);
}

extern "C" Status gpu_prover_device(Device *device)
{
    int count = 0;
    CUDA_TRY(cudaGetDeviceCount(&count));
    cudaDeviceProp properties;
    CUDA_TRY(cudaGetDeviceProperties(&properties, 0));
    ff::KernelIdentity identity;
    TRY(ff::kernel_identity(&identity));
    static_assert(sizeof device->name == sizeof properties.name && sizeof device->kernel_tag == sizeof identity.tag);
    memcpy(device->name, properties.name, sizeof device->name);
    memcpy(device->kernel_tag, identity.tag, sizeof device->kernel_tag);
    device->kernel_arch = identity.arch;
    return OK;
}

extern "C" const char *gpu_prover_error_name(int code)
{
    return cudaGetErrorName(static_cast<cudaError_t>(code));
}

extern "C" const char *gpu_prover_tag()
{
    return PROVER_BUILD_TAG;
}
