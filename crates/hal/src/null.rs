//! A device that does nothing: upper layers are tested on it, and it compiles everywhere.

use crate::{Device, DeviceBuffer, DeviceError, Event, Graph, Memory, Queue, Work};
use std::sync::Arc;
use warpwave_core::{DeviceCaps, Target};

/// See the module.
#[derive(Debug)]
pub struct NullDevice {
    caps: DeviceCaps,
}

impl NullDevice {
    /// A device with the typical capabilities of a target.
    pub fn new(target: Target) -> Self {
        NullDevice { caps: DeviceCaps::typical(target) }
    }
}

#[derive(Debug)]
struct Nothing {
    address: u64,
    bytes: u64,
}

impl Memory for Nothing {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Device for NullDevice {
    fn name(&self) -> String {
        "null".into()
    }
    fn model(&self) -> String {
        format!("nothing that runs {}", self.caps.target)
    }
    fn caps(&self) -> &DeviceCaps {
        &self.caps
    }
    fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        if bytes > self.caps.memory {
            return Err(DeviceError::OutOfMemory { device: self.name(), bytes });
        }
        // an address space without memory: each buffer in a range of its own
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 20);
        let address = NEXT.fetch_add(bytes.next_multiple_of(256) + 256, std::sync::atomic::Ordering::Relaxed);
        Ok(Arc::new(Nothing { address, bytes }))
    }
    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer {
        Arc::new(Nothing { address, bytes })
    }
    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(NullQueue))
    }
}

#[derive(Debug)]
struct NullQueue;

impl Queue for NullQueue {
    fn upload(&self, _: &DeviceBuffer, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn download(&self, _: &DeviceBuffer, _: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        out.fill(0);
        Ok(())
    }
    fn fill(&self, _: &DeviceBuffer, _: u64, _: u64, _: u8) -> Result<(), DeviceError> {
        Ok(())
    }
    unsafe fn run(&self, _: &Work) -> Result<(), DeviceError> {
        Ok(())
    }
    fn record(&self) -> Result<Box<dyn Event>, DeviceError> {
        Ok(Box::new(NullEvent))
    }
    fn wait(&self, _: &dyn Event) -> Result<(), DeviceError> {
        Ok(())
    }
    fn error_word(&self) -> u64 {
        0
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn capture(&self, _: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError> {
        Err(DeviceError::Unsupported { device: "null".into(), what: "graph capture" })
    }
}

#[derive(Debug)]
struct NullEvent;

impl Event for NullEvent {
    fn since(&self, _: &dyn Event) -> Result<f64, DeviceError> {
        Ok(0.0)
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
