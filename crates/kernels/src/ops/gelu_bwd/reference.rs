use crate::ops::gelu::{normal_cdf, normal_error, tanh_argument, tanh_error};
use crate::ops::silu::logistic;
use std::f64::consts::PI;
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// Φ(x) + x φ(x).
pub(crate) fn gelu_slope(dtype: DType, x: f64) -> (f64, f64) {
    let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    bounded(dtype, x, normal_cdf(x), if density == 0.0 { 0.0 } else { x * density }, normal_error(dtype, x))
}

/// s + x s (1 - s) v', by tanh.
pub(crate) fn gelu_tanh_slope(dtype: DType, x: f64) -> (f64, f64) {
    let v = tanh_argument(x);
    let slope = 2.0 * (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
    // s (1 - s) is 0 long before its factors overflow
    let both = logistic(logistic(x, v), -v);
    let second = if both == 0.0 || x.is_infinite() { 0.0 } else { both * slope };
    bounded(dtype, x, logistic(1.0, v), second, tanh_error(dtype, v))
}

/// Error: that of Φ or s in both terms, which cancel near x = -0.75.
fn bounded(dtype: DType, x: f64, first: f64, second: f64, error: f64) -> (f64, f64) {
    let least = (8.0 + x.abs().min(1e3)) * dtype.accumulator().min_subnormal();
    (first + second, 2.0 * error * (first.abs() + second.abs()) + least)
}

/// The slope times dy.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let f = if p.choice("approximate") == "tanh" { gelu_tanh_slope } else { gelu_slope };
    crate::activation::each(p, inputs, ranges, |dtype, x, dy| {
        let (slope, error) = f(dtype, x);
        (dy * slope, (dy.abs() * error) + (8.0 + x.abs().min(1e3)) * dtype.accumulator().min_subnormal())
    })
}
