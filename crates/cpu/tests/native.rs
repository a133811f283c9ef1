//! The C++ tests of the host target (`tests/native`): primitives, conversions, ops under every schedule, and bugs that must be reported.

use std::path::Path;
use std::process::Command;

#[test]
fn native() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native/build.sh");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
    let run = Command::new("sh").arg(script).arg(out).env("WARPWAVE_INCLUDE", warpwave_kernels::INCLUDE_DIR).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains(" passed, 0 failed"), "{said}{errors}");
    println!("{said}");
}
