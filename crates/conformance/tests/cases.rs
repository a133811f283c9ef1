//! The recorded cases on the CPU device. `WARPWAVE_CASES=medium` or `big` asks for the larger ones, up to 4.3 GB of memory.

use warpwave_conformance::cases::{FIELD, Options, Outcome, Size, TEXTBOOK, parse, run_all};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};

#[test]
fn every_case_of_an_op_of_this_build_holds() {
    let largest = match std::env::var("WARPWAVE_CASES").as_deref() {
        Ok("big") => Size::Big,
        Ok("medium") => Size::Medium,
        _ => Size::Small,
    };
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    for file in [TEXTBOOK, FIELD] {
        let summary = run_all(&device, &parse(file).unwrap(), &Options { largest }, &mut |r| {
            if r.outcome != Outcome::Unsupported {
                println!("{:>8.2} s {} {}: {:?}", r.seconds, r.id, r.op, r.outcome);
            }
        });
        println!("{summary}");
        assert_eq!(summary.failed(), 0, "{summary}");
    }
}
