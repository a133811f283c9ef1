//! The seam between warpwave and a device: two object-safe traits, [`Device`] and [`Queue`], and what passes between them.
//!
//! A backend moves buffers and launches kernels; it names no op. Checks are the caller's: [`bind`] turns a valid problem, its plan and views
//! of device memory into [`Work`], and a backend may rely on what that guarantees. Errors cover only what a caller cannot foresee.

mod bind;
mod error;
pub mod images;
pub mod null;

pub use bind::{BoundFill, BoundLaunch, BoundMap, BoundStep, View, Work, bind};
pub use error::DeviceError;
pub use images::Images;

use std::fmt::Debug;
use std::sync::Arc;
use warpwave_core::DeviceCaps;

/// A piece of device memory. Dropping the last reference frees it once the work that uses it is done.
pub trait Memory: Debug + Send + Sync {
    /// Device address of the first byte; a multiple of 256 for memory from [`Device::allocate`].
    fn address(&self) -> u64;
    /// Size in bytes.
    fn bytes(&self) -> u64;
}

/// Shared device memory.
pub type DeviceBuffer = Arc<dyn Memory>;

/// A device that runs kernels.
pub trait Device: Debug + Send + Sync {
    /// The name by which it is chosen: `cpu`, `cpu:64`, `cuda:0`, `hip:0`.
    fn name(&self) -> String;

    /// The maker's name for it.
    fn model(&self) -> String;

    /// What plans may know.
    fn caps(&self) -> &DeviceCaps;

    /// New memory of `bytes` bytes, contents undefined. 0 bytes are allowed.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; the device works on afterwards.
    fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError>;

    /// Memory that somebody else owns.
    ///
    /// # Safety
    /// `address` is device memory of at least `bytes` bytes that outlives the returned buffer and every queue operation that uses it.
    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer;

    /// A new queue: operations on it run in order.
    ///
    /// # Errors
    /// What the driver reports.
    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError>;
}

/// Work in order. All but [`download`](Queue::download) and [`sync`](Queue::sync) may return before the device is done; errors of the device
/// then surface at the next `sync` or `download`.
pub trait Queue: Debug + Send {
    /// Copies `bytes` into a buffer, from byte `offset` on.
    ///
    /// # Errors
    /// What the driver reports.
    fn upload(&self, to: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from byte `offset` of a buffer; returns when `out` is filled.
    ///
    /// # Errors
    /// What the driver reports, also for earlier work.
    fn download(&self, from: &DeviceBuffer, offset: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Sets `bytes` bytes from byte `offset` on.
    ///
    /// # Errors
    /// What the driver reports.
    fn fill(&self, to: &DeviceBuffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError>;

    /// Runs bound steps.
    ///
    /// # Safety
    /// The memory that the work names is live until the queue is done with it, and no other queue writes it meanwhile. All else is
    /// guaranteed by [`bind`]: every address lies in its buffer, alignment is as the plan assumed, no output overlaps an operand.
    ///
    /// # Errors
    /// [`DeviceError::KernelNotBuilt`] and what the driver reports.
    unsafe fn run(&self, work: &Work) -> Result<(), DeviceError>;

    /// Marks this point of the queue.
    ///
    /// # Errors
    /// What the driver reports.
    fn record(&self) -> Result<Box<dyn Event>, DeviceError>;

    /// Lets later work of this queue wait for an event, which may be of another queue of the same device.
    ///
    /// # Errors
    /// What the driver reports.
    fn wait(&self, event: &dyn Event) -> Result<(), DeviceError>;

    /// Address of the 4 bytes where kernels report an index out of range; 0 for a device that runs none.
    fn error_word(&self) -> u64;

    /// Returns when all work so far is done.
    ///
    /// # Errors
    /// Faults of earlier work; [`DeviceError::IndexOutOfRange`] once for whatever was reported to the error word since the last call.
    fn sync(&self) -> Result<(), DeviceError>;

    /// Records what `body` asks of this queue as a graph instead of running it.
    ///
    /// # Errors
    /// What `body` or the driver reports; [`DeviceError::Unsupported`] where there are no graphs.
    fn capture(&self, body: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError>;
}

/// A point of a queue.
pub trait Event: Debug + Send {
    /// Milliseconds on the device from `earlier` to this event, waiting for both.
    ///
    /// # Errors
    /// What the driver reports; events of different devices.
    fn since(&self, earlier: &dyn Event) -> Result<f64, DeviceError>;
    /// For backends, which know their own.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Recorded work that can be run again and again, over the same memory.
pub trait Graph: Debug + Send {
    /// Runs it on the queue that recorded it.
    ///
    /// # Errors
    /// What the driver reports.
    fn launch(&self) -> Result<(), DeviceError>;
}
