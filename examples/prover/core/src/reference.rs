//! The prover on the CPU: slow, plain, and what the GPU's result is held against.

use crate::curve::{multi_scalar_product, Point, GENERATOR};
use crate::{field, polynomial};

/// The points that coefficients are committed with: 1, 2, 3, ... times the generator.
///
/// A real setup's points have multiples that nobody knows; here they are known, so that tests can check the sums.
pub struct Setup {
    bases: Vec<Point>,
}

impl Setup {
    pub fn new(log_size: u32) -> Setup {
        let next = |&point: &Point| Some(point.plus(GENERATOR));
        Setup { bases: std::iter::successors(Some(GENERATOR), next).take(1 << log_size).collect() }
    }

    pub fn bases(&self) -> &[Point] {
        &self.bases
    }
}

/// A commitment to the polynomial that takes the witness's values, and its opening at a point the commitment decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub commitment: Point,
    pub challenge: u64,
    pub value: u64,
    pub quotient: Point,
}

/// Field elements that depend on the seed alone (splitmix64).
pub fn witness(seed: u64, length: usize) -> Vec<u64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % field::P
    };
    std::iter::repeat_with(next).take(length).collect()
}

pub fn prove(setup: &Setup, witness: &[u64]) -> Proof {
    let coefficients = polynomial::interpolate(witness);
    let commitment = multi_scalar_product(&coefficients, setup.bases());
    let challenge = challenge(commitment);
    Proof {
        commitment,
        challenge,
        value: polynomial::evaluate(&coefficients, challenge),
        quotient: multi_scalar_product(&polynomial::quotient(&coefficients, challenge), setup.bases()),
    }
}

/// Stands where a real prover hashes its transcript.
fn challenge(commitment: Point) -> u64 {
    let [x, y] = commitment.coordinates();
    field::pow(field::add(x, field::mul(7, y)), 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_depends_on_every_value_of_the_witness() {
        let setup = Setup::new(3);
        let values = witness(11, 8);
        let proof = prove(&setup, &values);
        assert_eq!(prove(&setup, &values), proof);
        for i in 0..values.len() {
            let mut other = values.clone();
            other[i] = field::add(other[i], 1);
            assert_ne!(prove(&setup, &other), proof);
        }
    }

    /// A constant polynomial: the commitment is a multiple of the first base, and nothing is left to divide.
    #[test]
    fn constant_witness_is_committed_to_with_one_base() {
        let setup = Setup::new(2);
        let proof = prove(&setup, &[3; 4]);
        assert_eq!(proof.commitment, setup.bases()[2]);
        assert_eq!(proof.value, 3);
        assert_eq!(proof.quotient, Point::Infinity);
    }
}
