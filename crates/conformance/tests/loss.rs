//! Edges of the loss: labels out of range, rows that do not count, rows that hold no number.
#![allow(clippy::unwrap_used, reason = "tests")]

use warpwave_conformance::exec::{Fault, Image, Options, Output, Runner};
use warpwave_conformance::oracle::{Reference, Tolerance};
use warpwave_core::{Op, Problem, Source, TensorDesc, Valid, validate};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};

const V: u64 = 9;

fn problem(text: &str) -> (&'static dyn Op, Valid) {
    let op = warpwave_kernels::op(text.split(' ').next().unwrap()).unwrap();
    let p = Problem::parse(text, &warpwave_kernels::signature).unwrap();
    (op, validate(op, op.infer(p).unwrap()).unwrap())
}

/// Runs every plan with the inputs given, and checks each against the reference.
fn run(text: &str, inputs: &[(&str, &(dyn Fn(u64) -> f64 + Sync))]) -> Vec<Vec<Output>> {
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let (op, p) = problem(text);
    let options = Options::default();
    let find = |o: usize| inputs.iter().find(|(n, _)| *n == p.signature.operands[o].name);
    let images: Vec<Option<Image>> = p.operands.iter().enumerate().map(|(o, d)| Some(Image::filled(d.as_ref()?, &options, find(o)?.1))).collect();
    let plans = op.plans(&p, warpwave_hal::Device::caps(&device)).unwrap();
    let results = plans.iter().map(|plan| Runner::new(&device).run(op, &p, plan, images.clone(), options.clone()).unwrap());
    let results: Vec<Vec<Output>> = results.collect();
    for out in results.iter().flatten() {
        let sources = images.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect();
        let len = p.operands[out.operand].as_ref().map_or(0, TensorDesc::len);
        let reference = Reference::new(op, &p, sources, out.operand, std::iter::once(0..len).collect());
        assert!(reference.check(out, Tolerance::Bound, &|_| true).is_none(), "{text}: {:?}", reference.check(out, Tolerance::Bound, &|_| true));
    }
    results
}

fn logit(i: u64) -> f64 {
    ((i * 37 % 23) as f64 - 11.0) / 4.0
}

fn lse(_: u64) -> f64 {
    4.0
}

/// A session accepts a report of the labels where one of them is out of range, and demands it.
#[test]
fn labels_out_of_range_do_not_count_and_are_reported() {
    let n = V as i64;
    for dtype in ["i64", "i32"] {
        let (lo, hi) = if dtype == "i64" { (i64::MIN, i64::MAX) } else { (i32::MIN.into(), i32::MAX.into()) };
        for bad in [-1, n, n + 1, lo, lo + 1, hi, hi - 1] {
            let labels = move |i: u64| if i == 1 { bad as f64 } else { (n - 1) as f64 };
            for reduction in ["mean", "sum", "none"] {
                let each = if reduction == "none" { 3 } else { 1 };
                let loss = run(
                    &format!("cross_entropy logits=f32[3,{V}] labels={dtype}[3] reduction={reduction} z_loss=0.1 label_smoothing=0.1"),
                    &[("logits", &logit), ("labels", &labels)],
                );
                assert_eq!(loss[0][1].get(1), Some(0.0), "lse of a row that does not count");
                let dx = run(
                    &format!("cross_entropy_bwd logits=f32[3,{V}] labels={dtype}[3] lse=f32[3] dloss=f32[{each}] reduction={reduction}"),
                    &[("logits", &logit), ("labels", &labels), ("lse", &lse), ("dloss", &|_| 1.0)],
                );
                assert!((V..2 * V).all(|i| dx[0][0].get(i) == Some(0.0)), "{bad}: {dx:?}");
                assert!((0..V).any(|i| dx[0][0].get(i) != Some(0.0)));
            }
        }
    }
}

