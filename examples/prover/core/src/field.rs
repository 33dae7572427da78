//! The Goldilocks field, p = 2^64 - 2^32 + 1, by the book: a 128-bit product and a remainder.
//!
//! The kernels reduce with shifts and carries instead. This module must not: the reference is worth something only
//! while it shares no trick with what it checks.

pub const P: u64 = 0xffff_ffff_0000_0001;

/// p - 1 = 2^32 * (2^32 - 1), so there are roots of unity for every power of two up to 2^32.
pub const TWO_ADICITY: u32 = 32;

/// Generates the multiplicative group.
const GENERATOR: u64 = 7;

pub fn add(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) + u128::from(b))
}

pub fn sub(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) + u128::from(P) - u128::from(b))
}

pub fn mul(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) * u128::from(b))
}

pub fn pow(base: u64, exponent: u64) -> u64 {
    (0..u64::BITS).rev().fold(1, |power, bit| {
        let square = mul(power, power);
        if exponent >> bit & 1 == 1 {
            mul(square, base)
        } else {
            square
        }
    })
}

/// By Fermat's little theorem; the inverse of 0 comes out as 0.
pub fn inverse(a: u64) -> u64 {
    pow(a, P - 2)
}

/// A primitive root of unity of order 2^log_order.
pub fn root_of_unity(log_order: u32) -> u64 {
    assert!(log_order <= TWO_ADICITY);
    pow(GENERATOR, (P - 1) >> log_order)
}

fn reduce(a: u128) -> u64 {
    u64::try_from(a % u128::from(P)).expect("a remainder by p fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [u64; 7] = [0, 1, 2, 0xffff_ffff, 0x1_0000_0000, 0x0123_4567_89ab_cdef, P - 1];

    #[test]
    fn laws_hold_on_edge_values() {
        for a in SAMPLES {
            assert_eq!(sub(add(a, 5), 5), a);
            assert_eq!(add(a, sub(0, a)), 0);
            assert_eq!(mul(a, inverse(a)), u64::from(a != 0));
            for b in SAMPLES {
                assert_eq!(mul(a, b), mul(b, a));
                assert_eq!(mul(a, add(b, 3)), add(mul(a, b), mul(a, 3)));
            }
        }
    }

    #[test]
    fn known_products() {
        assert_eq!(mul(1 << 32, 1 << 32), 0xffff_ffff); // 2^64 = 2^32 - 1
        assert_eq!(mul(P - 1, P - 1), 1);
        assert_eq!(mul(0xffff_ffff, 1 << 32), P - 1); // 2^64 - 2^32 = -1
    }

    #[test]
    fn roots_of_unity_are_primitive() {
        for log_order in 1..=TWO_ADICITY {
            assert_eq!(pow(root_of_unity(log_order), 1 << (log_order - 1)), P - 1);
        }
    }
}
