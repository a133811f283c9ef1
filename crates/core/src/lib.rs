//! Values that every layer of warpwave shares: element types, tensor descriptors, problems, device capabilities, plans.
//!
//! Nothing here holds a pointer or calls a device. `plan` is a pure function, so that its result can be printed, compared and snapshotted.
#![forbid(unsafe_code)]

mod args;
mod caps;
mod desc;
mod dtype;
mod family;
mod op;
mod plan;
mod problem;
mod reference;
mod rows;
mod variant;

pub use args::{Arg, ArgType, Buffer, ColumnView, EncodeError, IndexView, MatrixView, Param, RowSpace, RowsView, encode, layout};
pub use caps::{Arch, DeviceCaps, Target, Vendor};
pub use desc::{DescError, MAX_RANK, Rule, TensorDesc};
pub use dtype::DType;
pub use family::{Family, noise, normal, unit};
pub use op::{Indices, Op, Stage, Unsupported, Valid, plan, validate};
pub use plan::{Fill, Launch, Plan, Slice, Step, TensorMap, Tuning, Workspace};
pub use problem::{AttrKind, AttrSpec, AttrValue, OperandSpec, Problem, Role, Signature};
pub use reference::{Approx, Source, exact_sum};
pub use rows::{RowOperand, collapse_rows};
pub use variant::{BuildSet, KernelId, Variant};
