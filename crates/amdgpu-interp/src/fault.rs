//! What can go wrong, before and while a kernel runs.

/// A code object that cannot be executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// Not an ELF file of a processor that is known.
    #[error("not a code object: {0}")]
    NotACodeObject(String),
    /// The disassembler is missing or failed.
    #[error("{0}")]
    Disassembler(String),
    /// An instruction, operand or modifier that is not known.
    #[error("{pc:#x}: `{text}`: {what}")]
    Unknown {
        /// Offset in the code object.
        pc: u64,
        /// The instruction.
        text: String,
        /// What is not known of it.
        what: String,
    },
    /// A kernel asks for something that is not provided.
    #[error("{kernel}: {what}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What it asks for.
        what: String,
    },
}

/// Why a launch stopped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The launch does not fit the kernel.
    #[error("{kernel}: {what}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        what: String,
    },
    /// A host call names memory that is no allocation.
    #[error("{bytes} bytes at {address:#x} are not within one allocation")]
    Host {
        /// First byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// An instruction did what it must not.
    #[error("{kernel}: workgroup {group:?}, wave {wave}: {pc:#x}: `{text}`: {what}")]
    Instruction {
        /// The kernel.
        kernel: String,
        /// Which workgroup.
        group: [u32; 3],
        /// Which wave of it.
        wave: usize,
        /// Offset in the code object.
        pc: u64,
        /// The instruction.
        text: String,
        /// What it did.
        what: String,
    },
}
