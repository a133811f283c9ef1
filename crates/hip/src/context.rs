//! What all of a device shares: memory, kernels, queues.

use crate::driver::{Driver, hip};
use crate::module::Modules;
use crate::queue::Stream;
use crate::sys;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use warpwave_hal::{DeviceError, Images};

/// A lock that a panic elsewhere does not poison: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device address as the runtime takes it.
pub(crate) fn pointer(address: u64) -> *mut c_void {
    with_exposed_provenance_mut(address as usize)
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) name: String,
    index: i32,
    /// Bytes of device memory.
    memory: u64,
    pub(crate) modules: Modules,
    /// The queues' streams: what may hold buffers that nobody else does.
    streams: Mutex<Vec<Weak<Stream>>>,
}

/// Lets this thread call what a capture on it would forbid: memory, modules and events that are no part of the graph.
pub(crate) struct Relaxed {
    driver: &'static Driver,
    before: sys::hipStreamCaptureMode,
}

impl Relaxed {
    pub(crate) fn new(driver: &'static Driver) -> Self {
        let mut mode = sys::hipStreamCaptureMode_hipStreamCaptureModeRelaxed;
        // SAFETY: `mode` is writable; on failure it stays as it is, and so does the thread's mode
        let _ = unsafe { driver.hip.hipThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed { driver, before: mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: `before` is writable
        let _ = unsafe { self.driver.hip.hipThreadExchangeStreamCaptureMode(&mut self.before) };
    }
}

impl Context {
    pub(crate) fn open(driver: &'static Driver, name: String, index: usize, memory: u64, images: Arc<Images>) -> Result<Arc<Self>, DeviceError> {
        let context = Context { driver, name, index: index as i32, memory, modules: Modules::new(images), streams: Mutex::default() };
        context.make_current()?;
        Ok(Arc::new(context))
    }

    /// Makes the device the calling thread's.
    pub(crate) fn make_current(&self) -> Result<(), DeviceError> {
        // SAFETY: takes any number
        unsafe { hip!(self, hipSetDevice(self.index)) }
    }

    pub(crate) fn add_stream(&self, stream: &Arc<Stream>) {
        let mut all = lock(&self.streams);
        all.retain(|s| s.strong_count() > 0);
        all.push(Arc::downgrade(stream));
    }

    fn live_streams(&self) -> Vec<Arc<Stream>> {
        lock(&self.streams).iter().filter_map(Weak::upgrade).collect()
    }

    /// New memory; `bytes` is not 0.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<u64, DeviceError> {
        let full = || DeviceError::OutOfMemory { device: self.name.clone(), bytes };
        let size = usize::try_from(bytes).map_err(|_| full())?;
        if bytes > self.memory {
            return Err(full());
        }
        self.make_current()?;
        let _relaxed = Relaxed::new(self.driver);
        let streams = self.live_streams();
        for stream in &streams {
            stream.sweep()?;
        }
        if let Some(address) = self.try_allocate(size)? {
            return Ok(address);
        }
        // wait for all that is running, so that buffers that nobody else holds come back
        for stream in &streams {
            stream.finish_unless_capturing()?;
        }
        self.try_allocate(size)?.ok_or_else(full)
    }

    /// `None` where memory is short.
    fn try_allocate(&self, size: usize) -> Result<Option<u64>, DeviceError> {
        let mut address: *mut c_void = null_mut();
        // SAFETY: `address` is writable and the device current
        let code = unsafe { self.driver.hip.hipMalloc(&mut address, size) };
        if code == sys::hipError_t_hipErrorOutOfMemory {
            return Ok(None);
        }
        self.driver.check(&self.name, "hipMalloc", code)?;
        Ok(Some(address.expose_provenance() as u64))
    }

    /// Frees memory that no queue uses any more.
    ///
    /// # Safety
    /// `address` is from [`allocate`](Self::allocate) of this context, not freed before, and no work that uses it is left.
    pub(crate) unsafe fn free(&self, address: u64) {
        if self.make_current().is_err() {
            return;
        }
        let _relaxed = Relaxed::new(self.driver);
        // nothing can be done about an error: after a fault every call fails until the process ends
        // SAFETY: the caller's promise
        let _ = unsafe { self.driver.hip.hipFree(pointer(address)) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.make_current().is_ok() {
            let _relaxed = Relaxed::new(self.driver);
            // SAFETY: streams, queues and graphs hold a reference to the context, so no kernel of it runs or will run
            unsafe { self.modules.unload(self.driver) };
        }
    }
}
