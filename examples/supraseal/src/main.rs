//! Calls the CUDA library once. It asks for parameters that do not exist, so the answer is an error with or without a GPU.

use std::ffi::{c_char, c_int, c_void, CStr};

use blst as _; // links libblst.a, which the CUDA library's host code needs

#[repr(C)]
struct Answer {
    code: c_int,
    message: *const c_char,
}

extern "C" {
    fn create_SRS(srs: &mut *const c_void, path: *const c_char, cache: bool) -> Answer;
}

fn main() {
    let mut srs = std::ptr::null();
    let path = c"/nonexistent/parameters";
    let answer = unsafe { create_SRS(&mut srs, path.as_ptr(), false) };
    assert!(answer.code != 0 && !answer.message.is_null());
    let message = unsafe { CStr::from_ptr(answer.message) };
    let message = message.to_string_lossy();
    println!("libgroth16_cuda.a is linked; it says: {message}");
}
