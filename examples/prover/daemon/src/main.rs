//! Proves a few inputs and checks them against the CPU reference: `prover-daemon [INPUTS [LOG_SIZE]]`.
//!
//! Exit status: 0 proved, or no GPU to prove on (the line `no GPU: ...` tells them apart), 1 failed, 2 bad arguments.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use prover_core::reference::{self, Proof, Setup};

/// Already a second or two an input for the CPU reference.
const MAX_LOG_SIZE: u32 = 14;

struct Job {
    inputs: u64,
    log_size: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(job) = job(&arguments) else {
        eprintln!("usage: prover-daemon [INPUTS [LOG_SIZE]], LOG_SIZE from 1 to {MAX_LOG_SIZE}");
        return ExitCode::from(2);
    };
    println!("prover-daemon {}", env!("CARGO_PKG_VERSION"));
    match run(&job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn job(arguments: &[String]) -> Option<Job> {
    let (inputs, log_size) = match arguments {
        [] => (4, 8),
        [inputs] => (inputs.parse().ok()?, 8),
        [inputs, log_size] => (inputs.parse().ok()?, log_size.parse().ok()?),
        _ => return None,
    };
    (1..=MAX_LOG_SIZE).contains(&log_size).then_some(Job { inputs, log_size })
}

#[cfg(not(feature = "cuda"))]
fn run(job: &Job) -> Result<(), String> {
    println!("built without the feature cuda: proving with the CPU reference");
    let setup = Setup::new(job.log_size);
    for input in 0..job.inputs {
        print_proof(input, &reference::prove(&setup, &reference::witness(input, 1 << job.log_size)));
    }
    Ok(())
}

#[cfg(feature = "cuda")]
fn run(job: &Job) -> Result<(), String> {
    use prover_core::gpu;

    let tags = gpu::unit_tags().map(|(unit, tag)| format!("{unit}={tag}"));
    println!("cuda units: {}", tags.join(" "));
    match gpu::device() {
        Ok(device) => println!("gpu: {}, kernels {} for sm_{}", device.name, device.kernel_tag, device.kernel_arch),
        Err(error) if error.means_no_gpu() => {
            println!("no GPU: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    }
    let setup = Setup::new(job.log_size);
    for input in 0..job.inputs {
        let witness = reference::witness(input, 1 << job.log_size);
        let proof = gpu::prove(&setup, &witness).map_err(|error| error.to_string())?;
        print_proof(input, &proof);
        let expected = reference::prove(&setup, &witness);
        if proof != expected {
            return Err(format!("gpu result differs from the CPU reference on input {input}, expected {expected:x?}"));
        }
    }
    println!("gpu result matches the CPU reference ({} inputs of {} values)", job.inputs, 1 << job.log_size);
    Ok(())
}

fn print_proof(input: u64, proof: &Proof) {
    let [x, y] = proof.commitment.coordinates();
    println!("input {input}: commitment {x:016x}:{y:016x} value {:016x}", proof.value);
}
