//! The AMD backend: kernels that hipcc compiled ahead of time, launched through the HIP runtime. `libamdhip64` (of ROCm 5, 6 or 7) is loaded at
//! run time; without it every entry point answers [`DeviceError::NoDriver`].
//!
//! With the feature `hip-runtime-sys` the library is linked when the program is built, by the crate of that name; all else stays the same.
//!
//! A queue keeps a reference to each buffer that its work uses; a buffer whose other references are gone is freed when a later
//! [`Device::allocate`], [`Queue::sync`] or the like sees that the work is done.

mod context;
mod driver;
mod memory;
mod module;
mod queue;
#[allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    reason = "made from a C header"
)]
mod sys;

use context::Context;
use driver::{Driver, hip};
use std::ffi::c_void;
use std::sync::Arc;
use warpwave_core::{DeviceCaps, Target, Vendor};
use warpwave_hal::{Device, DeviceBuffer, DeviceError, Images, Queue};

/// The environment variable that forces the target of [`HipDevice::open`] and [`devices`]. A target of another vendor is ignored.
pub const TARGET_VARIABLE: &str = "WARPWAVE_TARGET";

/// Every AMD device that can run warpwave, by number; those of an architecture that no kernels are built for are left out.
///
/// # Errors
/// [`DeviceError::NoDriver`] where there is no HIP runtime; what it reports.
pub fn devices(images: Arc<Images>) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let target = forced_target()?;
    let mut all: Vec<Arc<dyn Device>> = Vec::new();
    for index in 0..driver::driver()?.device_count()? {
        match HipDevice::open_with_target(index, images.clone(), target) {
            Ok(device) => all.push(Arc::new(device)),
            Err(DeviceError::Unsupported { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

/// Every device of a runtime that is loaded from `library` instead of ROCm's: [the interpreter's](https://docs.rs/warpwave-hip-interp), which executes
/// code objects on the CPU. They are named `hip-interp:` and their architecture, never as hardware.
///
/// # Errors
/// As [`devices`].
#[cfg(not(feature = "hip-runtime-sys"))]
pub fn interpreted_devices(library: &std::path::Path, images: Arc<Images>) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let driver = driver::at(library)?;
    let mut all: Vec<Arc<dyn Device>> = Vec::new();
    for index in 0..driver.device_count()? {
        let arch = driver.arch_name(index).unwrap_or_default();
        all.push(Arc::new(HipDevice::of_driver(driver, format!("hip-interp:{arch}"), index, images.clone(), None)?));
    }
    Ok(all)
}

fn forced_target() -> Result<Option<Target>, DeviceError> {
    parse_target(std::env::var(TARGET_VARIABLE).ok().as_deref())
}

fn parse_target(value: Option<&str>) -> Result<Option<Target>, DeviceError> {
    let Some(value) = value.filter(|v| !v.is_empty()) else { return Ok(None) };
    match value.parse::<Target>() {
        Ok(target) => Ok(Some(target).filter(|t| t.vendor() == Vendor::Hip)),
        Err(what) => Err(DeviceError::NoDriver { backend: "hip", what: format!("{TARGET_VARIABLE}: {what}") }),
    }
}

/// The target of an architecture's name as the runtime writes it, with or without features: `gfx90a:sramecc+:xnack-`.
fn target_of_name(name: &str) -> Option<Target> {
    name.split(':').next().unwrap_or(name).parse::<Target>().ok().filter(|t| t.vendor() == Vendor::Hip)
}

/// The target of the first two parts of an architecture's version. They leave the stepping open: a card of another one (gfx908 is 9.0, as gfx90a
/// is) then refuses its first kernel with an error that names it.
fn target_of_version(major: i32, minor: i32) -> Option<Target> {
    match (major, minor) {
        (9, 0) => Some(Target::Gfx90a),
        (9, 4) => Some(Target::Gfx942),
        (11, 0) => Some(Target::Gfx1100),
        _ => None,
    }
}

/// The target of a device. Only `hipDeviceProp_t` has the architecture's name for certain, and its layout changed from ROCm 5 to 6; so the name
/// is asked for as an attribute, which a runtime need not know, then looked for in the device's name, and last derived from the version.
fn target_of_device(driver: &Driver, name: &str, index: usize, model: &str) -> Result<Option<Target>, DeviceError> {
    if let Some(arch) = driver.arch_name(index) {
        return Ok(target_of_name(&arch));
    }
    if let Some(arch) = model.split_whitespace().find(|w| w.starts_with("gfx")) {
        return Ok(target_of_name(arch));
    }
    let major = driver.attribute(name, index, sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMajor)?;
    let minor = driver.attribute(name, index, sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMinor)?;
    Ok(target_of_version(major, minor))
}

/// An AMD device.
#[derive(Debug)]
pub struct HipDevice {
    context: Arc<Context>,
    caps: DeviceCaps,
    model: String,
}

impl HipDevice {
    /// Device number `index`, with the target that [`TARGET_VARIABLE`] asks for, or else that of its architecture.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::NoDevice`], [`DeviceError::Unsupported`] for an architecture that no kernels are built for, and
    /// what the runtime reports.
    pub fn open(index: usize, images: Arc<Images>) -> Result<Self, DeviceError> {
        Self::open_with_target(index, images, forced_target()?)
    }

    /// As [`open`](Self::open), with the target given; nothing is read from the environment.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_target(index: usize, images: Arc<Images>, target: Option<Target>) -> Result<Self, DeviceError> {
        let driver = driver::driver()?;
        let found = driver.device_count()?;
        if index >= found {
            return Err(DeviceError::NoDevice { backend: "hip", index, found });
        }
        Self::of_driver(driver, format!("hip:{index}"), index, images, target)
    }

    fn of_driver(driver: &'static Driver, name: String, index: usize, images: Arc<Images>, target: Option<Target>) -> Result<Self, DeviceError> {
        let unsupported = |what| DeviceError::Unsupported { device: name.clone(), what };
        let model = driver.model(&name, index)?;
        let target = match target {
            Some(target) if target.vendor() == Vendor::Hip => target,
            Some(_) => return Err(unsupported("a target that is not AMD's")),
            None => target_of_device(driver, &name, index, &model)?.ok_or_else(|| unsupported("this architecture"))?,
        };
        let get = |attribute| driver.attribute(&name, index, attribute).map(|x| u32::try_from(x).unwrap_or(0));
        if get(sys::hipDeviceAttribute_t_hipDeviceAttributeWarpSize)? != target.warp_width() {
            return Err(unsupported("a target of another wave width"));
        }
        let caps = DeviceCaps {
            target,
            units: get(sys::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount)?.max(1),
            shared_memory: get(sys::hipDeviceAttribute_t_hipDeviceAttributeMaxSharedMemoryPerBlock)?,
            max_cluster: 1,
            memory: driver.total_memory(&name, index)?,
        };
        let context = Context::open(driver, name, index, caps.memory, images)?;
        Ok(HipDevice { context, caps, model })
    }

    /// A queue on a stream that somebody else owns; null is the default stream. Dropping the queue waits for the stream.
    ///
    /// # Safety
    /// `stream` is a `hipStream_t` of this device and outlives the queue, its events and its graphs. While the caller captures the stream into a
    /// graph of their own, the buffers that the queue is given must be kept alive by the caller.
    ///
    /// # Errors
    /// None so far.
    pub unsafe fn from_raw_stream(&self, stream: *mut c_void) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(queue::HipQueue::borrowed(self.context.clone(), stream.cast())?))
    }
}

