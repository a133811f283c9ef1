//! A queue that does its work at once.

use crate::kernels;
use crate::{Schedule, memory};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use warpwave_hal::{BoundFill, BoundLaunch, BoundStep, DeviceBuffer, DeviceError, Event, Graph, Queue, Work};

/// Pieces of a launch for each thread: programs of uneven cost spread over the cores.
const PIECES_PER_THREAD: u64 = 8;

#[derive(Debug)]
pub(crate) struct CpuQueue {
    pub(crate) device: String,
    pub(crate) schedule: Schedule,
    /// While capturing: what was asked for.
    pub(crate) recording: Arc<Mutex<Option<Recorded>>>,
    /// Operand + 1 of an index that lay out of range; kernels store it.
    pub(crate) error: Arc<AtomicU32>,
}

#[derive(Debug, Default)]
pub(crate) struct Recorded {
    steps: Vec<BoundStep>,
    memory: Vec<DeviceBuffer>,
}

impl CpuQueue {
    /// What kernels reported since the last call.
    fn reported(&self) -> Result<(), DeviceError> {
        match self.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            n => Err(DeviceError::IndexOutOfRange { device: self.device.clone(), operand: n - 1 }),
        }
    }

    /// Adds to the recording; false where there is none.
    fn record_steps(&self, steps: &[BoundStep], memory: &[DeviceBuffer]) -> bool {
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(r) = recording.as_mut() else { return false };
        r.steps.extend_from_slice(steps);
        r.memory.extend_from_slice(memory);
        true
    }

    fn not_while_recording(&self, what: &'static str) -> Result<(), DeviceError> {
        let recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        if recording.is_some() { Err(DeviceError::Unsupported { device: self.device.clone(), what }) } else { Ok(()) }
    }
}

/// # Safety
/// The memory that the steps name is live, inside its buffers, and nobody else uses what they write.
unsafe fn run_steps(device: &str, schedule: Schedule, steps: &[BoundStep]) -> Result<(), DeviceError> {
    for step in steps {
        match step {
            BoundStep::Fill(BoundFill { address, bytes, value }) => {
                if *bytes > 0 {
                    let p: *mut u8 = std::ptr::with_exposed_provenance_mut(*address as usize);
                    // SAFETY: `bind` placed the bytes inside a buffer that the caller keeps live
                    unsafe { p.write_bytes(*value, *bytes as usize) }
                }
            }
            // SAFETY: the caller's promise
            BoundStep::Launch(l) => unsafe { launch(device, schedule, l) }?,
        }
    }
    Ok(())
}

/// # Safety
/// As [`run_steps`].
unsafe fn launch(device: &str, schedule: Schedule, l: &BoundLaunch) -> Result<(), DeviceError> {
    let id = l.kernel.to_string();
    let err = |what: String| Err(DeviceError::Launch { device: device.into(), kernel: id.clone(), what });
    let Some(kernel) = kernels::find(&id) else {
        return Err(DeviceError::KernelNotBuilt {
            kernel: id,
            searched: vec!["the kernels linked into the program".into()],
            hint: "the host's kernels are compiled with warpwave-cpu: the plan names one that the variant table lacks, or is for another target"
                .into(),
        });
    };
    if l.args.len() != kernel.args {
        return err(format!("an argument block of {} bytes for a kernel that takes {}", l.args.len(), kernel.args));
    }
    // words, because the kernel reads 8-byte fields in place
    let args: Vec<u64> = l
        .args
        .chunks(8)
        .map(|c| {
            let mut word = [0; 8];
            word[..c.len()].copy_from_slice(c);
            u64::from_ne_bytes(word)
        })
        .collect();
    let (Ok(programs), Ok(blocks)) = (i64::try_from(l.programs), i64::try_from(l.blocks)) else {
        return err(format!("{} programs in {} blocks", l.programs, l.blocks));
    };
    // SAFETY: an aligned argument block of the size that the kernel was compiled for; this function reads nothing else
    let reached = unsafe { (kernel.programs)(args.as_ptr().cast(), blocks) };
    if reached != programs {
        return err(format!("{blocks} blocks reach {reached} of {programs} programs"));
    }
    let pieces = l.programs.min(rayon::current_num_threads() as u64 * PIECES_PER_THREAD);
    let piece = |i: u64| {
        let at = |i: u64| (u128::from(l.programs) * u128::from(i) / u128::from(pieces)) as i64;
        kernels::ww_host_schedule(schedule.number());
        // SAFETY: the argument block is as above; the memory it names is live and in bounds by the caller's promise, and programs of one
        // launch write disjoint memory
        unsafe { (kernel.run)(args.as_ptr().cast(), at(i), at(i + 1)) }
    };
    if pieces <= 1 {
        (0..pieces).for_each(piece)
    } else {
        (0..pieces).into_par_iter().for_each(piece)
    }
    Ok(())
}

