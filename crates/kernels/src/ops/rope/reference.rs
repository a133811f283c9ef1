use std::f64::consts::TAU;
use std::ops::Range;
use warpwave_core::{Approx, DType, Problem, Source};

/// The angle that frequency `i` of `rot` channels adds from one position to the next.
fn frequency(p: &Problem, i: f64, rot: f64, channels: f64) -> f64 {
    let exponent = 2.0 * i / if p.choice("style") == "neox_proportional" { channels } else { rot };
    let plain = p.float("base").powf(-exponent);
    let (factor, original) = (p.float("factor"), p.int("original") as f64);
    match p.choice("scaling") {
        "none" => plain,
        "linear" => plain / factor,
        "llama3" => {
            let wavelength = TAU / plain;
            let (low, high) = (p.float("low"), p.float("high"));
            if wavelength > original / low {
                plain / factor
            } else if wavelength < original / high {
                plain
            } else {
                let smooth = (original / wavelength - low) / (high - low);
                (1.0 - smooth) * plain / factor + smooth * plain
            }
        }
        _ => {
            let dimension = |turns: f64| rot * (original / (turns * TAU)).ln() / (2.0 * p.float("base").ln());
            let low = dimension(p.float("beta_fast")).floor().max(0.0);
            let mut high = dimension(p.float("beta_slow")).ceil().min(rot - 1.0);
            if low == high {
                high += 0.001;
            }
            let ramp = ((i - low) / (high - low)).clamp(0.0, 1.0);
            plain / factor * ramp + plain * (1.0 - ramp)
        }
    }
}

/// x, turned forwards (`sign` 1) or back (-1). Error, u the accumulator's unit roundoff: cosines and sines, products and sum are rounded, 4u of the
/// sum of magnitudes, in float64 8u, as its cosines come from polynomials; the angle itself carries 2^-53 for each of some forty operations, and
/// more where its frequency is a large power.
pub(crate) fn turned(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>], sign: f64) -> Vec<Approx> {
    let Some(x) = &p.operands[0] else { return Vec::new() };
    let shape: &[u64] = &x.shape;
    let (channels, heads, positions) = (shape[shape.len() - 1], shape[shape.len() - 2], shape[shape.len() - 3]);
    let rot = if p.int("rot") == 0 { channels } else { p.int("rot") as u64 };
    let u = x.dtype.accumulator().unit_roundoff() * if x.dtype == DType::F64 { 8.0 } else { 4.0 };
    let least = x.dtype.accumulator().min_subnormal();
    let mscale = match (p.float("mscale"), p.choice("scaling")) {
        (0.0, "yarn") => 0.1 * p.float("factor").max(1.0).ln() + 1.0,
        (0.0, _) => 1.0,
        (m, _) => m,
    };
    let one = |flat: u64| {
        let channel = flat % channels;
        // the pair's number, and its first channel's and its second's
        let (pair, first, second) = match p.choice("style") {
            "interleaved" => (channel / 2, channel / 2 * 2, channel / 2 * 2 + 1),
            style => {
                let apart = if style == "neox" { rot / 2 } else { channels / 2 };
                let pair = if channel < apart { channel } else { channel - apart };
                (pair, pair, pair + apart)
            }
        };
        let own = inputs[0].get(flat);
        if pair >= rot / 2 {
            return Approx { value: own, error: 0.0 };
        }
        let row = flat / channels / heads;
        let position = match &p.operands[1] {
            None => (row % positions) as f64 + p.int("offset") as f64,
            Some(pos) => inputs[1].get(if pos.rank() == 2 { row } else { row % positions }),
        };
        let (c, s, drift) = if let Some(cos) = &p.operands[2] {
            // a position outside the tables
            if position < 0.0 || position >= cos.shape[0] as f64 {
                return Approx { value: own, error: 0.0 };
            }
            let at = position as u64 * (rot / 2) + pair;
            (inputs[2].get(at), inputs[3].get(at), 0.0)
        } else {
            let angle = position * frequency(p, pair as f64, rot as f64, channels as f64);
            let drift = angle.abs() * (40.0 + 6.0 * p.float("base").log2()) * f64::EPSILON;
            (angle.cos() * mscale, angle.sin() * mscale, drift.min(2.0) * mscale.abs())
        };
        let (a, b) = (inputs[0].get(flat - channel + first), inputs[0].get(flat - channel + second));
        let (by_c, by_s) = if channel == first { (a * c, -b * s * sign) } else { (b * c, a * s * sign) };
        let error = u * (by_c.abs() + by_s.abs()) + drift * (a.abs() + b.abs()) + 4.0 * least;
        Approx { value: by_c + by_s, error: if error.is_finite() { error } else { 0.0 } }
    };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}

/// Turned forwards.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    turned(p, inputs, ranges, 1.0)
}
