//! The runtime library: whether it is there, and errors as [`DeviceError`].

use crate::sys::{self, hipDeviceAttribute_t, hipError_t};
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::LazyLock;
use warpwave_hal::DeviceError;

/// Calls a runtime function for a context; an error names the function. The expansion is unsafe: the caller says why the arguments are right.
macro_rules! hip {
    ($context:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        $context.driver.check(&$context.name, stringify!($function), $context.driver.hip.$function($($argument),*))
    };
}
pub(crate) use hip;

/// The loaded library.
pub(crate) struct Driver {
    pub(crate) hip: sys::Hip,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

static DRIVER: LazyLock<Result<Driver, DeviceError>> =
    LazyLock::new(|| load().map(|hip| Driver { hip }).map_err(|what| DeviceError::NoDriver { backend: "hip", what }));

/// The library, loaded at the first call.
pub(crate) fn driver() -> Result<&'static Driver, DeviceError> {
    DRIVER.as_ref().map_err(DeviceError::clone)
}

/// A library of another name or place, loaded once for each.
#[cfg(not(feature = "hip-runtime-sys"))]
pub(crate) fn at(path: &std::path::Path) -> Result<&'static Driver, DeviceError> {
    use std::collections::HashMap;
    use std::path::PathBuf;
    use std::sync::{Mutex, PoisonError};
    static LOADED: LazyLock<Mutex<HashMap<PathBuf, &'static Driver>>> = LazyLock::new(Mutex::default);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = loaded.get(path) {
        return Ok(driver);
    }
    let name = path.to_str().ok_or_else(|| DeviceError::NoDriver { backend: "hip", what: format!("{} is no name", path.display()) })?;
    let hip = load_first(&[name]).map_err(|what| DeviceError::NoDriver { backend: "hip", what })?;
    // handles refer to it for as long as the process lives, as to the one above
    let driver = Box::leak(Box::new(Driver { hip }));
    loaded.insert(path.into(), driver);
    Ok(driver)
}

/// The names of the library, newest first; the last one is there where ROCm's development files are.
#[cfg(not(feature = "hip-runtime-sys"))]
const LIBRARIES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

#[cfg(not(feature = "hip-runtime-sys"))]
fn load() -> Result<sys::Hip, String> {
    load_first(&LIBRARIES)
}

#[cfg(not(feature = "hip-runtime-sys"))]
fn load_first(names: &[&str]) -> Result<sys::Hip, String> {
    let mut errors = Vec::new();
    for name in names {
        // SAFETY: loads the HIP runtime, whose initialisers are safe to run at any time; its functions have had these signatures since 5.2
        match unsafe { sys::Hip::new(name) } {
            Ok(hip) => return Ok(hip),
            Err(e) => errors.push(e.to_string()),
        }
    }
    Err(errors.join("; "))
}

/// The library that the crate hip-runtime-sys linked the program with: it is loaded already, and its functions are looked up in the program.
#[cfg(feature = "hip-runtime-sys")]
fn load() -> Result<sys::Hip, String> {
    // keeps the linker from dropping a library that nothing refers to
    std::hint::black_box(hip_runtime_sys::hipGetDeviceCount as *const ());
    let program = libloading::Library::from(libloading::os::unix::Library::this());
    // SAFETY: the functions are those of the linked HIP runtime and have had these signatures since 5.2
    unsafe { sys::Hip::from_library(program) }.map_err(|e| e.to_string())
}

impl Driver {
    /// Number of devices.
    pub(crate) fn device_count(&self) -> Result<usize, DeviceError> {
        let mut n = 0;
        // SAFETY: `n` is writable
        match unsafe { self.hip.hipGetDeviceCount(&mut n) } {
            sys::hipError_t_hipErrorNoDevice => Ok(0),
            code => self.check("hip", "hipGetDeviceCount", code).map(|()| usize::try_from(n).unwrap_or(0)),
        }
    }

    /// An attribute that is a number.
    pub(crate) fn attribute(&self, name: &str, index: usize, attribute: hipDeviceAttribute_t) -> Result<i32, DeviceError> {
        let mut value = 0;
        // SAFETY: `value` is writable; no attribute asked for here is longer
        let code = unsafe { self.hip.hipDeviceGetAttribute(&mut value, attribute, index as i32) };
        self.check(name, "hipDeviceGetAttribute", code).map(|()| value)
    }

    /// The architecture's name, where the runtime gives it as an attribute.
    pub(crate) fn arch_name(&self, index: usize) -> Option<String> {
        // the header promises 256 bytes
        let mut buffer = [0i32; 128];
        let attribute = sys::hipDeviceAttribute_t_hipDeviceAttributeGcnArchName;
        // SAFETY: the buffer has twice the bytes that the attribute has
        if unsafe { self.hip.hipDeviceGetAttribute(buffer.as_mut_ptr(), attribute, index as i32) } != sys::hipError_t_hipSuccess {
            return None;
        }
        let bytes: Vec<u8> = buffer.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
        text.starts_with("gfx").then(|| text.to_string())
    }

    /// The maker's name of a device.
    pub(crate) fn model(&self, name: &str, index: usize) -> Result<String, DeviceError> {
        let device = self.device(name, index)?;
        let mut buffer = [0u8; 256];
        // SAFETY: the buffer is as long as the call is told
        let code = unsafe { self.hip.hipDeviceGetName(buffer.as_mut_ptr().cast::<c_char>(), buffer.len() as i32, device) };
        self.check(name, "hipDeviceGetName", code)?;
        Ok(CStr::from_bytes_until_nul(&buffer).map_or_else(|_| String::new(), |s| s.to_string_lossy().into_owned()))
    }

