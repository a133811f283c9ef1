//! The reader of recorded cases on any text.
#![no_main]
use libfuzzer_sys::fuzz_target;
use warpwave_conformance::fuzz;

fuzz_target!(|data: &[u8]| {
    fuzz::run("cases", data, &fuzz::no_device);
});
