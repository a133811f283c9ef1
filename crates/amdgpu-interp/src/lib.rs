//! Executes AMD GPU code objects on the CPU, instruction by instruction, and checks what they do.
//!
//! A [`CodeObject`] is what clang wrote for gfx90a, gfx942 or gfx1100; [`run`] executes one of its kernels over a [`Memory`]. Decoding is LLVM's: the
//! text of `llvm-objdump-19`. What an instruction means follows AMD's ISA documents (CDNA2, CDNA3, RDNA3) and LLVM's AMDGPU usage page. Anything
//! unknown, an instruction, an operand or a modifier, is a [`LoadError`] that names it: nothing is guessed.
//!
//! Checked while running: every access lies in an allocation; no register is used before the `s_waitcnt` that its load needs; no lane reads shared
//! memory that nobody wrote; two waves do not touch one word of shared memory between two barriers unless both read; a barrier is met by all waves
//! or by none; an instruction budget.
//!
//! Speed, on one core of an AMD EPYC, release build (`examples/speed.rs`): 12 to 17 million wave-instructions a second of a mix of row ops, 1.1 to 2.2
//! thousand million multiply-adds a second in MFMA and WMMA.
//!
//! **What this is not.** No AMD hardware took part. Approximate instructions (`v_rcp_f32`, `v_exp_f32`, …) give the correctly rounded result, where
//! hardware may be one unit in the last place off. The order of additions inside one MFMA or WMMA instruction is this crate's choice: ascending in
//! k, fused, in float32; it is unverified on hardware, so tests of matrix code use exact data or bounds.

#![allow(clippy::precedence, clippy::needless_range_loop, reason = "instructions read as the documents write them, loops go over lanes")]

mod counts;
mod fault;
mod lds;
pub mod matrix;
mod memory;
mod object;
mod op;
mod run;
mod salu;
mod text;
mod valu;
mod vmem;
mod wave;

pub use counts::Counts;
pub use fault::{Fault, LoadError};
pub use memory::Memory;
pub use object::{CodeObject, Kernel};
pub use run::{Launch, Options, Order, run};

/// What a code object is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names of the processors")]
pub enum Isa {
    Gfx90a,
    Gfx942,
    Gfx1100,
}

impl Isa {
    /// All of them.
    pub const ALL: [Isa; 3] = [Isa::Gfx90a, Isa::Gfx942, Isa::Gfx1100];

    /// LLVM's name of the processor.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Gfx90a => "gfx90a",
            Isa::Gfx942 => "gfx942",
            Isa::Gfx1100 => "gfx1100",
        }
    }

    /// Bytes of shared memory that a workgroup may have.
    pub const fn lds(self) -> u32 {
        64 << 10
    }

    pub(crate) const fn is_gfx11(self) -> bool {
        matches!(self, Isa::Gfx1100)
    }
}

impl std::str::FromStr for Isa {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Isa::ALL.into_iter().find(|i| i.name() == s).ok_or_else(|| format!("unknown processor `{s}`"))
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
