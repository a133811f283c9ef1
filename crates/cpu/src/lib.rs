//! The CPU backend: the templates of warpwave under the host's C++ compiler, one program after the other on each core.
//!
//! It needs no GPU, starts at once and is the one that checks: an asynchronous copy or product runs as late as the op's waits allow, or as
//! early as possible, or by a seed ([`Schedule`]), and an op that breaks a rule of the tile layer ends the process with the rule's name. Built
//! with `CXX=clang++ CXXFLAGS=-fsanitize=address`, a stage that is not held, an accumulator in flight and the memory behind a tile are poisoned.
//!
//! Row reductions add in the order of a GPU with warps of 32 (`cpu`) or 64 (`cpu:64`) lanes.

mod kernels;
mod memory;
mod queue;

use memory::CpuMemory;
use std::str::FromStr;
use std::sync::Arc;
use warpwave_core::{DeviceCaps, Target};
use warpwave_hal::{Device, DeviceBuffer, DeviceError, Queue};

/// When asynchronous work of a matrix op happens. Results do not depend on it; whether a broken op is noticed may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Schedule {
    /// As late as the waits allow.
    #[default]
    Late,
    /// As early as possible.
    Eager,
    /// A pseudo-random choice for each piece of work.
    Seed(u32),
}

/// The environment variable that chooses the [`Schedule`]: `late`, `eager`, or a number, the seed.
pub const SCHEDULE_VARIABLE: &str = "WARPWAVE_CPU_SCHEDULE";

impl Schedule {
    /// As `ww_host_schedule` takes it.
    pub(crate) fn number(self) -> i32 {
        match self {
            Schedule::Late => 0,
            Schedule::Eager => 1,
            Schedule::Seed(s) => 2 + (s % (i32::MAX as u32 - 2)) as i32,
        }
    }
}

impl FromStr for Schedule {
    type Err = DeviceError;
    fn from_str(s: &str) -> Result<Self, DeviceError> {
        Ok(match s {
            "late" => Schedule::Late,
            "eager" => Schedule::Eager,
            _ => Schedule::Seed(s.parse().map_err(|_| no_driver(format!("{SCHEDULE_VARIABLE}: `{s}` is neither late nor eager nor a seed")))?),
        })
    }
}

fn no_driver(what: String) -> DeviceError {
    DeviceError::NoDriver { backend: "cpu", what }
}

/// The warp that row reductions emulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "plain")]
pub enum WarpWidth {
    #[default]
    W32,
    W64,
}

/// The CPU as a device.
#[derive(Debug)]
pub struct CpuDevice {
    name: &'static str,
    caps: DeviceCaps,
    schedule: Schedule,
}

impl CpuDevice {
    /// A device; nothing is read from the environment.
    pub fn new(width: WarpWidth, schedule: Schedule) -> Self {
        let (name, target) = match width {
            WarpWidth::W32 => ("cpu", Target::Host32),
            WarpWidth::W64 => ("cpu:64", Target::Host64),
        };
        let units = u32::try_from(rayon::current_num_threads()).unwrap_or(u32::MAX);
        let caps = DeviceCaps { target, units, shared_memory: target.shared_memory(), max_cluster: 1, memory: total_memory() };
        CpuDevice { name, caps, schedule }
    }

    /// The device of a name, `cpu`, `cpu:32` or `cpu:64`, with the schedule that the environment asks for.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] for another name, or a schedule that does not exist.
    pub fn open(name: &str) -> Result<Self, DeviceError> {
        let width = match name {
            "cpu" | "cpu:32" => WarpWidth::W32,
            "cpu:64" => WarpWidth::W64,
            _ => return Err(no_driver(format!("no device `{name}`: there are cpu and cpu:64"))),
        };
        let schedule = match std::env::var(SCHEDULE_VARIABLE) {
            Ok(s) => s.parse()?,
            Err(_) => Schedule::default(),
        };
        Ok(Self::new(width, schedule))
    }

    /// Names of all kernels that are linked in, sorted.
    pub fn kernels() -> impl Iterator<Item = &'static str> {
        kernels::KERNELS.iter().map(|k| k.id)
    }
}

/// The host's memory, in bytes; 16 GiB where the system does not say.
fn total_memory() -> u64 {
    let field = |text: String| Some(text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse::<u64>().ok()? << 10);
    std::fs::read_to_string("/proc/meminfo").ok().and_then(field).unwrap_or(16 << 30)
}

/// The processor's own name.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_string())
}

impl Device for CpuDevice {
    fn name(&self) -> String {
        self.name.into()
    }

    fn model(&self) -> String {
        let threads = self.caps.units;
        format!("{}, {threads} {}", processor().unwrap_or_else(|| std::env::consts::ARCH.into()), if threads == 1 { "thread" } else { "threads" })
    }

    fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        Ok(Arc::new(CpuMemory::allocate(self.name, bytes, &self.caps)?))
    }

    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer {
        Arc::new(CpuMemory::borrow(address, bytes))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(queue::CpuQueue { device: self.name.into(), schedule: self.schedule, recording: Arc::default(), error: Arc::default() }))
    }
}
