//! The suite on the CPU device, in both warp widths.

use warpwave_conformance::check::compare;
use warpwave_conformance::exec::Runner;
use warpwave_conformance::generate::Family;
use warpwave_conformance::suite::{Options, Set, Status, random, suite};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};

/// `WARPWAVE_SUITE=ci` or `full` asks for more.
fn holds(width: WarpWidth, schedule: Schedule) {
    let set: Set = std::env::var("WARPWAVE_SUITE").map_or(Set::Quick, |s| s.parse().unwrap());
    let report = suite(&CpuDevice::new(width, schedule), &Options::new(set), &mut |c| {
        if c.status != Status::Unsupported {
            println!("{:>8.2} s {:?} {} ({} problems, {} runs)", c.seconds, c.status, c.name, c.problems, c.runs);
        }
    });
    println!("{report}");
    assert!(report.ok(), "{report}");
    assert!(report.count(Status::Passed) > 40);
}

#[test]
fn suite_with_warps_of_32() {
    holds(WarpWidth::W32, Schedule::Late);
}

#[test]
fn suite_with_warps_of_64() {
    holds(WarpWidth::W64, Schedule::Seed(7));
}

#[test]
fn widths_agree() {
    let (a, b) = (CpuDevice::new(WarpWidth::W32, Schedule::Late), CpuDevice::new(WarpWidth::W64, Schedule::Eager));
    for name in ["vector_add", "softmax", "log_softmax", "matmul"] {
        let op = warpwave_kernels::op(name).unwrap();
        for family in Family::ALL {
            for (seed, p) in random(op, 31, 10, 1 << 12) {
                compare(Runner::new(&a), Runner::new(&b), op, &p, family, seed).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}
