//! Problems and data: by a seed, by the bytes of a fuzzer, or along a grid.

mod data;
mod grid;
mod random;

pub use data::{inputs, is_exact};
pub use grid::{Grid, grid};
pub use random::problem;

pub use warpwave_core::{Family, noise, normal, unit};

/// So many bytes from a seed, for [`problem`].
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64).flat_map(|i| noise(seed ^ 0x5eed, i).to_le_bytes()).take(len).collect()
}
