use crate::ops::silu::{logistic, logistic_error};
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// s + x s (1 - s). Error: that of the logistic function in both terms, which cancel near x = -1.28.
pub(crate) fn silu_slope(dtype: DType, x: f64) -> (f64, f64) {
    let s = logistic(1.0, x);
    let second = if x.is_infinite() { 0.0 } else { logistic(logistic(x, x), -x) };
    (s + second, 2.0 * logistic_error(dtype, x) * (s + second.abs()) + 8.0 * dtype.accumulator().min_subnormal())
}

/// The slope times dy.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |dtype, x, dy| {
        let (slope, error) = silu_slope(dtype, x);
        (dy * slope, dy.abs() * error + 8.0 * dtype.accumulator().min_subnormal())
    })
}
