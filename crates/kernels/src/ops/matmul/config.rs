//! Tiles of matmul: which exist for a target, and what each costs.

use warpwave_core::{Arch, BuildSet, DType, KernelId, Target, Variant};

/// Columns of a box of a tensor map: 128 bytes of a 2-byte type.
pub(super) const TILE_PANEL: u32 = 64;

/// `ww::MatmulConfig`, and the primitives it is built from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    pub(super) arch: Arch,
    pub(super) dtype: DType,
    pub(super) block_m: u32,
    pub(super) block_n: u32,
    pub(super) block_k: u32,
    pub(super) stages: u32,
    pub(super) groups: u32,
    pub(super) lag: u32,
    pub(super) store_bufs: u32,
    pub(super) a_t: bool,
    pub(super) b_t: bool,
    /// Rate of a full tile beside the best config's, in percent.
    pub(super) rate: u32,
}

const fn config(arch: Arch, dtype: DType, blocks: [u32; 3], stages: u32, groups: u32, rate: u32) -> Config {
    let [block_m, block_n, block_k] = blocks;
    // where products do not run on their own, a slot that is let go is refilled beside the next batch: one in flight would only cost a stage
    let lag = if matches!(arch, Arch::Sm90 | Arch::Host) { 1 } else { 0 };
    Config { arch, dtype, block_m, block_n, block_k, stages, groups, lag, store_bufs: 2, a_t: false, b_t: false, rate }
}

/// Configs of a target for a dtype, untransposed, the fastest first.
pub(super) fn configs(target: Target, dtype: DType) -> Vec<Config> {
    let arch = target.arch();
    let wide = dtype.size() == 2;
    match (arch, wide) {
        (Arch::Host, true) => vec![config(arch, dtype, [64, 64, 32], 3, 2, 100), config(arch, dtype, [32, 48, 16], 2, 1, 90)],
        (Arch::Host, false) => vec![config(arch, dtype, [64, 64, 32], 3, 2, 100), config(arch, dtype, [32, 16, 16], 2, 1, 90)],
        (Arch::Sm90, true) => vec![
            config(arch, dtype, [128, 256, 64], 4, 2, 100),
            config(arch, dtype, [256, 128, 64], 4, 2, 99),
            config(arch, dtype, [128, 128, 64], 5, 2, 92),
            config(arch, dtype, [64, 128, 64], 6, 1, 75),
            config(Arch::Sm80, dtype, [128, 256, 64], 4, 1, 55),
        ],
        (Arch::Sm80, true) if target.shared_memory() >= 160 << 10 => {
            vec![config(arch, dtype, [128, 256, 64], 3, 1, 100), config(arch, dtype, [64, 128, 64], 4, 1, 70)]
        }
        (Arch::Sm80, true) => vec![config(arch, dtype, [128, 128, 64], 3, 1, 100), config(arch, dtype, [64, 128, 64], 4, 1, 80)],
        (Arch::Sm80 | Arch::Sm90, false) => {
            vec![config(Arch::Sm80, dtype, [128, 128, 16], 4, 1, 100), config(Arch::Sm80, dtype, [64, 64, 16], 4, 1, 70)]
        }
        (Arch::Gfx9 | Arch::Gfx11, true) => vec![config(arch, dtype, [128, 128, 64], 2, 1, 100), config(arch, dtype, [64, 64, 64], 2, 1, 70)],
        (Arch::Gfx9 | Arch::Gfx11, false) => vec![config(arch, dtype, [64, 64, 32], 2, 1, 100)],
    }
}

impl Config {
    /// Dtype, tile, stages, orientation: `bf16.128x256x64.s4.nt`.
    pub(super) fn tag(&self) -> String {
        let t = |t: bool| if t { 't' } else { 'n' };
        let arch = if self.arch == Arch::Sm80 { ".multistage" } else { "" };
        format!("{}.{}x{}x{}.s{}.{}{}{arch}", self.dtype, self.block_m, self.block_n, self.block_k, self.stages, t(self.a_t), t(self.b_t))
    }

    pub(super) fn id(&self, target: Target) -> KernelId {
        KernelId { kernel: "matmul", tag: self.tag(), target }
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> u32 {
        match self.arch {
            // beside the groups that compute: a group that hands its registers over to them, or a warp where one group needs none
            Arch::Sm90 => 128 * self.groups + if self.groups > 1 { 128 } else { 32 },
            Arch::Sm80 if self.block_m < 128 => 2 * self.block_m,
            Arch::Gfx11 if self.block_m < 128 => 128,
            _ => 256,
        }
    }

    /// Dynamic shared memory of a block, in bytes; each generated unit asserts it.
    pub(super) fn shared(&self) -> u32 {
        let size = self.dtype.size() as u32;
        let slot = (self.block_m + self.block_n) * self.block_k * size;
        match self.arch {
            Arch::Host => 0,
            Arch::Sm90 => {
                // rows of a tile are stored in panels of 128 bytes
                let panel = |rows: u32, cols: u32| rows * cols.next_multiple_of(TILE_PANEL) * size;
                let a = if self.a_t { panel(self.block_k, self.block_m) } else { panel(self.block_m, self.block_k) };
                let b = if self.b_t { panel(self.block_n, self.block_k) } else { panel(self.block_k, self.block_n) };
                let staging = self.groups * self.store_bufs * 64 * TILE_PANEL * size;
                let barriers = 8 * 2 * self.stages;
                let queue = 48;
                self.stages * (a + b) + staging + barriers + queue
            }
            _ => slot * self.stages,
        }
    }

    /// Waves of tiles times the work of one, over its rate: proportional to time where k is long.
    pub(super) fn cost(&self, m: u64, n: u64, matrices: u64, units: u32) -> u64 {
        let tiles = m.div_ceil(self.block_m.into()).saturating_mul(n.div_ceil(self.block_n.into())).saturating_mul(matrices);
        let waves = tiles.div_ceil(units.max(1).into());
        waves.saturating_mul(u64::from(self.block_m * self.block_n)).saturating_mul(100) / u64::from(self.rate)
    }

    pub(super) fn variant(&self, target: Target, set: BuildSet) -> Variant {
        let config = format!(
            ".in = ww::dtype::{0}, .out = ww::dtype::{0}, .block_m = {1}, .block_n = {2}, .block_k = {3}, .stages = {4}, .groups = {5}, .lag = {6}, .a_t = {7}, .b_t = {8}, .store_bufs = {9}",
            self.dtype, self.block_m, self.block_n, self.block_k, self.stages, self.groups, self.lag, self.a_t, self.b_t, self.store_bufs
        );
        Variant {
            id: self.id(target),
            arch: self.arch,
            header: "ops/matmul.h",
            template: "Matmul",
            config_type: "MatmulConfig",
            config,
            threads: self.threads(),
            shared: self.shared(),
            set,
        }
    }
}
