//! The whole path: conformance suite, `warpwave-hip`, this library loaded in place of `libamdhip64`, code objects that ship.

use std::path::PathBuf;
use std::sync::Arc;
use warpwave_conformance::suite::{self, Set, Status};
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

/// Needs the kernels of `cargo xtask build --vendor hip --set ci`.
#[test]
fn shipped_kernels_pass_the_suite() {
    for d in devices() {
        let mut options = suite::Options::new(Set::Quick);
        options.ops = vec!["vector_add".into(), "softmax".into(), "matmul".into()];
        options.skip_big = true;
        let report = suite::suite(&*d, &options, &mut |_| {});
        let failed: Vec<_> = report.checks.iter().filter(|c| c.status == Status::Failed).collect();
        assert!(failed.is_empty(), "{}: {failed:#?}", d.name());
        assert!(report.checks.iter().map(|c| c.runs).sum::<u64>() > 20, "{}: no kernel is built: cargo xtask build --vendor hip --set ci", d.name());
    }
}
