//! warpwave: GPU kernels for transformer training and inference, on NVIDIA, AMD and the CPU.
//!
//! A [`Context`] is a device with a queue. A [`Tensor`] is a descriptor and device memory. An op is called by value:
//!
//! ```
//! use warpwave::{Context, ops};
//! let ctx = Context::cpu()?;
//! let x = ctx.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
//! let y = ctx.call(&ops::softmax::Softmax).input("x", &x).attr("axis", -1).run()?;
//! let rows = y[0].to_vec::<f32>()?;
//! assert!((rows[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! # Ok::<(), warpwave::Error>(())
//! ```
//!
//! Kernels for GPUs are compiled ahead of time; where they are looked for is described at [`Images`]. The CPU's are part of the program.

mod context;
mod tensor;

#[cfg(feature = "hip")]
pub use context::interpreted_devices;
pub use context::{Call, Context, Outputs, devices, devices_with};
pub use tensor::{Element, Tensor};
pub use warpwave_core as core;
pub use warpwave_core::{AttrValue, DType, DescError, DeviceCaps, Op, Plan, Problem, Target, TensorDesc, Tuning, Unsupported};
pub use warpwave_hal as hal;
pub use warpwave_hal::{Device, DeviceBuffer, DeviceError, Images, Queue, View};
pub use warpwave_kernels::{op, ops, signature};

/// Whatever a call can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "transparent")]
pub enum Error {
    #[error(transparent)]
    Desc(#[from] DescError),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Input(String),
}
