use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// Two's complement, 64 bits: indices.
    I64,
    /// Two's complement, 32 bits: indices.
    I32,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 6] = [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32];

    /// Whether it holds real numbers.
    pub const fn is_float(self) -> bool {
        !matches!(self, DType::I64 | DType::I32)
    }

    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
        }
    }

    /// The name in problem strings and kernel names, also that of the C++ enumerator `ww::dtype::…`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I64 => "i64",
            DType::I32 => "i32",
        }
    }

    /// Half the distance from 1 to the next value: the largest relative error of one rounding; 0 for integers, which are not rounded.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON / 2.0,
            DType::F32 => f32::EPSILON as f64 / 2.0,
            DType::F16 => 1.0 / 2048.0,
            DType::BF16 => 1.0 / 256.0,
            DType::I64 | DType::I32 => 0.0,
        }
    }

    /// The type that ops on this type accumulate in: float64 for float64, float32 otherwise.
    pub const fn accumulator(self) -> DType {
        if matches!(self, DType::F64) { DType::F64 } else { DType::F32 }
    }

    /// The smallest positive value, a subnormal.
    pub fn min_subnormal(self) -> f64 {
        match self {
            DType::F64 => f64::from_bits(1),
            DType::F32 => f32::from_bits(1).into(),
            DType::F16 => f16::from_bits(1).into(),
            DType::BF16 => bf16::from_bits(1).into(),
            DType::I64 | DType::I32 => 1.0,
        }
    }

    /// `x` rounded once to this type (nearest, ties to even; integers: cut off, saturated), as a float64.
    pub fn round(self, x: f64) -> f64 {
        let mut bytes = [0; 8];
        self.encode(x, &mut bytes);
        self.decode(&bytes)
    }

    /// Writes `x`, rounded once, into the first [`size`](Self::size) bytes of `out`, little-endian.
    pub fn encode(self, x: f64, out: &mut [u8]) {
        match self {
            DType::F64 => out[..8].copy_from_slice(&x.to_le_bytes()),
            DType::F32 => out[..4].copy_from_slice(&(x as f32).to_le_bytes()),
            DType::F16 => out[..2].copy_from_slice(&f16::from_f32(to_odd(x)).to_le_bytes()),
            DType::BF16 => out[..2].copy_from_slice(&bf16::from_f32(to_odd(x)).to_le_bytes()),
            DType::I64 => out[..8].copy_from_slice(&(x as i64).to_le_bytes()),
            DType::I32 => out[..4].copy_from_slice(&(x as i32).to_le_bytes()),
        }
    }

    /// Reads one element from the first [`size`](Self::size) bytes of `bytes`.
    pub fn decode(self, bytes: &[u8]) -> f64 {
        fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut out = [0; N];
            out.copy_from_slice(&bytes[..N]);
            out
        }
        match self {
            DType::F64 => f64::from_le_bytes(head(bytes)),
            DType::F32 => f32::from_le_bytes(head(bytes)).into(),
            DType::F16 => f16::from_le_bytes(head(bytes)).into(),
            DType::BF16 => bf16::from_le_bytes(head(bytes)).into(),
            DType::I64 => i64::from_le_bytes(head(bytes)) as f64,
            DType::I32 => i32::from_le_bytes(head(bytes)).into(),
        }
    }
}

/// `x` as a float32, the odd neighbour where it is inexact: a second rounding then gives what one alone would (Boldo and Melquiond, 2005).
/// `half` 2 rounds a float64 by its upper 32 bits alone.
fn to_odd(x: f64) -> f32 {
    let y = x as f32;
    if f64::from(y) == x || x.is_nan() {
        return y;
    }
    let beyond = f64::from(y).abs() > x.abs();
    f32::from_bits((y.to_bits() - u32::from(beyond)) | 1)
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| format!("unknown dtype `{s}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_are_rounded_once() {
        // beside a tie by the last digit of a float64, and by one that a float32 does not hold
        let tie = 1.0 + 1.0 / 256.0;
        assert_eq!(DType::BF16.round(tie), 1.0);
        for near in [f64::EPSILON, 1e-9, f64::from(f32::EPSILON)] {
            assert_eq!(DType::BF16.round(tie + near), 1.0 + 1.0 / 128.0, "{near}");
            assert_eq!(DType::BF16.round(tie + 1.0 / 128.0 - near), 1.0 + 1.0 / 128.0, "{near}");
        }
        let tie = 1.0 + 1.0 / 2048.0;
        assert_eq!((DType::F16.round(tie), DType::F16.round(tie + 1e-12)), (1.0, 1.0 + 1.0 / 1024.0));
        // half of the smallest value, and of the step behind the largest
        let least = DType::F16.min_subnormal() / 2.0;
        assert_eq!((DType::F16.round(least), DType::F16.round(least * (1.0 + 1e-15))), (0.0, 2.0 * least));
        assert_eq!((DType::F16.round(65520.0), DType::F16.round(65520.0 - 1e-9)), (f64::INFINITY, 65504.0));
        for t in [DType::F16, DType::BF16] {
            assert_eq!((t.round(1e-300), t.round(-1e300), t.round(f64::INFINITY)), (0.0, f64::NEG_INFINITY, f64::INFINITY));
            assert!(t.round(f64::NAN).is_nan());
        }
    }
}
