//! The same prover on the GPU, in the types of this crate.

use crate::curve::Point;
use crate::reference::{Proof, Setup};

pub use gpu_prover::{device, unit_tags, CudaError, Device};

pub fn prove(setup: &Setup, witness: &[u64]) -> Result<Proof, CudaError> {
    let bases: Vec<[u64; 2]> = setup.bases().iter().map(|base| base.coordinates()).collect();
    let proof = gpu_prover::prove(witness, &bases)?;
    Ok(Proof {
        commitment: Point::from_coordinates(proof.commitment),
        challenge: proof.challenge,
        value: proof.value,
        quotient: Point::from_coordinates(proof.quotient),
    })
}
