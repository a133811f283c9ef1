use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// One block of Philox4x32-10, as the paper's figure has it: a Feistel network in which each round multiplies two words of the counter and adds
/// Weyl sequences to the key.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let halves = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    (0..10u32).fold(counter, |[l0, r0, l1, r1], round| {
        let weyl = |key: u32, step: u32| key.wrapping_add(step.wrapping_mul(round));
        let (high0, low0) = halves(0xD251_1F53, l0);
        let (high1, low1) = halves(0xCD9E_8D57, l1);
        [high1 ^ r0 ^ weyl(key[0], 0x9E37_79B9), low1, high0 ^ r1 ^ weyl(key[1], 0xBB67_AE85), low0]
    })
}

/// What decides which elements are kept.
pub(crate) struct Draw {
    seed: u64,
    offset: u64,
    first: u64,
    least: u64,
    /// 1 / (1 - p)
    scale: f64,
    dtype: DType,
}

impl Draw {
    pub(crate) fn new(p: &Problem) -> Draw {
        let drop = p.float("p");
        Draw {
            seed: p.int("seed") as u64,
            offset: p.int("offset") as u64,
            first: p.int("first") as u64,
            least: (drop * f64::powi(2.0, 32)).round() as u64,
            scale: 1.0 / (1.0 - drop),
            dtype: p.dtypes().first().copied().unwrap_or(DType::F32),
        }
    }

    /// Whether element `i` of the tensor is kept.
    pub(crate) fn keeps(&self, i: u64) -> bool {
        let index = self.first + i;
        let (block, word) = (index / 4, index % 4);
        let counter = [block as u32, (block >> 32) as u32, self.offset as u32, (self.offset >> 32) as u32];
        u64::from(philox(counter, [self.seed as u32, (self.seed >> 32) as u32])[word as usize]) >= self.least
    }

    /// x / (1 - p). Error: the scale is rounded, and so is the product, to the accumulation type.
    pub(crate) fn scaled(&self, x: f64) -> Approx {
        let (value, acc) = (x * self.scale, self.dtype.accumulator());
        let rounded = self.scale.log2().fract() != 0.0;
        let error = if rounded { 2.01 * acc.unit_roundoff() * value.abs() + acc.min_subnormal() } else { 0.0 };
        Approx { value, error: if error.is_finite() { error } else { 0.0 } }
    }
}

/// `of(i)` where element i is kept, 0 elsewhere.
pub(crate) fn kept(p: &Problem, ranges: &[Range<u64>], of: impl Fn(u64) -> f64) -> Vec<Approx> {
    let draw = Draw::new(p);
    let one = |i| if draw.keeps(i) { draw.scaled(of(i)) } else { Approx { value: 0.0, error: 0.0 } };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}

/// x / (1 - p) where it is kept.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    kept(p, ranges, |i| inputs[0].get(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123 1.09, `kat_vectors`.
    #[test]
    fn known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(philox(pi, [0xa409_3822, 0x299f_31d0]), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    fn problem(p: f64, seed: i64) -> Problem {
        Problem::new(super::super::SIGNATURE).with_attr("p", p.into()).with_attr("seed", seed.into())
    }

    /// A million draws: within five standard deviations; at the ends of the range, exact.
    #[test]
    fn keep_rate() {
        const N: u64 = 1 << 20;
        for p in [0.0, 0.1, 0.5, 0.9, 1.0] {
            for seed in [0, 1, -7] {
                let draw = Draw::new(&problem(p, seed));
                let kept = (0..N).filter(|&i| draw.keeps(i)).count() as f64;
                let (mean, deviation) = (N as f64 * (1.0 - p), (N as f64 * p * (1.0 - p)).sqrt());
                assert!((kept - mean).abs() <= 5.0 * deviation, "p = {p}, seed {seed}: {kept} of {N}");
            }
        }
    }

    /// Neighbours, words of a block and draws of one element under other offsets and seeds agree as often as chance has it.
    #[test]
    fn draws_are_independent() {
        const N: u64 = 1 << 18;
        let draw = |seed, offset: i64| Draw::new(&problem(0.5, seed).with_attr("offset", offset.into()));
        let a = draw(3, 0);
        let agree = |b: &Draw, shift: u64| (0..N).filter(|&i| a.keeps(i) == b.keeps(i + shift)).count() as f64;
        for (b, shift) in [(draw(3, 0), 1), (draw(3, 0), 2), (draw(3, 0), 4), (draw(3, 1), 0), (draw(4, 0), 0), (draw(3 + (1 << 32), 0), 0)] {
            let deviation = (N as f64).sqrt() / 2.0;
            assert!((agree(&b, shift) - N as f64 / 2.0).abs() <= 5.0 * deviation, "seed {}, offset {}, shift {shift}", b.seed, b.offset);
        }
    }
}
