//! What the devices say of themselves.

use amdgpu_interp::{Isa, Memory};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) isa: Isa,
    pub(crate) memory: Arc<Memory>,
}

const MEMORY: u64 = 4 << 30;

/// The devices that the environment asks for.
pub(crate) fn devices() -> Vec<Device> {
    let bytes = std::env::var("WARPWAVE_HIP_INTERP_MEMORY").ok().and_then(|b| b.parse().ok()).unwrap_or(MEMORY);
    let isas: Vec<Isa> = match std::env::var("WARPWAVE_HIP_INTERP") {
        Ok(names) => names.split(',').filter_map(|n| n.trim().parse().ok()).collect(),
        Err(_) => Isa::ALL.into(),
    };
    isas.into_iter().map(|isa| Device { isa, memory: Arc::new(Memory::new(bytes)) }).collect()
}

/// Attribute numbers, the same in HIP 5.2, 6 and 7.
const COMPUTE_CAPABILITY_MAJOR: u32 = 23;
const COMPUTE_CAPABILITY_MINOR: u32 = 61;
const MULTIPROCESSOR_COUNT: u32 = 63;
const MAX_SHARED_MEMORY_PER_BLOCK: u32 = 74;
const MAX_THREADS_PER_BLOCK: u32 = 56;
const WARP_SIZE: u32 = 87;

impl Device {
    pub(crate) fn attribute(&self, attribute: u32) -> Option<i32> {
        // units: of an MI250X's die, an MI300X, an RX 7900 XTX (AMD's data sheets)
        let (units, version) = match self.isa {
            Isa::Gfx90a => (110, (9, 0)),
            Isa::Gfx942 => (304, (9, 4)),
            Isa::Gfx1100 => (96, (11, 0)),
        };
        Some(match attribute {
            COMPUTE_CAPABILITY_MAJOR => version.0,
            COMPUTE_CAPABILITY_MINOR => version.1,
            MULTIPROCESSOR_COUNT => units,
            MAX_SHARED_MEMORY_PER_BLOCK => self.isa.lds() as i32,
            MAX_THREADS_PER_BLOCK => 1024,
            WARP_SIZE => {
                if self.isa == Isa::Gfx1100 {
                    32
                } else {
                    64
                }
            }
            _ => return None,
        })
    }

    pub(crate) fn name(&self) -> String {
        format!("{} code executed on the CPU", self.isa)
    }
}
