// The product on the host, where the compiler has 128-bit integers.
#pragma once

#include <cstdint>

namespace ff::arch {

// __device__ is for the compiler, which wants to see it on all that a __host__ __device__ function calls.
__host__ __device__ inline uint64_t mul(uint64_t a, uint64_t b)
{
    return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % 0xffffffff00000001);
}

} // namespace ff::arch
