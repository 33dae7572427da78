//! The curve y^2 = x^3 - 3x + 152 over the Goldilocks field, in affine coordinates with the chord-and-tangent rule.
//!
//! Its number of points is the prime `ORDER`, a little above 2^64, so every `u64` is a scalar as it stands.
//! 64 bits are a toy: discrete logarithms on it take seconds. The arithmetic is that of a real curve.

use crate::field::{add, inverse, mul, sub};

pub const A: u64 = crate::field::P - 3;
pub const B: u64 = 152;
pub const ORDER: u128 = 18_446_744_074_494_990_427;
pub const GENERATOR: Point = Point::Affine { x: 1, y: 720_570_442_737_253_120 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    Infinity,
    Affine { x: u64, y: u64 },
}

impl Point {
    pub fn plus(self, other: Point) -> Point {
        let (Point::Affine { x: x1, y: y1 }, Point::Affine { x: x2, y: y2 }) = (self, other) else {
            return if self == Point::Infinity { other } else { self };
        };
        let slope = if x1 != x2 {
            mul(sub(y2, y1), inverse(sub(x2, x1)))
        } else if y1 == y2 && y1 != 0 {
            mul(add(mul(3, mul(x1, x1)), A), inverse(add(y1, y1)))
        } else {
            return Point::Infinity;
        };
        let x = sub(mul(slope, slope), add(x1, x2));
        let y = sub(mul(slope, sub(x1, x)), y1);
        Point::Affine { x, y }
    }

    /// The two coordinates, with (0, 0), which is not on the curve, for the point at infinity.
    pub fn coordinates(self) -> [u64; 2] {
        match self {
            Point::Infinity => [0, 0],
            Point::Affine { x, y } => [x, y],
        }
    }

    pub fn from_coordinates(coordinates: [u64; 2]) -> Point {
        match coordinates {
            [0, 0] => Point::Infinity,
            [x, y] => Point::Affine { x, y },
        }
    }
}

/// The sum of scalars[i] * points[i], bit by bit from the top with shared doublings; the kernel sorts into buckets.
pub fn multi_scalar_product(scalars: &[u64], points: &[Point]) -> Point {
    assert_eq!(scalars.len(), points.len());
    (0..u64::BITS).rev().fold(Point::Infinity, |sum, bit| {
        let chosen = scalars.iter().zip(points).filter(|(&scalar, _)| scalar >> bit & 1 == 1);
        chosen.fold(sum.plus(sum), |sum, (_, &point)| sum.plus(point))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{witness, Setup};

    fn times(scalar: u128, point: Point) -> Point {
        (0..u128::BITS).rev().fold(Point::Infinity, |sum, bit| {
            let double = sum.plus(sum);
            if scalar >> bit & 1 == 1 {
                double.plus(point)
            } else {
                double
            }
        })
    }

    #[test]
    fn generator_is_on_the_curve_and_has_the_stated_order() {
        let Point::Affine { x, y } = GENERATOR else { panic!("the generator is infinite") };
        assert_eq!(mul(y, y), add(add(mul(mul(x, x), x), mul(A, x)), B));
        assert_eq!(times(ORDER, GENERATOR), Point::Infinity);
        assert_eq!(times(ORDER + 1, GENERATOR), GENERATOR);
    }

    #[test]
    fn addition_is_a_group_law_on_edge_cases() {
        let double = GENERATOR.plus(GENERATOR);
        let minus = times(ORDER - 1, GENERATOR);
        assert_eq!(GENERATOR.plus(minus), Point::Infinity);
        assert_eq!(Point::Infinity.plus(double), double);
        assert_eq!(double.plus(Point::Infinity), double);
        assert_eq!(double.plus(minus), GENERATOR);
        assert_eq!(double.plus(double), GENERATOR.plus(double).plus(GENERATOR));
    }

    #[test]
    fn coordinates_survive_the_round_trip() {
        for point in [Point::Infinity, GENERATOR] {
            assert_eq!(Point::from_coordinates(point.coordinates()), point);
        }
    }

    /// The setup's bases are known multiples of the generator, so one scalar says what the sum must be.
    #[test]
    fn multi_scalar_product_is_the_known_multiple() {
        let mut scalars = witness(3, 64);
        scalars[..3].copy_from_slice(&[0, 1, u64::MAX]);
        let sum = scalars.iter().zip(1..).fold(0, |sum, (&s, i)| (sum + u128::from(s) * i) % ORDER);
        let setup = Setup::new(6);
        assert_eq!(multi_scalar_product(&scalars, setup.bases()), times(sum, GENERATOR));
    }
}
