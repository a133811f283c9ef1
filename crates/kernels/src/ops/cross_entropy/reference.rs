use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// The label of a row, where it counts.
pub(in crate::ops) fn label(p: &Problem, labels: &Source<'_>, n: u64, row: u64) -> Option<u64> {
    let y = labels.get(row);
    (y != p.int("ignore_index") as f64 && y >= 0.0 && y < n as f64).then_some(y as u64)
}

/// An attribute as the kernels hold it.
pub(in crate::ops) fn attribute(p: &Problem, name: &str, acc: DType) -> f64 {
    if acc == DType::F64 { p.float(name) } else { f64::from(p.float(name) as f32) }
}

/// What a row gives: cross entropy, z-loss and lse, with errors.
#[derive(Clone, Copy, Default)]
struct Row {
    counts: bool,
    weight: f64,
    loss: (f64, f64),
    z_loss: (f64, f64),
    lse: (f64, f64),
}

/// The formula of the op's documentation, row by row.
///
/// Error, u the accumulator's unit roundoff, d the distance of an element from the largest: k = log sum exp(-d) drifts by u times
/// 3·mean d + 8 + 4·√n (the sum; an exponential carries 3u·d of its argument and two units in the last place) and by four units of |k|; lse rounds
/// once more. The smoothing's sums drift by 4·√n·u of the sums of absolute values. Over m rows a sum drifts by 4·√m·u of its absolute sum, and a
/// quotient carries the relative errors of both.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(x), [logits, labels, weight, ..]) = (p.operand("logits"), inputs) else { return Vec::new() };
    let acc = x.dtype.accumulator();
    let (rows, n) = (x.shape[0], x.shape[1]);
    let u = acc.unit_roundoff();
    let (e, z) = (attribute(p, "label_smoothing", acc), attribute(p, "z_loss", acc));
    let weighted = p.operand("weight").is_some();
    let w = |j: u64| if weighted { weight.get(j) } else { 1.0 };
    let root = (n as f64).sqrt();
    let one = |r: u64| -> Row {
        let Some(y) = label(p, labels, n, r) else { return Row::default() };
        let at = |j: u64| logits.get(r * n + j);
        let max = (0..n).map(at).fold(f64::NEG_INFINITY, f64::max);
        // a row of -inf alone: no term counts
        let term = |v: f64| if v == f64::NEG_INFINITY { 0.0 } else { (v - max).exp() };
        let sum = exact_sum((0..n).map(at).map(term));
        let spread: f64 = (0..n).map(at).filter(|&v| term(v) > 0.0).map(|v| term(v) * (max - v)).sum();
        let k = sum.ln();
        let k_error = u * (3.0 * spread / sum + 8.0 + 4.0 * root + 4.0 * k.abs());
        let lse = max + k;
        let lse_error = k_error + u * (lse.abs() + max.abs());
        let plain = w(y) * (lse - at(y));
        let plain_error = w(y).abs() * (k_error + u * (4.0 * (lse - at(y)).abs() + (max - at(y)).abs() + k.abs()));
        let (mut loss, mut loss_error) = (plain, plain_error);
        if e != 0.0 {
            let products = exact_sum((0..n).map(|j| w(j) * at(j)));
            let size: f64 = (0..n).map(|j| (w(j) * at(j)).abs()).sum();
            let total = if weighted { exact_sum((0..n).map(w)) } else { n as f64 };
            let total_size: f64 = if weighted { (0..n).map(|j| w(j).abs()).sum() } else { n as f64 };
            let share = e / n as f64;
            loss = if e == 1.0 { 0.0 } else { (1.0 - e) * plain } + share * (total * lse - products);
            let sums = total_size * (lse_error + (4.0 * root + 8.0) * u * lse.abs()) + size * (4.0 * root + 8.0) * u;
            loss_error = (1.0 - e) * plain_error + 4.0 * u * plain.abs() + share * sums + 4.0 * u * loss.abs();
        }
        let z_loss = if z == 0.0 { 0.0 } else { z * lse * lse };
        let z_error = z * (2.0 * lse.abs() * lse_error + 4.0 * u * lse * lse);
        Row { counts: true, weight: w(y), loss: (loss, loss_error), z_loss: (z_loss, z_error), lse: (lse, lse_error) }
    };
    let approx = |(value, error): (f64, f64)| Approx { value, error: if value.is_finite() && error.is_finite() { error } else { 0.0 } };
    let elements = ranges.iter().flat_map(Clone::clone);
    if output == 4 {
        return elements.map(|r| approx(one(r).lse)).collect();
    }
    let both = |row: &Row| {
        let value = row.loss.0 + row.z_loss.0;
        (value, row.loss.1 + row.z_loss.1 + u * value.abs())
    };
    if p.choice("reduction") == "none" {
        return elements.map(|r| approx(both(&one(r)))).collect();
    }
    let all: Vec<Row> = (0..rows).map(one).collect();
    let drift = (4.0 * (rows as f64).sqrt() + 4.0) * u;
    let sum = |of: &dyn Fn(&Row) -> (f64, f64)| {
        let size: f64 = all.iter().map(|r| of(r).0.abs()).sum();
        (exact_sum(all.iter().map(|r| of(r).0)), all.iter().map(|r| of(r).1).sum::<f64>() + drift * size)
    };
    if p.choice("reduction") == "sum" {
        return elements.map(|_| approx(sum(&both))).collect();
    }
    let over = |(a, a_error): (f64, f64), (b, b_error): (f64, f64)| {
        if b == 0.0 { (0.0, 0.0) } else { (a / b, a_error / b.abs() + (a / b).abs() * (b_error / b.abs() + 2.0 * u)) }
    };
    let count = sum(&|r: &Row| (f64::from(u8::from(r.counts)), 0.0));
    let loss = over(sum(&|r: &Row| r.loss), sum(&|r: &Row| (r.weight, 0.0)));
    let z_loss = over(sum(&|r: &Row| r.z_loss), count);
    let value = loss.0 + z_loss.0;
    elements.map(|_| approx((value, loss.1 + z_loss.1 + 2.0 * u * value.abs()))).collect()
}
