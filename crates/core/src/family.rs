//! Test data: families of values, and the noise that every generator draws from.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What inputs hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Small integers and powers of two: every product and sum is exact in float32, so the result is the reference, rounded once.
    Exact,
    /// Normal.
    Normal,
    /// Uniform in [-1, 1].
    Uniform,
    /// From the smallest to the largest magnitudes that the reference does not overflow on.
    Extreme,
    /// Subnormal where the op computes them exactly.
    Subnormal,
    /// Small values, large ones at the first and last element and around every tile edge: a dropped element, tile or lane shows.
    Spikes,
    /// Normal, with infinities and NaN strewn in.
    Nonfinite,
    /// Normal, with indices out of range strewn in: -1, the last one, those beyond it, the largest of the type.
    Hostile,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 8] =
        [Family::Exact, Family::Normal, Family::Uniform, Family::Extreme, Family::Subnormal, Family::Spikes, Family::Nonfinite, Family::Hostile];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl std::str::FromStr for Family {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Family::ALL.into_iter().find(|f| f.to_string() == s).ok_or_else(|| format!("unknown data family `{s}`"))
    }
}

/// Word `n` of the sequence `seed`: splitmix64, as the case files define it.
pub fn noise(seed: u64, n: u64) -> u64 {
    let mut z = (seed << 40).wrapping_add(n).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Uniform in [0, 1), a multiple of 2^-24.
pub fn unit(seed: u64, n: u64) -> f64 {
    (noise(seed, n) >> 40) as f64 / (1u64 << 24) as f64
}

/// Nearly normal: the sum of twelve uniform numbers, minus 6.
pub fn normal(seed: u64, n: u64) -> f64 {
    (0..12).map(|j| unit(seed, n.wrapping_mul(12).wrapping_add(j))).sum::<f64>() - 6.0
}
