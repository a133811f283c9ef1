//! A problem of a stable op on the CPU device: every plan against the float64 reference, between guards, over poison.
#![no_main]
use libfuzzer_sys::fuzz_target;
use warpwave_conformance::fuzz;
use warpwave_cpu::{CpuDevice, WarpWidth};

fuzz_target!(|data: &[u8]| {
    fuzz::run("differential", data, &|name, schedule| {
        let width = if name == "cpu:64" { WarpWidth::W64 } else { WarpWidth::W32 };
        Ok(Box::new(CpuDevice::new(width, schedule.parse()?)))
    });
});
