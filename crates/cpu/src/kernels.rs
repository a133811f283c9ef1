//! The compiled kernels, by name.

use std::ffi::c_void;

/// One instantiation.
pub(crate) struct Kernel {
    /// The kernel's name.
    pub(crate) id: &'static str,
    /// Bytes of its argument block.
    pub(crate) args: usize,
    /// Runs programs `first..last`. The argument block is aligned to 8 bytes and `args` bytes long; the memory that it names is live.
    pub(crate) run: unsafe extern "C" fn(args: *const c_void, first: i64, last: i64),
    /// How many programs a grid of `blocks` blocks reaches on a device.
    pub(crate) programs: unsafe extern "C" fn(args: *const c_void, blocks: i64) -> i64,
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

unsafe extern "C" {
    /// Picks the schedule for the calling thread.
    pub(crate) safe fn ww_host_schedule(choice: i32);
}

/// The kernel of a name.
pub(crate) fn find(id: &str) -> Option<&'static Kernel> {
    KERNELS.binary_search_by(|k| k.id.cmp(id)).ok().map(|i| &KERNELS[i])
}
