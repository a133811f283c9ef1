//! What a launch executed.

use std::ops::AddAssign;

/// Instructions of all waves, by class, and what they moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// All instructions.
    pub instructions: u64,
    /// Scalar ones.
    pub scalar: u64,
    /// Vector ones, matrix instructions included.
    pub vector: u64,
    /// Multiply-adds of matrix instructions.
    pub matrix_macs: u64,
    /// Matrix instructions.
    pub matrix: u64,
    /// Accesses to global memory, those of 16 bytes a lane, and their bytes.
    pub global: u64,
    /// Of these, 16 bytes a lane.
    pub global_16: u64,
    /// Bytes of them.
    pub global_bytes: u64,
    /// Accesses to shared memory.
    pub shared: u64,
    /// Cycles that such accesses take beyond the least, because lanes of one cycle want different words of a bank: an estimate for 32 banks of 4
    /// bytes.
    pub bank_conflicts: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, o: Counts) {
        self.instructions += o.instructions;
        self.scalar += o.scalar;
        self.vector += o.vector;
        self.matrix_macs += o.matrix_macs;
        self.matrix += o.matrix;
        self.global += o.global;
        self.global_16 += o.global_16;
        self.global_bytes += o.global_bytes;
        self.shared += o.shared;
        self.bank_conflicts += o.bank_conflicts;
    }
}
