use crate::ops::add::place;
use crate::ops::gelu::{normal_cdf, normal_error, tanh_argument, tanh_error};
use crate::ops::silu::{logistic, logistic_error};
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// Any number: an interval about 0 was divided by, or its logarithm taken.
const ANY: Approx = Approx { value: 0.0, error: f64::INFINITY };

/// A value in the accumulation type: infinite beyond its range, 0 below it, since a later step may tell these from what is near them.
fn held(acc: DType, value: f64, error: f64) -> Approx {
    let own = acc.round(value);
    let infinite = own.is_infinite();
    let value = if infinite || own == 0.0 { own } else { value };
    Approx { value, error: if infinite || value.is_nan() || error.is_nan() { 0.0 } else { error } }
}

/// One step on a value v that is known to within e. The error of the result is the largest change of the function over [v - e, v + e], by its
/// slope where that is bounded (silu 1.1, gelu 1.13, tanh 1, sigmoid 1/4) and by its values where it is not, and the function's own error: a
/// rounding u of the accumulation type for arithmetic, 4u for log (of values near 1 no better than u/4), and what the references of the
/// activations state for the others; 2^-126 where exp may flush to 0.
fn step(dtype: DType, name: &str, a: Approx, y: f64, c: f64) -> Approx {
    let (v, e) = (a.value, a.error);
    let acc = dtype.accumulator();
    let (u, least) = (acc.unit_roundoff(), acc.min_subnormal());
    let rounded = |value: f64, error: f64| held(acc, value, error + u * 1.01 * value.abs() + least);
    let smooth = |value: f64, slope: f64, relative: f64, floor: f64| held(acc, value, slope * e + relative * value.abs() + floor);
    let zero_inside = e > 0.0 && v.abs() <= e;
    match name {
        "neg" => Approx { value: -v, error: e },
        "abs" => Approx { value: v.abs(), error: e },
        "relu" => Approx { value: if v <= 0.0 { 0.0 } else { v }, error: e },
        "max" => Approx { value: if v > y || v.is_nan() { v } else { y }, error: e },
        "min" => Approx { value: if v < y || v.is_nan() { v } else { y }, error: e },
        _ if e.is_infinite() => ANY,
        "silu" => smooth(if v == f64::NEG_INFINITY { -0.0 } else { logistic(v, v) }, 1.1, logistic_error(dtype, v), 4.0 * least),
        "gelu" => {
            let value = if v == f64::NEG_INFINITY { -0.0 } else { v * normal_cdf(v) };
            smooth(value, 1.13, normal_error(dtype, v), (4.0 + v.abs().min(1e3)) * least)
        }
        "gelu_tanh" => {
            let t = tanh_argument(v);
            let value = if v == f64::NEG_INFINITY { -0.0 } else { logistic(v, t) };
            smooth(value, 1.13, tanh_error(dtype, t), (4.0 + v.abs().min(1e3)) * least)
        }
        "sigmoid" => smooth(logistic(1.0, v), 0.25, logistic_error(dtype, v), 4.0 * least),
        "tanh" => smooth(v.tanh(), 1.0, logistic_error(dtype, v), 4.0 * least),
        "exp" => {
            let value = v.exp();
            let flushed = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
            held(acc, value, value * (e.exp() - 1.0) + logistic_error(dtype, v) * value + flushed)
        }
        "log" if e > 0.0 && v - e <= 0.0 => ANY,
        "log" => held(acc, v.ln(), (-(-e / v).ln_1p()).max(0.0) + 4.0 * u * v.ln().abs() + u / 4.0),
        "sqrt" => rounded(v.sqrt(), if e == 0.0 { 0.0 } else { e / (v.sqrt() + (v - e).max(0.0).sqrt()) }),
        "square" => rounded(v * v, 2.0 * v.abs() * e + e * e),
        "reciprocal" if zero_inside => ANY,
        "reciprocal" => rounded(1.0 / v, if e == 0.0 { 0.0 } else { e / (v.abs() * (v.abs() - e)) }),
        "scale" => held(acc, v * c, e * c.abs() + 2.02 * u * (v * c).abs() + least),
        "add" => rounded(v + y, e),
        "sub" => rounded(v - y, e),
        "mul" => rounded(v * y, e * y.abs()),
        "div" => rounded(v / y, if e == 0.0 { 0.0 } else { e / y.abs() }),
        _ => a,
    }
}

/// The steps one after the other, each with its error.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Vec::new() };
    let steps = [("step1", "c1"), ("step2", "c2"), ("step3", "c3"), ("step4", "c4")].map(|(s, c)| (p.choice(s), p.float(c)));
    let one = |i: u64| {
        let mut a = Approx { value: inputs[0].get(place(x, &out.shape, i)), error: 0.0 };
        let mut next = 1;
        for (name, c) in steps {
            let mut y = 0.0;
            if matches!(name, "add" | "sub" | "mul" | "div" | "max" | "min") {
                y = p.operands[next].as_ref().map_or(0.0, |d| inputs[next].get(place(d, &out.shape, i)));
                next += 1;
            }
            a = step(x.dtype, name, a, y, c);
        }
        a
    };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}
