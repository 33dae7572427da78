//! A small polynomial-commitment prover: on the CPU always, on the GPU with the feature `cuda`.
#![forbid(unsafe_code)]

pub mod curve;
pub mod field;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod polynomial;
pub mod reference;