    /// Bytes of device memory.
    pub(crate) fn total_memory(&self, name: &str, index: usize) -> Result<u64, DeviceError> {
        let device = self.device(name, index)?;
        let mut bytes = 0;
        // SAFETY: `bytes` is writable
        let code = unsafe { self.hip.hipDeviceTotalMem(&mut bytes, device) };
        self.check(name, "hipDeviceTotalMem", code).map(|()| bytes as u64)
    }

    fn device(&self, name: &str, index: usize) -> Result<sys::hipDevice_t, DeviceError> {
        let mut device = 0;
        // SAFETY: `device` is writable
        let code = unsafe { self.hip.hipDeviceGet(&mut device, index as i32) };
        self.check(name, "hipDeviceGet", code).map(|()| device)
    }

    /// The runtime's name and text of an error.
    pub(crate) fn text(&self, code: hipError_t) -> String {
        let string = |p: *const c_char| {
            if p.is_null() {
                return String::new();
            }
            // SAFETY: the runtime returns strings that are never freed
            unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
        };
        // SAFETY: takes any number
        let name = string(unsafe { self.hip.hipGetErrorName(code) });
        // SAFETY: as above
        let text = string(unsafe { self.hip.hipGetErrorString(code) });
        match (name.is_empty(), text.is_empty() || text == name) {
            (false, false) => format!("{name}: {text}"),
            (false, true) => name,
            (true, _) => format!("error {code}"),
        }
    }

    /// Success, or an error that names the call.
    pub(crate) fn check(&self, device: &str, call: &'static str, code: hipError_t) -> Result<(), DeviceError> {
        match code {
            sys::hipError_t_hipSuccess => Ok(()),
            code => Err(DeviceError::Driver { device: device.into(), call, what: self.text(code) }),
        }
    }
}

#[cfg(all(test, not(feature = "hip-runtime-sys")))]
mod tests {
    /// Neither a missing library nor one without the functions ends in a panic; each name that was tried is told.
    #[test]
    fn a_library_that_does_not_fit_is_an_error() {
        let error = super::load_first(&["libno-such-library.so.1", "libc.so.6"]).err().unwrap();
        assert!(error.contains("libno-such-library.so.1") && error.contains("hipDeviceGet"), "{error}");
    }
}

/// The numbers of these bindings are those of an independent set, made from another version's header.
#[cfg(all(test, feature = "hip-runtime-sys"))]
mod tests {
    use crate::sys;
    use hip_runtime_sys as linked;

    #[test]
    fn both_bindings_agree() {
        use linked::{hipDeviceAttribute_t as Attribute, hipError_t as Error, hipStreamCaptureMode as Mode, hipStreamCaptureStatus as Status};
        let pairs = [
            (sys::hipError_t_hipErrorNoDevice, Error::hipErrorNoDevice as u32),
            (sys::hipError_t_hipErrorOutOfMemory, Error::hipErrorOutOfMemory as u32),
            (sys::hipError_t_hipErrorNotReady, Error::hipErrorNotReady as u32),
            (sys::hipError_t_hipErrorIllegalAddress, Error::hipErrorIllegalAddress as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeWarpSize, Attribute::hipDeviceAttributeWarpSize as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount, Attribute::hipDeviceAttributeMultiprocessorCount as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeMaxSharedMemoryPerBlock, Attribute::hipDeviceAttributeMaxSharedMemoryPerBlock as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMajor, Attribute::hipDeviceAttributeComputeCapabilityMajor as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMinor, Attribute::hipDeviceAttributeComputeCapabilityMinor as u32),
            (sys::hipDeviceAttribute_t_hipDeviceAttributeGcnArchName, Attribute::hipDeviceAttributeGcnArchName as u32),
            (sys::hipStreamCaptureMode_hipStreamCaptureModeThreadLocal, Mode::hipStreamCaptureModeThreadLocal as u32),
            (sys::hipStreamCaptureMode_hipStreamCaptureModeRelaxed, Mode::hipStreamCaptureModeRelaxed as u32),
            (sys::hipStreamCaptureStatus_hipStreamCaptureStatusNone, Status::hipStreamCaptureStatusNone as u32),
            (sys::hipStreamNonBlocking, linked::hipStreamNonBlocking),
            (sys::hipEventDisableTiming, linked::hipEventDisableTiming),
        ];
        for (i, (ours, theirs)) in pairs.into_iter().enumerate() {
            assert_eq!(ours, theirs, "pair {i}");
        }
    }

    #[test]
    fn both_ways_reach_the_same_library() {
        let driver = crate::driver::driver().unwrap();
        let mut n = -1;
        // SAFETY: `n` is writable
        let direct = unsafe { linked::hipGetDeviceCount(&mut n) };
        let mut m = -1;
        // SAFETY: `m` is writable
        let looked_up = unsafe { driver.hip.hipGetDeviceCount(&mut m) };
        assert_eq!((direct as u32, n), (looked_up, m));
        assert_eq!(driver.hip.hipGetDeviceCount as usize, linked::hipGetDeviceCount as *const () as usize);
    }
}
