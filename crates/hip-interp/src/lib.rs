//! The part of the HIP runtime that warpwave calls, over [`amdgpu_interp`]: a library that is loaded in place of `libamdhip64`.
//!
//! Devices: one for each processor that `WARPWAVE_HIP_INTERP` names (`gfx942`, or `gfx90a,gfx1100`), all three where it is unset, none where it is
//! empty. Each has as many bytes as `WARPWAVE_HIP_INTERP_MEMORY` says, 4 GiB otherwise.
//!
//! Streams run as late as the interface allows: work waits until somebody synchronises, copies back, or asks for an event. Code that forgets to
//! synchronise therefore sees old values. A fault of a kernel is reported by the next call that waits for its stream, as
//! `hipErrorIllegalAddress` or `hipErrorLaunchFailure`; `hipGetErrorString` then tells what happened. Other than on hardware it ends with that report:
//! later work runs.
//!
//! Signatures are those of HIP 5.2 to 7 (`hip/hip_runtime_api.h`).

pub mod abi;
mod device;
mod runtime;
