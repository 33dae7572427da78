// The product for Hopper and newer: mul_generic.cuh's arithmetic with the carries taken from the condition code.
#pragma once

#include <cstdint>

namespace ff::arch {

__device__ inline uint64_t mul(uint64_t a, uint64_t b)
{
    constexpr uint64_t e = 0xffffffff;
    const uint64_t low = a * b;
    const uint64_t top = __umul64hi(a, b);
    uint64_t sum, mask;
    // 0 - 0 - borrow is all ones after a borrow, and its lower half is then the e to take away.
    asm("sub.cc.u64 %0, %2, %3;\n\t"
        "subc.u64 %1, 0, 0;"
        : "=&l"(sum), "=l"(mask)
        : "l"(low), "l"(top >> 32));
    sum -= mask & e;
    asm("add.cc.u64 %0, %2, %3;\n\t"
        "addc.u64 %1, 0, 0;"
        : "=&l"(sum), "=l"(mask)
        : "l"(sum), "l"((top & e) * e));
    sum += (0 - mask) & e;
    return sum >= 0xffffffff00000001 ? sum - 0xffffffff00000001 : sum;
}

} // namespace ff::arch
