//! Mirrors `cuda/prover.cuh`. Keep the two side by side when either changes.

use std::ffi::{c_char, c_int, CStr};

use crate::{CudaError, Device, Proof};

#[repr(C)]
struct Status {
    code: c_int,
    /// The failed call's text; null if none failed.
    call: *const c_char,
}

#[repr(C)]
struct RawDevice {
    name: [c_char; 256],
    kernel_tag: [c_char; 32],
    kernel_arch: c_int,
}

extern "C" {
    fn gpu_prover_device(device: *mut RawDevice) -> Status;
    fn gpu_prover_prove(evaluations: *const u64, bases: *const [u64; 2], log_size: u32, proof: *mut Proof) -> Status;
    fn gpu_prover_error_name(code: c_int) -> *const c_char;
    fn gpu_prover_tag() -> *const c_char;
    fn gpu_prover_ntt_tag() -> *const c_char;
    fn gpu_prover_msm_tag() -> *const c_char;
    fn gpu_prover_field_ops_tag() -> *const c_char;
}

/// `PROVER_BUILD_TAG` as each CUDA unit was compiled with it; needs no GPU.
pub fn unit_tags() -> [(&'static str, &'static str); 4] {
    // SAFETY: the functions take nothing, touch no state and return string literals.
    let tags = unsafe { [gpu_prover_tag(), gpu_prover_ntt_tag(), gpu_prover_msm_tag(), gpu_prover_field_ops_tag()] };
    let [prover, ntt, msm, field_ops] = tags.map(|tag| {
        // SAFETY: a literal of the library is terminated and lives as long as the program.
        unsafe { CStr::from_ptr(tag) }.to_str().expect("the tag is ASCII")
    });
    [("prover", prover), ("ntt", ntt), ("msm", msm), ("field_ops", field_ops)]
}

/// Asks the first GPU, by running a kernel on it.
pub fn device() -> Result<Device, CudaError> {
    let mut raw = RawDevice { name: [0; 256], kernel_tag: [0; 32], kernel_arch: 0 };
    // SAFETY: `raw` has the layout of the library's `Device` and outlives the call.
    check(unsafe { gpu_prover_device(&mut raw) })?;
    Ok(Device { name: text(&raw.name), kernel_tag: text(&raw.kernel_tag), kernel_arch: raw.kernel_arch })
}

/// Proves on the first GPU.
///
/// # Panics
/// If there is not one base for each evaluation, or their number is not a power of two from 2 to 2^20.
pub fn prove(evaluations: &[u64], bases: &[[u64; 2]]) -> Result<Proof, CudaError> {
    assert_eq!(evaluations.len(), bases.len());
    assert!(evaluations.len().is_power_of_two(), "{} is not a power of two", evaluations.len());
    let log_size = evaluations.len().ilog2();
    assert!((1..=20).contains(&log_size), "{} values are too few or too many", evaluations.len());
    let mut proof = Proof::default();
    // SAFETY: both arrays have 2^log_size elements, as asserted; the library only reads them, and only during the call.
    check(unsafe { gpu_prover_prove(evaluations.as_ptr(), bases.as_ptr(), log_size, &mut proof) })?;
    Ok(proof)
}

fn check(status: Status) -> Result<(), CudaError> {
    if status.code == 0 {
        return Ok(());
    }
    // SAFETY: CUDA answers any code with a static string.
    let name = unsafe { static_text(gpu_prover_error_name(status.code)) };
    // SAFETY: the library gives the text of the failed call as a literal.
    let call = unsafe { static_text(status.call) };
    Err(CudaError { code: status.code, name, call })
}

/// # Safety
/// `pointer` is null or points to a terminated string that is never changed or freed.
unsafe fn static_text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The text up to the first zero byte, or all of the array.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|&c| c as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