/// Of labels in range nothing is reported: not of the last class, not of the one that stands for none.
#[test]
fn labels_in_range_are_not_reported() {
    let labels = |i: u64| [V as f64 - 1.0, -7.0, 0.0][i as usize];
    run(&format!("cross_entropy logits=bf16[3,{V}] labels=i64[3] ignore_index=-7"), &[("logits", &logit), ("labels", &labels)]);
    let extreme = |i: u64| [V as f64 - 1.0, i64::MIN as f64, 0.0][i as usize];
    let text = format!("cross_entropy logits=bf16[3,{V}] labels=i64[3] ignore_index={}", i64::MIN);
    run(&text, &[("logits", &logit), ("labels", &extreme)]);
    // the default ignored label is out of range where another one stands for none: found by the report that is not expected
    let (op, p) = problem(&text);
    assert!(op.indices(&p, 1).unwrap().is_hostile(-100.0));
    assert!(!op.indices(&p, 1).unwrap().is_hostile(V as f64 - 1.0));
    assert!(op.indices(&p, 1).unwrap().is_hostile(V as f64));
    assert!(Fault::NotReported(vec!["labels"]).to_string().contains("labels"));
}

#[test]
fn without_a_row_that_counts_loss_and_gradient_are_0() {
    for weight in ["", " weight=f32[9]"] {
        for reduction in ["mean", "sum", "none"] {
            let each = if reduction == "none" { 3 } else { 1 };
            let given: [(&str, &(dyn Fn(u64) -> f64 + Sync)); 5] =
                [("logits", &|_| f64::NAN), ("labels", &|_| -100.0), ("lse", &lse), ("dloss", &|_| f64::NAN), ("weight", &|_| 1.0)];
            let more = format!("{weight} reduction={reduction} z_loss=0.1");
            for outputs in run(&format!("cross_entropy logits=f32[3,{V}] labels=i64[3]{more}"), &given) {
                assert!(outputs.iter().all(|o| o.values().iter().all(|&v| v == 0.0)), "{outputs:?}");
            }
            for outputs in run(&format!("cross_entropy_bwd logits=f32[3,{V}] labels=i64[3] lse=f32[3] dloss=f32[{each}]{more}"), &given) {
                assert!(outputs.iter().all(|o| o.values().iter().all(|&v| v == 0.0)), "{outputs:?}");
            }
        }
    }
    // no rows at all, and no classes
    let empty = run("cross_entropy logits=f32[0,9] labels=i64[0]", &[("logits", &logit), ("labels", &|_| 0.0)]);
    assert_eq!(empty[0][0].values(), [0.0]);
    let empty = run("cross_entropy logits=f32[2,0] labels=i64[2]", &[("logits", &logit), ("labels", &|_| 0.0)]);
    assert_eq!((empty[0][0].values(), empty[0][1].values()), (vec![0.0], vec![0.0, 0.0]));
}

#[test]
fn rows_of_infinities() {
    // row 0: -inf alone; row 1: +inf; row 2: the label at -inf; row 3: plain
    let logits = |i: u64| match i / V {
        0 => f64::NEG_INFINITY,
        1 if i % V == 4 => f64::INFINITY,
        2 if i % V == 2 => f64::NEG_INFINITY,
        _ => logit(i),
    };
    let all = run(&format!("cross_entropy logits=f16[4,{V}] labels=i64[4] reduction=none"), &[("logits", &logits), ("labels", &|_| 2.0)]);
    for outputs in all {
        let (loss, lse) = (outputs[0].values(), outputs[1].values());
        assert!(loss[0].is_nan() && loss[1].is_nan() && loss[2] == f64::INFINITY && loss[3].is_finite(), "{loss:?}");
        assert!(lse[0] == f64::NEG_INFINITY && lse[1].is_nan() && lse[2].is_finite(), "{lse:?}");
    }
}

/// So many that their sums take more than one step.
#[test]
fn many_rows() {
    let labels = |i: u64| [0.0, 2.0, -100.0, 1.0][(i % 4) as usize];
    for weight in ["", " weight=f32[3]"] {
        let given: [(&str, &(dyn Fn(u64) -> f64 + Sync)); 5] =
            [("logits", &logit), ("labels", &labels), ("lse", &lse), ("dloss", &|_| 1000.0), ("weight", &|i| 0.5 + i as f64)];
        let more = format!("{weight} z_loss=0.1 label_smoothing=0.1");
        run(&format!("cross_entropy logits=f32[70000,3] labels=i32[70000]{more}"), &given);
        run(&format!("cross_entropy_bwd logits=f32[70000,3] labels=i32[70000] lse=f32[70000] dloss=f32[1]{more}"), &given);
    }
}
