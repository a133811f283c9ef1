use crate::ops::silu::{logistic, logistic_error};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// The complementary error function of z >= 0: the series of erf below 1, Legendre's continued fraction from there on. Abramowitz and Stegun,
/// 7.1.6 and 7.1.14.
fn erfc(z: f64) -> f64 {
    let scale = 2.0 / PI.sqrt() * (-z * z).exp();
    if z < 1.0 {
        let (mut term, mut sum, mut n) = (z, z, 0.0);
        while term > 1e-18 * sum {
            n += 1.0;
            term *= 2.0 * z * z / (2.0 * n + 1.0);
            sum += term;
        }
        1.0 - scale * sum
    } else {
        let tail = (1..=200).rev().fold(0.0, |f, k| f64::from(k) / 2.0 / (z + f));
        scale / 2.0 / (z + tail)
    }
}

/// The normal distribution function.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    let tail = erfc(x.abs() * FRAC_1_SQRT_2) / 2.0;
    if x.is_nan() {
        x
    } else if x > 0.0 {
        1.0 - tail
    } else {
        tail
    }
}

/// Relative error of the normal distribution function (of its tail, where x is negative): as for the logistic function, with a polynomial of
/// relative error 3.2e-8 and its nine roundings within the same 24u. In 16-bit types the polynomial is right to 8.3e-6, and with the rounded
/// exponent x²/2 that is 2^-15 up to where results are 0. In float64 the exponent is rounded as well.
pub(crate) fn normal_error(dtype: DType, x: f64) -> f64 {
    let u = dtype.accumulator().unit_roundoff();
    match dtype {
        DType::F64 => u * (64.0 + 4.0 * (x * x).min(1e4)),
        DType::F32 => 24.0 * u,
        _ => 1.0 / 32768.0,
    }
}

/// The argument of the logistic function that (1 + tanh)/2 is.
pub(crate) fn tanh_argument(x: f64) -> f64 {
    2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// Relative error of that function: its argument takes four roundings and is rounded once more before exp2.
pub(crate) fn tanh_error(dtype: DType, v: f64) -> f64 {
    logistic_error(dtype, 0.0) + dtype.accumulator().unit_roundoff() * 6.0 * v.abs().min(2e3)
}

/// x Φ(x); the limit 0 at -inf.
pub(crate) fn gelu(dtype: DType, x: f64) -> (f64, f64) {
    bounded(dtype, x, x * normal_cdf(x), normal_error(dtype, x))
}

/// By tanh.
pub(crate) fn gelu_tanh(dtype: DType, x: f64) -> (f64, f64) {
    let v = tanh_argument(x);
    bounded(dtype, x, logistic(x, v), tanh_error(dtype, v))
}

fn bounded(dtype: DType, x: f64, value: f64, error: f64) -> (f64, f64) {
    let value = if x == f64::NEG_INFINITY { 0.0 } else { value };
    (value, error * value.abs() + (4.0 + x.abs().min(1e3)) * dtype.accumulator().min_subnormal())
}

/// One of the two of each element.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let f = if p.choice("approximate") == "tanh" { gelu_tanh } else { gelu };
    crate::activation::each(p, inputs, ranges, |dtype, x, _| f(dtype, x))
}
