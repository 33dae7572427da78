//! Times the CPU reference; it needs no CUDA and must build where there is none.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use prover_core::{curve, polynomial, reference};

const LOG_SIZE: u32 = 8;

fn main() {
    let setup = reference::Setup::new(LOG_SIZE);
    let witness = reference::witness(1, 1 << LOG_SIZE);
    println!("prover-bench {} (CPU reference, {} values)", env!("CARGO_PKG_VERSION"), witness.len());
    time("interpolate", || polynomial::interpolate(&witness));
    time("multi-scalar product", || curve::multi_scalar_product(&witness, setup.bases()));
    time("prove", || reference::prove(&setup, &witness));
}

fn time<T>(what: &str, work: impl Fn() -> T) {
    let start = Instant::now();
    black_box(work());
    println!("{what}: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
}