impl Device for HipDevice {
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
        memory::HipMemory::allocate(&self.context, bytes)
    }

    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer {
        memory::HipMemory::borrow(&self.context, address, bytes)
    }

    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        self.context.make_current()?;
        let mut stream: sys::hipStream_t = std::ptr::null_mut();
        // SAFETY: the device is current and `stream` is writable
        unsafe { hip!(self.context, hipStreamCreateWithFlags(&mut stream, sys::hipStreamNonBlocking)) }?;
        Ok(Box::new(queue::HipQueue::owned(self.context.clone(), stream)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine without a card, with or without the runtime, must answer; both ways to reach the library are held to it.
    #[test]
    fn without_a_device_there_is_an_error_and_no_panic() {
        let driver = match driver::driver() {
            Ok(driver) => driver,
            Err(e) => {
                assert!(matches!(e, DeviceError::NoDriver { backend: "hip", .. }), "{e}");
                assert!(matches!(devices(Arc::default()), Err(DeviceError::NoDriver { .. })));
                assert!(matches!(HipDevice::open(0, Arc::default()), Err(DeviceError::NoDriver { .. })));
                return;
            }
        };
        if driver.device_count() != Ok(0) {
            return;
        }
        assert!(devices(Arc::default()).unwrap().is_empty());
        assert_eq!(HipDevice::open(0, Arc::default()).unwrap_err(), DeviceError::NoDevice { backend: "hip", index: 0, found: 0 });
        assert!(driver.text(sys::hipError_t_hipErrorNoDevice).contains("hipErrorNoDevice"));
        let error = driver.attribute("hip:0", 0, sys::hipDeviceAttribute_t_hipDeviceAttributeWarpSize).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { call: "hipDeviceGetAttribute", .. }), "{error}");
        assert_eq!(driver.arch_name(0), None);
    }

    #[test]
    fn targets_follow_the_architecture() {
        assert_eq!(target_of_name("gfx90a:sramecc+:xnack-"), Some(Target::Gfx90a));
        assert_eq!(target_of_name("gfx942"), Some(Target::Gfx942));
        assert_eq!(target_of_name("gfx908"), None);
        assert_eq!(target_of_name("sm_80"), None);
        assert_eq!(target_of_version(9, 0), Some(Target::Gfx90a));
        assert_eq!(target_of_version(9, 4), Some(Target::Gfx942));
        assert_eq!(target_of_version(11, 0), Some(Target::Gfx1100));
        assert_eq!(target_of_version(10, 3), None);
    }

    #[test]
    fn a_forced_target_is_one_of_this_vendor() {
        assert_eq!(parse_target(None), Ok(None));
        assert_eq!(parse_target(Some("gfx1100")), Ok(Some(Target::Gfx1100)));
        assert_eq!(parse_target(Some("sm_80")), Ok(None));
        assert!(matches!(parse_target(Some("gfx")), Err(DeviceError::NoDriver { .. })));
    }
}
