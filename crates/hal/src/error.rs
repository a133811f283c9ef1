/// What a device can report that its caller could not foresee.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum DeviceError {
    #[error("{device}: out of memory: asked for {bytes} bytes")]
    OutOfMemory { device: String, bytes: u64 },
    #[error("no {backend} driver: {what}")]
    NoDriver { backend: &'static str, what: String },
    #[error("no {backend} device {index}: {found} found")]
    NoDevice { backend: &'static str, index: usize, found: usize },
    #[error("kernel {kernel} is not built; searched:\n{}\nto get it: {hint}", .searched.iter().map(|s| format!("  {s}")).collect::<Vec<_>>().join("\n"))]
    KernelNotBuilt { kernel: String, searched: Vec<String>, hint: String },
    #[error("kernel image {path}: {what}")]
    BadImage { path: String, what: String },
    #[error("{device}: launch of {kernel} failed: {what}")]
    Launch { device: String, kernel: String, what: String },
    #[error("{device}: {call} failed: {what}")]
    Driver { device: String, call: &'static str, what: String },
    #[error("{device}: an index in operand {operand} lay out of range; it was skipped")]
    IndexOutOfRange { device: String, operand: u32 },
    #[error("{device}: {what} is not supported")]
    Unsupported { device: String, what: &'static str },
}
