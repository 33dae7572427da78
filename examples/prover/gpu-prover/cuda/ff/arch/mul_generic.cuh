// The product on any GPU, in plain C++.
#pragma once

#include <cstdint>

namespace ff::arch {

// With e = 2^32 - 1: 2^64 = e and 2^96 = -1 modulo p, so a product of words [high:32, middle:32, low:64] is
// low - high + middle * e. A borrow or a carry is worth 2^64 = e, and correcting it cannot cause another.
__device__ inline uint64_t mul(uint64_t a, uint64_t b)
{
    constexpr uint64_t e = 0xffffffff;
    const uint64_t low = a * b;
    const uint64_t top = __umul64hi(a, b);
    const uint64_t high = top >> 32;
    uint64_t sum = low - high;
    if (low < high)
        sum -= e;
    const uint64_t folded = (top & e) * e;
    sum += folded;
    if (sum < folded)
        sum += e;
    return sum >= 0xffffffff00000001 ? sum - 0xffffffff00000001 : sum;
}

} // namespace ff::arch
