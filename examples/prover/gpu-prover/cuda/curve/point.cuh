// The curve y^2 = x^3 - 3x + 152. Its order is the prime 2^64 + 785438811, so every uint64_t is a scalar as it stands.
// A toy for its size, not for its arithmetic.
#pragma once

#include "ff/field.cuh"

namespace curve {

constexpr uint64_t B = 152;

// (0, 0), which is not on the curve, is the point at infinity.
struct Affine {
    uint64_t x, y;
};

// x = X/Z and y = Y/Z; Z is 0 at infinity.
struct Projective {
    uint64_t x, y, z;
};

__host__ __device__ inline Projective infinity()
{
    return {0, 1, 0};
}

__host__ __device__ inline Projective projective(Affine a)
{
    return a.x == 0 && a.y == 0 ? infinity() : Projective{a.x, a.y, 1};
}

__host__ __device__ inline Affine affine(Projective p)
{
    const uint64_t scale = ff::inverse(p.z); // 0 at infinity, which gives (0, 0)
    return {ff::mul(p.x, scale), ff::mul(p.y, scale)};
}

// The complete addition law for a = -3 and odd order (Renes, Costello, Batina 2015): one formula for sums, doubles and
// infinity, so that threads of a warp never part ways.
__host__ __device__ inline Projective add(Projective p, Projective q)
{
    using ff::add, ff::sub, ff::mul;
    const uint64_t xx = mul(p.x, q.x), yy = mul(p.y, q.y), zz = mul(p.z, q.z);
    const uint64_t xy = sub(mul(add(p.x, p.y), add(q.x, q.y)), add(xx, yy));
    const uint64_t yz = sub(mul(add(p.y, p.z), add(q.y, q.z)), add(yy, zz));
    const uint64_t xz = sub(mul(add(p.x, p.z), add(q.x, q.z)), add(xx, zz));
    const uint64_t zz3 = add(add(zz, zz), zz);
    const uint64_t u = sub(xz, mul(B, zz));
    const uint64_t u3 = add(add(u, u), u);
    const uint64_t minus = sub(yy, u3), plus = add(yy, u3);
    const uint64_t v = sub(sub(mul(B, xz), zz3), xx);
    const uint64_t v3 = add(add(v, v), v);
    const uint64_t w = sub(add(add(xx, xx), xx), zz3);
    return {sub(mul(plus, xy), mul(yz, v3)), add(mul(plus, minus), mul(w, v3)), add(mul(minus, yz), mul(xy, w))};
}

} // namespace curve