impl Queue for CpuQueue {
    fn upload(&self, to: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.not_while_recording("upload while a graph is captured")?;
        memory::with_bytes(&self.device, "upload", to, offset, bytes.len() as u64, |p| {
            // SAFETY: with_bytes checked that so many bytes from p on are live and keeps other transfers out; `bytes` is a Rust slice, so
            // overlaps no device memory
            unsafe { p.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        })
    }

    fn download(&self, from: &DeviceBuffer, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.not_while_recording("download while a graph is captured")?;
        memory::with_bytes(&self.device, "download", from, offset, out.len() as u64, |p| {
            // SAFETY: as in upload, the other way
            unsafe { p.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) }
        })?;
        self.reported()
    }

    fn fill(&self, to: &DeviceBuffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        let mut recorded = false;
        memory::with_bytes(&self.device, "fill", to, offset, bytes, |p| {
            let step = BoundStep::Fill(BoundFill { address: p.addr() as u64, bytes, value });
            recorded = self.record_steps(&[step], std::slice::from_ref(to));
            if !recorded {
                // SAFETY: with_bytes checked that so many bytes from p on are live and keeps other transfers out
                unsafe { p.write_bytes(value, bytes as usize) }
            }
        })
    }

    unsafe fn run(&self, work: &Work) -> Result<(), DeviceError> {
        if self.record_steps(work.steps(), work.memory()) {
            return Ok(());
        }
        // SAFETY: the promise of `Queue::run`, and what `bind` guarantees of a Work
        unsafe { run_steps(&self.device, self.schedule, work.steps()) }
    }

    fn record(&self) -> Result<Box<dyn Event>, DeviceError> {
        self.not_while_recording("an event while a graph is captured")?;
        Ok(Box::new(CpuEvent { device: self.device.clone(), at: Instant::now() }))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceError> {
        // an event that was recorded is done
        CpuEvent::of(event, &self.device, "wait").map(|_| ())
    }

    fn error_word(&self) -> u64 {
        self.error.as_ptr().expose_provenance() as u64
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.not_while_recording("sync while a graph is captured")?;
        self.reported()
    }

    fn capture(&self, body: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError> {
        self.not_while_recording("a capture inside a capture")?;
        let lock = || self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        *lock() = Some(Recorded::default());
        let result = body();
        let recorded = lock().take().unwrap_or_default();
        result?;
        Ok(Box::new(CpuGraph { device: self.device.clone(), schedule: self.schedule, recorded }))
    }
}

#[derive(Debug)]
struct CpuEvent {
    device: String,
    at: Instant,
}

impl CpuEvent {
    fn of<'a>(event: &'a dyn Event, device: &str, call: &'static str) -> Result<&'a CpuEvent, DeviceError> {
        event.as_any().downcast_ref::<CpuEvent>().filter(|e| e.device == device).ok_or_else(|| DeviceError::Driver {
            device: device.into(),
            call,
            what: "the event is another device's".into(),
        })
    }
}

impl Event for CpuEvent {
    fn since(&self, earlier: &dyn Event) -> Result<f64, DeviceError> {
        let earlier = CpuEvent::of(earlier, &self.device, "since")?;
        Ok(self.at.saturating_duration_since(earlier.at).as_secs_f64() * 1e3)
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[derive(Debug)]
struct CpuGraph {
    device: String,
    schedule: Schedule,
    recorded: Recorded,
}

impl Graph for CpuGraph {
    fn launch(&self) -> Result<(), DeviceError> {
        // SAFETY: whoever recorded the steps promised, by the unsafe `run`, that only this queue writes the memory; the graph holds its buffers
        unsafe { run_steps(&self.device, self.schedule, &self.recorded.steps) }
    }
}
