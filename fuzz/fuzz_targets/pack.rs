//! The reader of kernel packs on any bytes.
#![no_main]
use libfuzzer_sys::fuzz_target;
use warpwave_conformance::fuzz;

fuzz_target!(|data: &[u8]| {
    fuzz::run("pack", data, &fuzz::no_device);
});
