//! A device's memory: allocations at addresses of this process.

use crate::Fault;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{PoisonError, RwLock};

/// A stretch of memory that kernels may touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Region {
    pub(crate) fn has(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && bytes <= self.bytes && address - self.start <= self.bytes - bytes
    }
}

struct Owned {
    region: Region,
    /// `None`: the caller's memory.
    layout: Option<Layout>,
}

/// A device's memory. Addresses are the host's, so that pinned host memory is reached by kernels as it is.
#[derive(Default)]
pub struct Memory {
    all: RwLock<BTreeMap<u64, Owned>>,
    limit: u64,
}

const ALIGN: usize = 256;

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory of {} bytes, {} of them taken", self.limit, self.used())
    }
}

impl Memory {
    /// Memory of so many bytes.
    pub fn new(limit: u64) -> Memory {
        Memory { all: RwLock::default(), limit }
    }

    /// Bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn regions(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<u64, Owned>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are allocated.
    pub fn used(&self) -> u64 {
        self.regions().values().filter(|o| o.layout.is_some()).map(|o| o.region.bytes).sum()
    }

    /// Zeroed memory at a multiple of 256 bytes; `None` where no more is left.
    pub fn alloc(&self, bytes: u64) -> Option<u64> {
        if bytes == 0 || bytes > self.limit.checked_sub(self.used())? {
            return None;
        }
        // apart by a page at least, so that no access beyond one lands in another
        let layout = Layout::from_size_align(usize::try_from(bytes).ok()?.checked_next_multiple_of(ALIGN)?.checked_add(4096)?, ALIGN).ok()?;
        // SAFETY: the layout's size is not 0
        let p = unsafe { alloc_zeroed(layout) };
        if p.is_null() {
            return None;
        }
        let start = p as u64;
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(start, Owned { region: Region { start, bytes }, layout: Some(layout) });
        Some(start)
    }

    /// Gives an allocation back; false where `address` begins none. No launch may run meanwhile.
    pub fn free(&self, address: u64) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.get(&address).is_none_or(|o| o.layout.is_none()) {
            return false;
        }
        if let Some(Owned { layout: Some(layout), .. }) = all.remove(&address) {
            // SAFETY: `alloc` made it with this layout, and the map held it once
            unsafe { dealloc(address as *mut u8, layout) };
        }
        true
    }

    /// Lets kernels use the caller's memory, as pinned host memory is used.
    ///
    /// # Safety
    /// `pointer` has so many bytes, until [`Memory::forget`] or the end of this value, and nobody else touches them while a launch runs.
    pub unsafe fn import(&self, pointer: *mut u8, bytes: u64) {
        let region = Region { start: pointer as u64, bytes };
        self.all.write().unwrap_or_else(PoisonError::into_inner).insert(region.start, Owned { region, layout: None });
    }

    /// Ends an import; false where there is none.
    pub fn forget(&self, pointer: *mut u8) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let imported = all.get(&(pointer as u64)).is_some_and(|o| o.layout.is_none());
        imported && all.remove(&(pointer as u64)).is_some()
    }

    /// First byte and size of the allocation that an address lies in.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let all = self.regions();
        let (_, o) = all.range(..=address).next_back()?;
        o.region.has(address, 1).then_some((o.region.start, o.region.bytes))
    }

    fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        let all = self.regions();
        let within = all.range(..=address).next_back().is_some_and(|(_, o)| o.region.has(address, bytes));
        if within || bytes == 0 { Ok(()) } else { Err(Fault::Host { address, bytes }) }
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// [`Fault::Host`] where the bytes are not within one allocation; so for all copies.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.check(address, bytes.len() as u64)?;
        // SAFETY: within an allocation of this value, which outlives the call; the source is a slice
        unsafe { ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.check(address, out.len() as u64)?;
        // SAFETY: as in `write`
        unsafe { ptr::copy(address as *const u8, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Sets bytes.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<(), Fault> {
        self.check(address, bytes)?;
        // SAFETY: as in `write`
        unsafe { ptr::write_bytes(address as *mut u8, value, bytes as usize) };
        Ok(())
    }

    /// Copies within the device.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), Fault> {
        self.check(to, bytes)?;
        self.check(from, bytes)?;
        // SAFETY: as in `write`, both sides
        unsafe { ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
        Ok(())
    }

    /// What kernels may touch, in the order of addresses.
    pub(crate) fn snapshot(&self) -> Vec<Region> {
        self.regions().values().map(|o| o.region).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (address, o) in std::mem::take(&mut *self.all.write().unwrap_or_else(PoisonError::into_inner)) {
            if let Some(layout) = o.layout {
                // SAFETY: as in `free`
                unsafe { dealloc(address as *mut u8, layout) };
            }
        }
    }
}
