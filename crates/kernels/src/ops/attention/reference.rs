use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// Attention in float64, row by row.
///
/// Error of the output, u = 2^-24 and r the rounding of the weights to the operands' type: Σ p|v| · (r + 4·√Lk·u + error of the scores), where
/// a score of D products carries 4·√D·u·Σ|q||k|·scale.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    const U: f64 = f32::EPSILON as f64 / 2.0;
    let (Some(q), Some(k)) = (p.operand("q"), p.operand("k")) else {
        return Vec::new();
    };
    let (heads, lq, d) = (q.shape[1], q.shape[2], q.shape[3]);
    let (kv_heads, lk) = (k.shape[1], k.shape[2]);
    let scale = super::scale(p);
    let width = if output == 3 { d } else { 1 };
    let mut done = (u64::MAX, Vec::<f64>::new(), 0.0, 0.0, 0.0);
    let mut values = Vec::new();
    for i in ranges.iter().flat_map(Clone::clone) {
        let row = i / width;
        let (b, h, query) = (row / lq / heads, row / lq % heads, row % lq);
        let first_kv = (b * kv_heads + h / (heads / kv_heads)) * lk;
        if done.0 != row {
            let visible = if p.flag("causal") { (query + 1 + lk).saturating_sub(lq).min(lk) } else { lk };
            let (mut max, mut noise) = (f64::NEG_INFINITY, 0.0f64);
            let mut weights: Vec<f64> = (0..visible)
                .map(|j| {
                    let (mut s, mut t) = (0.0, 0.0);
                    for c in 0..d {
                        let x = inputs[0].get(row * d + c) * inputs[1].get((first_kv + j) * d + c);
                        s += x;
                        t += x.abs();
                    }
                    noise = noise.max(4.0 * (d as f64).sqrt() * U * t * scale.abs());
                    max = max.max(s * scale);
                    s * scale
                })
                .collect();
            let sum: f64 = weights.iter().map(|s| (s - max).exp()).sum();
            for w in &mut weights {
                *w = (*w - max).exp() / sum;
            }
            let lse = if visible == 0 { f64::NEG_INFINITY } else { max + sum.ln() };
            done = (row, weights, lse, noise, max.abs());
        }
        let (_, weights, lse, noise, max) = &done;
        let roots = 4.0 * (lk as f64).sqrt() * U;
        if output == 3 {
            let c = i % d;
            let (mut value, mut size) = (0.0, 0.0);
            for (j, w) in weights.iter().enumerate() {
                let x = w * inputs[2].get((first_kv + j as u64) * d + c);
                value += x;
                size += x.abs();
            }
            values.push(Approx { value, error: size * (2.0 * q.dtype.unit_roundoff() + roots + 2.0 * noise + 8.0 * U * (1.0 + max)) });
        } else {
            let error = if lse.is_finite() { 2.0 * noise + roots + 8.0 * U * (1.0 + max + lse.abs()) } else { 0.0 };
            values.push(Approx { value: *lse, error });
        }
    }
    values
}
