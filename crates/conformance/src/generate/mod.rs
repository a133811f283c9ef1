//! Problems and data: by a seed, by the bytes of a fuzzer, or along a grid.

mod data;
mod grid;
mod random;

pub use data::{Family, inputs};
pub use grid::{Grid, grid};
pub use random::problem;

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

/// So many bytes from a seed, for [`problem`].
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64).flat_map(|i| noise(seed ^ 0x5eed, i).to_le_bytes()).take(len).collect()
}
