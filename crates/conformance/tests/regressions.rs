//! What a fuzzer once found, run again: the files of `fuzz/regressions/<target>`. The package of this crate alone has none.

use std::fs;
use std::path::Path;
use warpwave_conformance::fuzz::{TARGETS, replay};
use warpwave_cpu::{CpuDevice, WarpWidth};
use warpwave_hal::{Device, DeviceError};

fn open(name: &str, schedule: &str) -> Result<Box<dyn Device>, DeviceError> {
    let width = if name == "cpu:64" { WarpWidth::W64 } else { WarpWidth::W32 };
    Ok(Box::new(CpuDevice::new(width, schedule.parse()?)))
}

#[test]
fn regressions_stay_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    let mut run = 0;
    for target in TARGETS {
        let Ok(files) = fs::read_dir(folder.join(target)) else { continue };
        for file in files {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            replay(target, &text, &open).unwrap_or_else(|e| panic!("{}: {e}\n{text}", path.display()));
            run += 1;
        }
    }
    println!("{run} regressions");
    assert!(run > 0 || !folder.exists(), "{} is empty", folder.display());
}

#[test]
fn text_that_is_no_case_is_refused() {
    for (target, text) in [
        ("differential", "softmax x=f32[2,3]"),
        ("differential", "softmax x=f32[2,3] | family=spikes seed=1 device=cpu"),
        ("differential", "softmax x=f32[2,3] | family=spikes seed=1 device=cpu schedule=late speed=1"),
        ("differential", "softmax x=f32[2,3] axis=7 | family=spikes seed=1 device=cpu schedule=late"),
        ("plan", "softmax x=f32[2,3] | target=sm_1"),
        ("problem_string", "softmax"),
        ("hardmax", "softmax"),
    ] {
        assert!(replay(target, text, &open).is_err(), "{target}: {text}");
    }
    let good = "# a remark\nsoftmax x=f32[2,3] | family=spikes seed=1 device=cpu:64 schedule=3\n";
    replay("differential", good, &open).unwrap();
}
