//! Device memory.

use crate::context::{Context, lock};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use warpwave_hal::{DeviceBuffer, DeviceError, Memory};

/// Address of memory of 0 bytes: of the alignment that all memory has, and never read.
const NOWHERE: u64 = 256;

/// Live buffers of this backend by device, address and size, with the number of handles: a transfer to a buffer of another device is an error
/// instead of an access to whatever the address means here.
type Live = HashMap<(String, u64, u64), usize>;
static LIVE: LazyLock<Mutex<Live>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
pub(crate) struct HipMemory {
    context: Arc<Context>,
    address: u64,
    bytes: u64,
    owned: bool,
}

impl HipMemory {
    fn shared(context: &Arc<Context>, address: u64, bytes: u64, owned: bool) -> DeviceBuffer {
        *lock(&LIVE).entry((context.name.clone(), address, bytes)).or_insert(0) += 1;
        Arc::new(HipMemory { context: context.clone(), address, bytes, owned })
    }

    pub(crate) fn allocate(context: &Arc<Context>, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        if bytes == 0 {
            return Ok(Self::shared(context, NOWHERE, 0, false));
        }
        let address = context.allocate(bytes)?;
        Ok(Self::shared(context, address, bytes, true))
    }

    pub(crate) fn borrow(context: &Arc<Context>, address: u64, bytes: u64) -> DeviceBuffer {
        Self::shared(context, address, bytes, false)
    }
}

impl Memory for HipMemory {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HipMemory {
    fn drop(&mut self) {
        let key = (self.context.name.clone(), self.address, self.bytes);
        let mut all = lock(&LIVE);
        if let Some(n) = all.get_mut(&key) {
            *n -= 1;
            if *n == 0 {
                all.remove(&key);
            }
        }
        drop(all);
        if self.owned {
            // SAFETY: `allocate` gave the address, only here is it freed, and a queue that still uses the memory would hold a reference
            unsafe { self.context.free(self.address) }
        }
    }
}

/// The address of byte `offset`, where `bytes` bytes from there on lie in a buffer of this device.
pub(crate) fn range(device: &str, call: &'static str, buffer: &DeviceBuffer, offset: u64, bytes: u64) -> Result<u64, DeviceError> {
    let err = |what: String| Err(DeviceError::Driver { device: device.into(), call, what });
    if !lock(&LIVE).contains_key(&(device.to_string(), buffer.address(), buffer.bytes())) {
        return err("the buffer is another device's".into());
    }
    if offset.checked_add(bytes).is_none_or(|end| end > buffer.bytes()) {
        return err(format!("{bytes} bytes from byte {offset} of a buffer of {}", buffer.bytes()));
    }
    Ok(buffer.address() + offset)
}
