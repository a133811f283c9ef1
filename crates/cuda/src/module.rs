//! Kernels of a device: loaded at their first launch, kept until the device goes.

use crate::context::{Relaxed, lock};
use crate::driver::{check, cu, text};
use cudarc::driver::sys::{self, CUfunction, CUjit_option, CUmodule, CUresult};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use warpwave_core::KernelId;
use warpwave_hal::{DeviceError, Images};

/// Bytes for what the driver's compiler has to say.
const LOG: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct Modules {
    images: Arc<Images>,
    loaded: Mutex<HashMap<KernelId, Arc<Kernel>>>,
}

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    module: CUmodule,
    pub(crate) function: CUfunction,
    /// Bytes of its argument block.
    pub(crate) args: usize,
    /// The dynamic shared memory that it may be launched with.
    shared: AtomicU32,
}

// SAFETY: the handles are those of the driver, whose functions may be called from any thread
unsafe impl Send for Kernel {}
// SAFETY: as above
unsafe impl Sync for Kernel {}

/// A driver error as one of a kernel.
pub(crate) fn of_kernel(id: &KernelId) -> impl FnOnce(DeviceError) -> DeviceError {
    move |e| match e {
        DeviceError::Driver { device, call, what } => DeviceError::Launch { device, kernel: id.to_string(), what: format!("{call}: {what}") },
        e => e,
    }
}

impl Modules {
    pub(crate) fn new(images: Arc<Images>) -> Self {
        Modules { images, loaded: Mutex::default() }
    }

    /// A kernel; the context is current.
    pub(crate) fn get(&self, device: &str, id: &KernelId) -> Result<Arc<Kernel>, DeviceError> {
        // the lock is held while loading, so that no kernel is loaded twice
        let mut loaded = lock(&self.loaded);
        if let Some(kernel) = loaded.get(id) {
            return Ok(kernel.clone());
        }
        let kernel = Arc::new(Kernel::load(device, id, self.images.find(id)?).map_err(of_kernel(id))?);
        loaded.insert(id.clone(), kernel.clone());
        Ok(kernel)
    }

    /// # Safety
    /// The context is current, no kernel of it runs or will run.
    pub(crate) unsafe fn unload(&self) {
        for (_, kernel) in lock(&self.loaded).drain() {
            // SAFETY: loaded by `load` and forgotten here; the caller's promise
            let _ = unsafe { sys::cuModuleUnload(kernel.module) };
        }
    }
}

impl Kernel {
    fn load(device: &str, id: &KernelId, mut image: Vec<u8>) -> Result<Self, DeviceError> {
        // PTX is text and ends with a NUL; a NUL behind a cubin does no harm
        image.push(0);
        let _relaxed = Relaxed::new();
        let mut log = vec![0u8; LOG];
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // the second value is a number in the place of a pointer
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG)];
        let mut module: CUmodule = null_mut();
        // SAFETY: the image is a whole cubin or NUL-terminated PTX, checked against its hash; there are as many values as options, and the log
        // is as long as the option says and outlives the call
        let code =
            unsafe { sys::cuModuleLoadDataEx(&mut module, image.as_ptr().cast(), options.len() as u32, options.as_mut_ptr(), values.as_mut_ptr()) };
        if code != CUresult::CUDA_SUCCESS {
            let end = log.iter().position(|&b| b == 0).unwrap_or(LOG);
            let log = String::from_utf8_lossy(&log[..end]);
            let what = if log.trim().is_empty() { text(code) } else { format!("{}\n{}", text(code), log.trim()) };
            return Err(DeviceError::Driver { device: device.into(), call: "cuModuleLoadDataEx", what });
        }
        let unload = |e| {
            // SAFETY: loaded above, and nothing of it is used any more
            let _ = unsafe { sys::cuModuleUnload(module) };
            e
        };
        let symbol = CString::new(id.symbol()).unwrap_or_default();
        let mut function: CUfunction = null_mut();
        // SAFETY: the module is loaded, the name ends with a NUL
        unsafe { cu!(device, cuModuleGetFunction(&mut function, module, symbol.as_ptr())) }.map_err(unload)?;
        let (mut offset, mut args) = (0, 0);
        // SAFETY: both results are writable
        unsafe { cu!(device, cuFuncGetParamInfo(function, 0, &mut offset, &mut args)) }.map_err(unload)?;
        Ok(Kernel { module, function, args, shared: AtomicU32::new(0) })
    }

    /// Lets the kernel be launched with `bytes` bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, device: &str, bytes: u32) -> Result<(), DeviceError> {
        if bytes <= self.shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded
        let code = unsafe { sys::cuFuncSetAttribute(self.function, attribute, i32::try_from(bytes).unwrap_or(i32::MAX)) };
        check(device, "cuFuncSetAttribute", code)?;
        // two threads may set it in any order; a kernel is always launched with the same number
        self.shared.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}
