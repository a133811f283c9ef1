//! Problem strings: read, printed and read again; what is read is planned.
#![no_main]
use libfuzzer_sys::fuzz_target;
use warpwave_conformance::fuzz;

fuzz_target!(|data: &[u8]| {
    fuzz::run("problem_string", data, &fuzz::no_device);
});
