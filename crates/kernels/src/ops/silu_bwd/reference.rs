use crate::ops::silu::{logistic, logistic_error};
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// dy (s + x s (1 - s)). Error: that of the logistic function in both terms, which cancel near x = -1.28, times dy.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    crate::activation::each(p, inputs, ranges, |dtype, x, dy| {
        let s = logistic(1.0, x);
        let second = if x.is_infinite() { 0.0 } else { logistic(logistic(x, x), -x) };
        let least = 8.0 * dtype.accumulator().min_subnormal();
        (dy * (s + second), dy.abs() * (2.0 * logistic_error(dtype, x) * (s + second.abs()) + least) + least)
    })
}
