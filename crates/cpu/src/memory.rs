//! Host memory as device memory.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use warpwave_core::DeviceCaps;
use warpwave_hal::{DeviceBuffer, DeviceError, Memory};

/// What every allocation starts on a multiple of.
const ALIGN: usize = 256;

/// Live buffers of CPU devices, by address and size, with the number of handles. Transfers look here before they touch memory, and hold the
/// lock while they do: a buffer of another device is an error, and two transfers never meet.
static LIVE: LazyLock<Mutex<HashMap<(u64, u64), usize>>> = LazyLock::new(Mutex::default);

fn live() -> MutexGuard<'static, HashMap<(u64, u64), usize>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct CpuMemory {
    address: u64,
    bytes: u64,
    /// `None`: somebody else's memory, or none at all.
    owned: Option<Layout>,
}

impl CpuMemory {
    fn new(address: u64, bytes: u64, owned: Option<Layout>) -> Self {
        *live().entry((address, bytes)).or_insert(0) += 1;
        CpuMemory { address, bytes, owned }
    }

    pub(crate) fn allocate(device: &str, bytes: u64, caps: &DeviceCaps) -> Result<Self, DeviceError> {
        let full = || DeviceError::OutOfMemory { device: device.into(), bytes };
        if bytes > caps.memory {
            return Err(full());
        }
        if bytes == 0 {
            return Ok(Self::new(ALIGN as u64, 0, None));
        }
        let layout = usize::try_from(bytes).ok().and_then(|n| Layout::from_size_align(n, ALIGN).ok()).ok_or_else(full)?;
        // SAFETY: the layout's size is not 0
        let p = unsafe { alloc(layout) };
        if p.is_null() {
            return Err(full());
        }
        Ok(Self::new(p.expose_provenance() as u64, bytes, Some(layout)))
    }

    pub(crate) fn borrow(address: u64, bytes: u64) -> Self {
        Self::new(address, bytes, None)
    }
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        let mut all = live();
        if let Some(n) = all.get_mut(&(self.address, self.bytes)) {
            *n -= 1;
            if *n == 0 {
                all.remove(&(self.address, self.bytes));
            }
        }
        if let Some(layout) = self.owned {
            // SAFETY: `alloc` gave this address for this layout, and only here is it freed
            unsafe { dealloc(std::ptr::with_exposed_provenance_mut(self.address as usize), layout) }
        }
    }
}

impl Memory for CpuMemory {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Calls `f` with the address of byte `offset`, where `bytes` bytes from there on lie in a live buffer of this backend.
pub(crate) fn with_bytes(
    device: &str,
    call: &'static str,
    buffer: &DeviceBuffer,
    offset: u64,
    bytes: u64,
    f: impl FnOnce(*mut u8),
) -> Result<(), DeviceError> {
    let err = |what: String| Err(DeviceError::Driver { device: device.into(), call, what });
    let all = live();
    if !all.contains_key(&(buffer.address(), buffer.bytes())) {
        return err("the buffer is another device's".into());
    }
    if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes()) {
        return err(format!("{bytes} bytes from byte {offset} of a buffer of {}", buffer.bytes()));
    }
    f(std::ptr::with_exposed_provenance_mut((buffer.address() + offset) as usize));
    drop(all);
    Ok(())
}
