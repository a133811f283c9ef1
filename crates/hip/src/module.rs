//! Kernels of a device: loaded at their first launch, kept until the device goes.

use crate::context::{Context, Relaxed, lock};
use crate::driver::{Driver, hip};
use crate::sys::{hipFunction_t, hipModule_t};
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use warpwave_core::KernelId;
use warpwave_hal::{DeviceError, Images};

#[derive(Debug)]
pub(crate) struct Modules {
    images: Arc<Images>,
    loaded: Mutex<HashMap<KernelId, Arc<Kernel>>>,
}

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    module: hipModule_t,
    pub(crate) function: hipFunction_t,
    /// The code object: the runtime may read it after it was loaded.
    _image: Vec<u8>,
}

// SAFETY: the handles are those of the runtime, whose functions may be called from any thread
unsafe impl Send for Kernel {}
// SAFETY: as above
unsafe impl Sync for Kernel {}

/// A runtime error as one of a kernel.
fn of_kernel(id: &KernelId) -> impl FnOnce(DeviceError) -> DeviceError {
    move |e| match e {
        DeviceError::Driver { device, call, what } => DeviceError::Launch { device, kernel: id.to_string(), what: format!("{call}: {what}") },
        e => e,
    }
}

impl Modules {
    pub(crate) fn new(images: Arc<Images>) -> Self {
        Modules { images, loaded: Mutex::default() }
    }

    /// A kernel of `context`, whose modules these are and whose device is current.
    pub(crate) fn get(&self, context: &Context, id: &KernelId) -> Result<Arc<Kernel>, DeviceError> {
        // the lock is held while loading, so that no kernel is loaded twice
        let mut loaded = lock(&self.loaded);
        if let Some(kernel) = loaded.get(id) {
            return Ok(kernel.clone());
        }
        let kernel = Arc::new(Kernel::load(context, id, self.images.find(id)?).map_err(of_kernel(id))?);
        loaded.insert(id.clone(), kernel.clone());
        Ok(kernel)
    }

    /// # Safety
    /// The device is current, no kernel of it runs or will run.
    pub(crate) unsafe fn unload(&self, driver: &Driver) {
        for (_, kernel) in lock(&self.loaded).drain() {
            // SAFETY: loaded by `load` and forgotten here; the caller's promise
            let _ = unsafe { driver.hip.hipModuleUnload(kernel.module) };
        }
    }
}

impl Kernel {
    fn load(context: &Context, id: &KernelId, image: Vec<u8>) -> Result<Self, DeviceError> {
        let _relaxed = Relaxed::new(context.driver);
        let mut module: hipModule_t = null_mut();
        // SAFETY: `module` is writable; the image is a whole code object, checked against its hash, and outlives the module
        unsafe { hip!(context, hipModuleLoadData(&mut module, image.as_ptr().cast())) }?;
        let symbol = CString::new(id.symbol()).unwrap_or_default();
        let mut function: hipFunction_t = null_mut();
        // SAFETY: the module is loaded, the name ends with a NUL
        unsafe { hip!(context, hipModuleGetFunction(&mut function, module, symbol.as_ptr())) }.inspect_err(|_| {
            // SAFETY: loaded above, and nothing of it is used any more
            let _ = unsafe { context.driver.hip.hipModuleUnload(module) };
        })?;
        Ok(Kernel { module, function, _image: image })
    }
}
