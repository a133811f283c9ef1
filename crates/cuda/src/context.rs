//! What all of a device shares: its primary context, memory pool, kernels, queues.

use crate::driver::cu;
use crate::module::Modules;
use crate::queue::Stream;
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUmemoryPool, CUresult, CUstream, CUstreamCaptureMode};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use warpwave_hal::{DeviceError, Images};

/// A lock that a panic elsewhere does not poison: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) name: String,
    device: CUdevice,
    raw: CUcontext,
    /// Where memory comes from; `None` where the device has no pools.
    pool: Option<Pool>,
    /// Bytes of device memory.
    memory: u64,
    pub(crate) modules: Modules,
    /// The queues' streams: what may hold buffers that nobody else does.
    streams: Mutex<Vec<Weak<Stream>>>,
}

#[derive(Debug)]
struct Pool {
    raw: CUmemoryPool,
    /// Allocates and frees in order. Only memory that no queue uses any more is freed, so nothing on it ever waits for a kernel.
    stream: CUstream,
}

// SAFETY: the handles are those of the driver, whose functions may be called from any thread; all else in a Context is Send and Sync
unsafe impl Send for Context {}
// SAFETY: as above
unsafe impl Sync for Context {}

/// Lets this thread call what a capture on it would forbid: memory, modules and events that are no part of the graph.
pub(crate) struct Relaxed {
    before: CUstreamCaptureMode,
}

impl Relaxed {
    pub(crate) fn new() -> Self {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is writable; on failure it stays as it is, and so does the thread's mode
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed { before: mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: `before` is writable
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.before) };
    }
}

impl Context {
    pub(crate) fn open(name: String, device: CUdevice, pools: bool, memory: u64, images: Arc<Images>) -> Result<Arc<Self>, DeviceError> {
        let mut raw: CUcontext = null_mut();
        // SAFETY: `raw` is writable and the device handle is the driver's
        unsafe { cu!(&name, cuDevicePrimaryCtxRetain(&mut raw, device)) }?;
        // from here on dropping the context undoes what is done
        let mut context = Context { name, device, raw, pool: None, memory, modules: Modules::new(images), streams: Mutex::default() };
        context.make_current()?;
        if pools {
            context.pool = Some(Pool::new(&context.name, device)?);
        }
        Ok(Arc::new(context))
    }

    /// Makes the context the calling thread's.
    pub(crate) fn make_current(&self) -> Result<(), DeviceError> {
        // SAFETY: the context is retained until `self` is dropped
        unsafe { cu!(&self.name, cuCtxSetCurrent(self.raw)) }
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
        let _relaxed = Relaxed::new();
        let streams = self.live_streams();
        for stream in &streams {
            stream.sweep()?;
        }
        if let Some(address) = self.try_allocate(size)? {
            return Ok(address);
        }
        // wait for all that is running, so that buffers that nobody else holds come back, and return what the pool hoards to the device
        for stream in &streams {
            stream.finish_unless_capturing()?;
        }
        if let Some(pool) = &self.pool {
            // SAFETY: stream and pool live as long as `self`
            unsafe { cu!(&self.name, cuStreamSynchronize(pool.stream)) }?;
            // SAFETY: as above
            unsafe { cu!(&self.name, cuMemPoolTrimTo(pool.raw, 0)) }?;
        }
        self.try_allocate(size)?.ok_or_else(full)
    }

    /// `None` where memory is short.
    fn try_allocate(&self, size: usize) -> Result<Option<u64>, DeviceError> {
        let mut address = 0;
        let (call, code) = match &self.pool {
            // SAFETY: `address` is writable; pool and stream live as long as `self`
            Some(pool) => ("cuMemAllocFromPoolAsync", unsafe { sys::cuMemAllocFromPoolAsync(&mut address, size, pool.raw, pool.stream) }),
            // SAFETY: `address` is writable and the context is current
            None => ("cuMemAlloc_v2", unsafe { sys::cuMemAlloc_v2(&mut address, size) }),
        };
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Ok(None);
        }
        crate::driver::check(&self.name, call, code)?;
        if let Some(pool) = &self.pool {
            // so that any stream may use the memory at once
            // SAFETY: the stream lives as long as `self`
            unsafe { cu!(&self.name, cuStreamSynchronize(pool.stream)) }?;
        }
        Ok(Some(address))
    }

    /// Gives memory back that no queue uses any more.
    ///
    /// # Safety
    /// `address` is from [`allocate`](Self::allocate) of this context, not freed before, and no work that uses it is left.
    pub(crate) unsafe fn free(&self, address: u64) {
        if self.make_current().is_err() {
            return;
        }
        let _relaxed = Relaxed::new();
        // nothing can be done about an error: after a fault every call fails until the process ends
        let _ = match &self.pool {
            // SAFETY: the caller's promise; the stream lives as long as `self`
            Some(pool) => unsafe { sys::cuMemFreeAsync(address, pool.stream) },
            // SAFETY: the caller's promise
            None => unsafe { sys::cuMemFree_v2(address) },
        };
    }
}

impl Pool {
    fn new(name: &str, device: CUdevice) -> Result<Self, DeviceError> {
        // SAFETY: a struct of integers, C enums that have a variant of value 0, and a pointer, for which all zeroes are a value
        let mut props: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        props.allocType = sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = sys::CUmemAllocationHandleType_enum::CU_MEM_HANDLE_TYPE_NONE;
        props.location.type_ = sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = device;
        let mut stream: CUstream = null_mut();
        // SAFETY: the context is current and `stream` is writable
        unsafe { cu!(name, cuStreamCreate(&mut stream, sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32)) }?;
        let mut pool = Pool { raw: null_mut(), stream };
        let result = {
            // SAFETY: `raw` is writable, and the properties are complete
            unsafe { cu!(name, cuMemPoolCreate(&mut pool.raw, &props)) }.and_then(|()| {
                // by default the pool gives all memory back at each synchronisation
                let mut keep = u64::MAX;
                let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
                // SAFETY: this attribute is a 64-bit integer
                unsafe { cu!(name, cuMemPoolSetAttribute(pool.raw, attribute, (&raw mut keep).cast())) }
            })
        };
        match result {
            Ok(()) => Ok(pool),
            Err(e) => {
                // SAFETY: both are this function's own, and nothing was allocated from them
                unsafe { pool.destroy() };
                Err(e)
            }
        }
    }

    /// # Safety
    /// All memory of the pool is freed, and it is not used again.
    unsafe fn destroy(&self) {
        // SAFETY: the stream is the pool's own
        let _ = unsafe { sys::cuStreamSynchronize(self.stream) };
        if !self.raw.is_null() {
            // SAFETY: the caller's promise
            let _ = unsafe { sys::cuMemPoolDestroy(self.raw) };
        }
        // SAFETY: as above
        let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.make_current().is_ok() {
            let _relaxed = Relaxed::new();
            if let Some(pool) = &self.pool {
                // SAFETY: buffers hold a reference to the context, so none is left
                unsafe { pool.destroy() };
            }
            // SAFETY: streams, queues and graphs hold a reference to the context, so no kernel of it runs or will run
            unsafe { self.modules.unload() };
        }
        // SAFETY: retained once in `open`
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
