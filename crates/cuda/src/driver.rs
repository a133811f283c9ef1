//! The driver library: whether it is there, and errors as [`DeviceError`].

use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute, CUresult};
use std::ffi::{CStr, c_char};
use std::sync::LazyLock;
use warpwave_hal::DeviceError;

/// Calls a driver function; an error names the function. The expansion is unsafe: the caller says why the arguments are right.
macro_rules! cu {
    ($device:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        $crate::driver::check($device, stringify!($function), cudarc::driver::sys::$function($($argument),*))
    };
}
pub(crate) use cu;

/// Every function that this crate calls: the bindings panic where one is missing, so all are looked up first.
const FUNCTIONS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetParamInfo",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAllocFromPoolAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
    "cuThreadExchangeStreamCaptureMode",
];

/// Whether the driver library can be loaded.
pub(crate) fn present() -> bool {
    // SAFETY: loads libcuda, whose initialisers are safe to run at any time
    unsafe { sys::is_culib_present() }
}

static DRIVER: LazyLock<Result<(), DeviceError>> = LazyLock::new(|| {
    let no_driver = |what: String| Err(DeviceError::NoDriver { backend: "cuda", what });
    if !present() {
        return no_driver("libcuda cannot be loaded".into());
    }
    // SAFETY: `present` has just loaded the library that this loads again
    let library = unsafe { sys::culib() };
    for name in FUNCTIONS {
        // SAFETY: the symbol is only looked up, never called through this type
        if unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return no_driver(format!("libcuda is too old: it lacks {name}; CUDA 12.8 or newer is needed"));
        }
    }
    // SAFETY: the flags must be 0, and are
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_NO_DEVICE => Ok(()),
        code => no_driver(format!("cuInit: {}", text(code))),
    }
});

/// Number of devices; also what initialises the driver.
pub(crate) fn device_count() -> Result<usize, DeviceError> {
    DRIVER.clone()?;
    let mut n = 0;
    // SAFETY: `n` is writable
    match unsafe { sys::cuDeviceGetCount(&mut n) } {
        // a driver without a device refuses to be initialised
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_NOT_INITIALIZED => return Ok(0),
        code => check("cuda", "cuDeviceGetCount", code)?,
    }
    Ok(usize::try_from(n).unwrap_or(0))
}

/// The handle of a device.
pub(crate) fn device(name: &str, index: usize) -> Result<CUdevice, DeviceError> {
    let mut device = 0;
    // SAFETY: `device` is writable
    unsafe { cu!(name, cuDeviceGet(&mut device, index as i32)) }?;
    Ok(device)
}

/// An attribute of a device.
pub(crate) fn attribute(name: &str, device: CUdevice, attribute: CUdevice_attribute) -> Result<i32, DeviceError> {
    let mut value = 0;
    // SAFETY: `value` is writable
    unsafe { cu!(name, cuDeviceGetAttribute(&mut value, attribute, device)) }?;
    Ok(value)
}

/// Bytes of device memory.
pub(crate) fn total_memory(name: &str, device: CUdevice) -> Result<u64, DeviceError> {
    let mut bytes = 0;
    // SAFETY: `bytes` is writable
    unsafe { cu!(name, cuDeviceTotalMem_v2(&mut bytes, device)) }?;
    Ok(bytes as u64)
}

/// The maker's name of a device.
pub(crate) fn model(name: &str, device: CUdevice) -> Result<String, DeviceError> {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer is as long as the call is told
    unsafe { cu!(name, cuDeviceGetName(buffer.as_mut_ptr().cast::<c_char>(), buffer.len() as i32, device)) }?;
    Ok(CStr::from_bytes_until_nul(&buffer).map_or_else(|_| String::new(), |s| s.to_string_lossy().into_owned()))
}

/// The driver's name and text of an error.
pub(crate) fn text(code: CUresult) -> String {
    let string = |get: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut p: *const c_char = std::ptr::null();
        // SAFETY: both functions take any code and a writable pointer
        let result = unsafe { get(code, &mut p) };
        if result != CUresult::CUDA_SUCCESS || p.is_null() {
            return None;
        }
        // SAFETY: on success the pointer is to a string of the driver that is never freed
        Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
    };
    let name = string(sys::cuGetErrorName).unwrap_or_else(|| format!("error {}", code as u32));
    match string(sys::cuGetErrorString) {
        Some(text) => format!("{name}: {text}"),
        None => name,
    }
}

/// Success, or an error that names the call.
pub(crate) fn check(device: &str, call: &'static str, code: CUresult) -> Result<(), DeviceError> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(DeviceError::Driver { device: device.into(), call, what: text(code) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A function that the sources call and that is not looked up first would panic on an older driver.
    #[test]
    fn all_functions_are_looked_up() {
        let mut called = Vec::new();
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if word.strip_prefix("cu").is_some_and(|w| w.starts_with(|c: char| c.is_ascii_uppercase())) {
                    called.push(word.to_string());
                }
            }
        }
        assert!(called.len() > FUNCTIONS.len());
        let missing: Vec<_> = called.iter().filter(|c| !FUNCTIONS.contains(&c.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
