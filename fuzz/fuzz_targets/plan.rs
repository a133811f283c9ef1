//! Any problem of any op for any target: an error or well-formed plans, never a panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use warpwave_conformance::fuzz;

fuzz_target!(|data: &[u8]| {
    fuzz::run("plan", data, &fuzz::no_device);
});
