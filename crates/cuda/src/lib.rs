//! The CUDA backend: kernels that nvcc compiled ahead of time, launched through the driver API. `libcuda` is loaded at run time; without it
//! every entry point answers [`DeviceError::NoDriver`].
//!
//! The device's primary context is retained and made current on each call, so buffers and streams mix with those of other libraries in the
//! process. Memory comes from a pool of the device's own. A queue keeps a reference to each buffer that its work uses; a buffer whose other
//! references are gone is given back to the pool when a later [`Device::allocate`], [`Queue::sync`] or the like sees that the work is done.

mod args;
mod context;
mod driver;
mod memory;
mod module;
mod queue;

use context::Context;
use cudarc::driver::sys;
use driver::cu;
use std::ffi::c_void;
use std::sync::Arc;
use sys::CUdevice_attribute_enum as Attribute;
use warpwave_core::{DeviceCaps, Target, Vendor};
use warpwave_hal::{Device, DeviceBuffer, DeviceError, Images, Queue};

/// The environment variable that forces the target of [`CudaDevice::open`] and [`devices`], for example `compute_80` to run the kernels of older
/// cards through the driver's compiler. A target of another vendor is ignored.
pub const TARGET_VARIABLE: &str = "WARPWAVE_TARGET";

/// Every CUDA device that can run warpwave, by number; cards older than compute capability 8.0 are left out.
///
/// # Errors
/// [`DeviceError::NoDriver`] where there is no driver or one that is too old; what the driver reports.
pub fn devices(images: Arc<Images>) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let target = forced_target()?;
    let mut all: Vec<Arc<dyn Device>> = Vec::new();
    for index in 0..driver::device_count()? {
        match CudaDevice::open_with_target(index, images.clone(), target) {
            Ok(device) => all.push(Arc::new(device)),
            Err(DeviceError::Unsupported { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

fn forced_target() -> Result<Option<Target>, DeviceError> {
    parse_target(std::env::var(TARGET_VARIABLE).ok().as_deref())
}

fn parse_target(value: Option<&str>) -> Result<Option<Target>, DeviceError> {
    let Some(value) = value.filter(|v| !v.is_empty()) else { return Ok(None) };
    match value.parse::<Target>() {
        Ok(target) => Ok(Some(target).filter(|t| t.vendor() == Vendor::Cuda)),
        Err(what) => Err(DeviceError::NoDriver { backend: "cuda", what: format!("{TARGET_VARIABLE}: {what}") }),
    }
}

/// The target whose kernels a card of a compute capability runs; `None` for a card that is too old.
fn target_of(major: i32, minor: i32) -> Option<Target> {
    Some(match (major, minor) {
        (..=7, _) => return None,
        (8, 9) => Target::Sm89,
        // code for 8.0 runs on all of 8.x
        (8, _) => Target::Sm80,
        (9, 0) => Target::Sm90a,
        (10, _) => Target::Sm100,
        _ => Target::Compute80,
    })
}

/// A CUDA device.
#[derive(Debug)]
pub struct CudaDevice {
    context: Arc<Context>,
    caps: DeviceCaps,
    model: String,
}

impl CudaDevice {
    /// Device number `index`, with the target that [`TARGET_VARIABLE`] asks for, or else the one that fits the card best.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::NoDevice`], [`DeviceError::Unsupported`] for a card older than compute capability 8.0, and what
    /// the driver reports.
    pub fn open(index: usize, images: Arc<Images>) -> Result<Self, DeviceError> {
        Self::open_with_target(index, images, forced_target()?)
    }

    /// As [`open`](Self::open), with the target given; nothing is read from the environment.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_target(index: usize, images: Arc<Images>, target: Option<Target>) -> Result<Self, DeviceError> {
        let found = driver::device_count()?;
        if index >= found {
            return Err(DeviceError::NoDevice { backend: "cuda", index, found });
        }
        let name = format!("cuda:{index}");
        let device = driver::device(&name, index)?;
        let get = |attribute| driver::attribute(&name, device, attribute);
        let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let Some(best) = target_of(major, minor) else {
            return Err(DeviceError::Unsupported { device: name, what: "a card older than compute capability 8.0" });
        };
        let target = target.unwrap_or(best);
        if target.vendor() != Vendor::Cuda {
            return Err(DeviceError::Unsupported { device: name, what: "a target that is not NVIDIA's" });
        }
        let positive = |x: i32| u32::try_from(x).unwrap_or(0);
        let caps = DeviceCaps {
            target,
            units: positive(get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?).max(1),
            shared_memory: positive(get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?),
            // 8 is what every card with clusters has; kernels of older targets know none
            max_cluster: if major >= 9 && matches!(target, Target::Sm90a | Target::Sm100) { 8 } else { 1 },
            memory: driver::total_memory(&name, device)?,
        };
        let model = driver::model(&name, device)?;
        let pools = get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let context = Context::open(name, device, pools, caps.memory, images)?;
        Ok(CudaDevice { context, caps, model })
    }

    /// A queue on a stream that somebody else owns; null is the legacy default stream. Dropping the queue waits for the stream.
    ///
    /// # Safety
    /// `stream` is a `CUstream` (or `cudaStream_t`) of this device's primary context and outlives the queue, its events and its graphs. While the
    /// caller captures the stream into a graph of their own, the buffers that the queue is given must be kept alive by the caller.
    ///
    /// # Errors
    /// None so far.
    pub unsafe fn from_raw_stream(&self, stream: *mut c_void) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(queue::CudaQueue::borrowed(self.context.clone(), stream.cast())?))
    }
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        self.context.name.clone()
    }

    fn model(&self) -> String {
        self.model.clone()
    }

    fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        memory::CudaMemory::allocate(&self.context, bytes)
    }

    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer {
        memory::CudaMemory::borrow(&self.context, address, bytes)
    }

    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        self.context.make_current()?;
        let mut stream: sys::CUstream = std::ptr::null_mut();
        // SAFETY: the context is current and `stream` is writable
        unsafe { cu!(&self.context.name, cuStreamCreate(&mut stream, sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32)) }?;
        Ok(Box::new(queue::CudaQueue::owned(self.context.clone(), stream)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_there_is_an_error_and_no_panic() {
        if driver::present() {
            return;
        }
        for _ in 0..2 {
            assert!(matches!(devices(Arc::default()), Err(DeviceError::NoDriver { backend: "cuda", .. })));
            assert!(matches!(CudaDevice::open(0, Arc::default()), Err(DeviceError::NoDriver { backend: "cuda", .. })));
        }
    }

    #[test]
    fn targets_follow_the_compute_capability() {
        let cases = [
            ((7, 5), None),
            ((8, 0), Some(Target::Sm80)),
            ((8, 6), Some(Target::Sm80)),
            ((8, 7), Some(Target::Sm80)),
            ((8, 9), Some(Target::Sm89)),
            ((9, 0), Some(Target::Sm90a)),
            ((10, 0), Some(Target::Sm100)),
            ((10, 3), Some(Target::Sm100)),
            ((12, 0), Some(Target::Compute80)),
        ];
        for ((major, minor), target) in cases {
            assert_eq!(target_of(major, minor), target, "{major}.{minor}");
        }
    }

    #[test]
    fn a_forced_target_is_one_of_this_vendor() {
        assert_eq!(parse_target(None), Ok(None));
        assert_eq!(parse_target(Some("")), Ok(None));
        assert_eq!(parse_target(Some("compute_80")), Ok(Some(Target::Compute80)));
        assert_eq!(parse_target(Some("gfx90a")), Ok(None));
        assert!(matches!(parse_target(Some("sm_8")), Err(DeviceError::NoDriver { .. })));
    }
}
