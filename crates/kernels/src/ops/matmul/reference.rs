use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// alpha · a b + beta · c in float64.
///
/// Error, u = 2^-24: sums of K products in float32 drift by about √K·u·Σ|a||b|; four times that is the bound (n·u would let a lost product
/// pass at real sizes). The two products with alpha and beta and their sum round once each, as do alpha and beta themselves. A single product
/// rounds where something follows it; otherwise its rounding is that of the output.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    const U: f64 = f32::EPSILON as f64 / 2.0;
    let (Some(a), Some(out)) = (p.operand("a"), p.operand("out")) else {
        return Vec::new();
    };
    let (k, n, m) = (a.shape[a.rank() - 1], out.shape[out.rank() - 1], out.shape[out.rank() - 2]);
    let (alpha, beta) = (p.float("alpha"), p.float("beta"));
    let is_rounded = |x: f64| f64::from(u8::from(f64::from(x as f32) != x));
    let is_followed = f64::from(u8::from(alpha != 1.0 || beta != 0.0));
    let mut values = Vec::new();
    for range in ranges {
        let mut i = range.start;
        while i < range.end {
            // one row of the output at a time: k outermost, so that b is walked along its rows
            let (row, c0) = (i / n, i % n);
            let cols = (n - c0).min(range.end - i);
            let first_b = row / m * k * n + c0;
            let mut sums = vec![0.0f64; cols as usize];
            let mut sizes = vec![0.0f64; cols as usize];
            for q in 0..k {
                let x = inputs[0].get(row * k + q);
                let at = first_b + q * n;
                if let Source::Dense(b) = &inputs[1] {
                    let b = &b[at as usize..(at + cols) as usize];
                    for ((s, t), y) in sums.iter_mut().zip(&mut sizes).zip(b) {
                        *s += x * y;
                        *t += (x * y).abs();
                    }
                } else {
                    for j in 0..cols {
                        let y = inputs[1].get(at + j);
                        sums[j as usize] += x * y;
                        sizes[j as usize] += (x * y).abs();
                    }
                }
            }
            for j in 0..cols {
                let c = if beta != 0.0 { beta * inputs[2].get(i + j) } else { 0.0 };
                let (s, t) = (alpha * sums[j as usize], alpha.abs() * sizes[j as usize]);
                // a product by a power of two is exact; so is a sum of nothing
                let scaled = if alpha == 1.0 { 0.0 } else { s.abs() };
                let added = if beta == 0.0 { 0.0 } else { c.abs() + (s + c).abs() };
                let factors = is_rounded(alpha) * s.abs() + is_rounded(beta) * c.abs();
                let products = match k {
                    0 => 0.0,
                    1 => is_followed * t,
                    _ => 4.0 * (k as f64).sqrt() * t,
                };
                let error = U * (products + scaled + added + factors);
                values.push(Approx { value: s + c, error });
            }
            i += cols;
        }
    }
    values
}
