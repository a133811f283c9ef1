use crate::ops::gelu::{normal_cdf, normal_error, tanh_argument, tanh_error};
use crate::ops::silu::logistic;
use std::f64::consts::PI;
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// dy (Φ(x) + x φ(x)), or dy (s + x s (1 - s) v') by tanh. Error: that of Φ or s in both terms, which cancel near x = -0.75, times dy.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let tanh = p.choice("approximate") == "tanh";
    crate::activation::each(p, inputs, ranges, |dtype, x, dy| {
        let (first, second, error) = if tanh {
            let v = tanh_argument(x);
            let slope = 2.0 * (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
            // s (1 - s) is 0 long before its factors overflow
            let both = logistic(logistic(x, v), -v);
            (logistic(1.0, v), if both == 0.0 || x.is_infinite() { 0.0 } else { both * slope }, tanh_error(dtype, v))
        } else {
            let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
            (normal_cdf(x), if density == 0.0 { 0.0 } else { x * density }, normal_error(dtype, x))
        };
        let least = (8.0 + x.abs().min(1e3)) * dtype.accumulator().min_subnormal();
        (dy * (first + second), dy.abs() * (2.0 * error * (first.abs() + second.abs()) + least) + least)
    })
}
