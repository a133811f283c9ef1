//! `bench/compare.py` asks for problems that warpwave has, and has a plan for.

use std::path::Path;
use std::process::Command;
use warpwave_core::{DeviceCaps, Problem, Target, validate};

#[test]
fn every_row_of_compare_has_a_plan() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new("python3").args(["bench/compare.py", "--list"]).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() > 50, "{text}");
    let caps = DeviceCaps::typical(Target::Sm90a);
    for line in text.lines() {
        let p = Problem::parse(line, &warpwave_kernels::signature).unwrap_or_else(|e| panic!("{line}: {e}"));
        let op = warpwave_kernels::op(p.signature.op).unwrap();
        let p = validate(op, op.infer(p).unwrap_or_else(|e| panic!("{line}: {e}"))).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(!op.plans(&p, &caps).unwrap().is_empty(), "{line}");
    }
}
