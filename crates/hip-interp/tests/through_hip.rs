//! The whole path: conformance checks, `warpwave-hip`, this library loaded in place of `libamdhip64`, code objects that ship.

use std::path::PathBuf;
use std::sync::Arc;
use warpwave_conformance::check::{Depth, check};
use warpwave_conformance::exec::Runner;
use warpwave_core::{Family, Problem, validate};
use warpwave_hal::{Device, DeviceError, Images};

/// The library, which cargo builds beside this test.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    [deps.join("libamdhip64_interp.so"), deps.parent().unwrap().join("libamdhip64_interp.so")]
        .into_iter()
        .find(|p| p.is_file())
        .expect("cargo builds the library for its tests")
}

fn devices() -> Vec<Arc<dyn Device>> {
    warpwave_hip::interpreted_devices(&library(), Arc::new(Images::standard(&[]))).unwrap()
}

#[test]
fn devices_are_never_called_hardware() {
    let names: Vec<String> = devices().iter().map(|d| d.name()).collect();
    assert_eq!(names, ["hip-interp:gfx90a", "hip-interp:gfx942", "hip-interp:gfx1100"]);
    assert!(devices().iter().all(|d| d.model().contains("executed on the CPU")));
}

#[test]
fn memory_runs_out() {
    let d = &devices()[1];
    let half = d.allocate(3 << 30).unwrap();
    assert!(matches!(d.allocate(3 << 30), Err(DeviceError::OutOfMemory { .. })));
    drop(half);
    // what nobody holds comes back
    assert!(d.allocate(3 << 30).is_ok());
}

/// Problems whose kernels are in the set of `cargo xtask build --vendor hip --set ci`: the whole suite is the row `interp` of CI.
#[test]
fn shipped_kernels_are_right() {
    let problems = [
        "vector_add x=f32[70001]+3 y=f32[70001] out=f32[70001]+1",
        "softmax x=bf16[5,4096]:4097,1",
        "matmul a=bf16[65,129] b=bf16[129,200]",
        "rms_norm x=bf16[3,8192] w=bf16[8192]",
    ];
    for d in devices() {
        for text in problems {
            let p = Problem::parse(text, &warpwave_kernels::signature).unwrap();
            let op = warpwave_kernels::op(p.signature.op).unwrap();
            let p = validate(op, op.infer(p).unwrap()).unwrap();
            for family in [Family::Exact, Family::Normal, Family::Nonfinite] {
                let done = check(Runner::new(&*d), op, &p, family, 7, Depth::ALL)
                    .unwrap_or_else(|e| panic!("{}: {e} (kernels: cargo xtask build --vendor hip --set ci)", d.name()));
                assert!(done.runs > 0, "{}: {text}", d.name());
            }
        }
    }
}
