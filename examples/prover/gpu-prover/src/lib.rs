//! The CUDA library of `../cuda` as safe Rust. All `unsafe` is in `ffi`.
#![deny(unsafe_code)]

use std::fmt;

#[allow(unsafe_code)]
mod ffi;

pub use ffi::{device, prove, unit_tags};

/// A proof as the library returns it; points are affine coordinates, (0, 0) the one at infinity.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    pub commitment: [u64; 2],
    pub challenge: u64,
    pub value: u64,
    pub quotient: [u64; 2],
}

/// The GPU in use, and the device code that it picked from the program.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    /// `PROVER_BUILD_TAG` as a kernel sees it.
    pub kernel_tag: String,
    /// `__CUDA_ARCH__ / 10` of that kernel.
    pub kernel_arch: i32,
}

/// A CUDA call that failed.
#[derive(Clone, Debug)]
pub struct CudaError {
    pub code: i32,
    pub name: String,
    pub call: String,
}

impl CudaError {
    /// `cudaErrorInsufficientDriver`, which is also what no driver at all gives, or `cudaErrorNoDevice`.
    pub fn means_no_gpu(&self) -> bool {
        matches!(self.code, 35 | 100)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({}) from {}", self.name, self.code, self.call)
    }
}

impl std::error::Error for CudaError {}
