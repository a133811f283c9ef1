use super::forward::{attribute, label};
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source, exact_sum};

/// The formula of the op's documentation, element by element.
///
/// Error, u the accumulator's unit roundoff: a sum of the m labels' weights drifts by 4·√m·u of its absolute sum, and so do s and c relative to
/// themselves; W by 4·√n·u of its absolute sum; the exponential carries 3u·|x - lse| of its argument and two units in the last place; each product
/// and difference rounds once. What is below the smallest normal number may vanish.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let (Some(x), Some(dloss_desc), [logits, labels, lse, dloss, weight, ..]) = (p.operand("logits"), p.operand("dloss"), inputs) else {
        return Vec::new();
    };
    let acc = x.dtype.accumulator();
    let (rows, n) = (x.shape[0], x.shape[1]);
    let u = acc.unit_roundoff();
    let least = if acc == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let (e, z) = (attribute(p, "label_smoothing", acc), attribute(p, "z_loss", acc));
    let weighted = p.operand("weight").is_some();
    let w = |j: u64| if weighted { weight.get(j) } else { 1.0 };
    let mean = p.choice("reduction") == "mean";
    let (mut all, mut all_size, mut count) = (0.0, 0.0, 0.0);
    if mean {
        let of = |r| label(p, labels, n, r).map_or(0.0, w);
        all = exact_sum((0..rows).map(of));
        all_size = (0..rows).map(|r| of(r).abs()).sum::<f64>();
        count = (0..rows).filter(|&r| label(p, labels, n, r).is_some()).count() as f64;
    }
    let over = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
    let drift = if mean { (4.0 * (rows as f64).sqrt() + 4.0) * u } else { 0.0 };
    let relative = drift * over(all_size, all.abs()) + 4.0 * u;
    let spread_over = e != 0.0;
    let total = if weighted && spread_over { exact_sum((0..n).map(w)) } else { n as f64 };
    let total_size: f64 = if weighted && spread_over { (0..n).map(|j| w(j).abs()).sum() } else { n as f64 };
    let root = (n as f64).sqrt();
    ranges
        .iter()
        .flat_map(Clone::clone)
        .map(|i| {
            let (r, j) = (i / n, i % n);
            let Some(y) = label(p, labels, n, r) else { return Approx { value: 0.0, error: 0.0 } };
            let d = dloss.get(if dloss_desc.shape[0] == rows { r } else { 0 });
            let (s, c) = if mean { (over(d, all), over(d, count)) } else { (d, d) };
            let (mut hit, mut factor, mut spread) = (s * w(y), s * w(y), 0.0);
            let mut factor_error = hit.abs() * relative;
            if spread_over {
                spread = s * (e / n as f64);
                hit *= 1.0 - e;
                factor = hit + spread * total;
                factor_error = hit.abs() * (relative + 2.0 * u) + spread.abs() * total_size * (relative + (4.0 * root + 4.0) * u);
            }
            if z != 0.0 {
                let more = 2.0 * z * lse.get(r) * c;
                factor_error += more.abs() * (drift + 6.0 * u) + u * (factor.abs() + more.abs());
                factor += more;
            }
            let distance = logits.get(i) - lse.get(r);
            let share = distance.exp();
            let everywhere = if spread_over { spread * w(j) } else { 0.0 };
            let here = if j == y { hit } else { 0.0 };
            let value = share * factor - everywhere - here;
            let off = if share > 0.0 { share * u * (3.0 * distance.abs() + 6.0) } else { 0.0 } + least;
            let error = share * factor_error
                + off * factor.abs()
                + (everywhere.abs() + here.abs()) * (relative + 4.0 * u)
                + 2.0 * u * ((share * factor).abs() + value.abs())
                + 4.0 * least;
            Approx { value, error: if value.is_finite() && error.is_finite() { error } else { 0.0 } }
        })
        .collect()
}
