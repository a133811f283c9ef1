//! Times plans of a problem on a device.
//!
//! A GPU's L2 must not hold what a run reads, so each problem lies in memory several times and runs walk through the copies. Runs below
//! [`GRAPH_BELOW`] are captured as one graph of many launches, so that the host's cost of a launch does not count; longer ones are launched one
//! by one between two events. Inputs are normal random numbers: zeros draw less power and run at higher clocks.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::time::Duration;
use warpwave::{Device, DeviceBuffer, DeviceError, Op, Plan, Queue, View};
use warpwave_core::{DType, Family, Role, TensorDesc, Valid, Vendor};
use warpwave_hal::{Graph, Work, bind};

/// Microseconds below which runs are replayed as a graph.
const GRAPH_BELOW: f64 = 100.0;
/// Bytes that the copies of a problem cover together: several times the L2 of any card (H200 50 MiB, MI300X 4 MiB and 256 MiB beyond it).
const ROTATE: u64 = 512 << 20;
/// Copies, and runs of a graph, at most.
const MOST: u64 = 2048;
/// A graph takes at least so many microseconds.
const GRAPH_TIME: f64 = 2000.0;
/// Elements of the pattern that inputs repeat: odd, so that rows of a power of two differ.
const PATTERN: usize = (4 << 20) - 3;

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Settings {
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    pub(crate) rounds: usize,
}

/// A device under measurement.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    pub(crate) device: &'a dyn Device,
    queue: Box<dyn Queue>,
    patterns: HashMap<DType, Vec<u8>>,
}

/// A problem's operands in device memory, several times.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Views of each copy.
    sets: Vec<Vec<Option<View>>>,
}

/// A plan over that memory, ready to run. The queue is the meter's: memory stays alive as long as its work runs because a window ends in a wait.
#[derive(Debug)]
pub(crate) struct Timed {
    works: Vec<Work>,
    graph: Option<(Box<dyn Graph>, u64)>,
    /// Microseconds of one run, roughly.
    pub(crate) estimate: f64,
    /// Copy that the next run uses.
    next: usize,
}

/// How a plan is timed, for the record.
impl Timed {
    pub(crate) fn method(&self, meter: &Meter<'_>) -> String {
        match (&self.graph, meter.is_cpu()) {
            (_, true) => "wall clock".into(),
            (Some((_, runs)), _) => format!("graph of {runs} runs over {} copies", self.works.len()),
            (None, _) => format!("events, {} copies", self.works.len()),
        }
    }
}

fn noise(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Normal random numbers by Box and Muller, encoded.
fn normal(dtype: DType, n: usize) -> Vec<u8> {
    let size = dtype.size() as usize;
    let mut out = vec![0; n * size];
    for (i, pair) in out.chunks_mut(2 * size).enumerate() {
        let word = noise(i as u64 + 1);
        let (u, v) = (((word >> 32) + 1) as f64 / 4_294_967_297.0, (word & 0xffff_ffff) as f64 / 4_294_967_296.0);
        let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
        let r = (-2.0 * u.ln()).sqrt();
        for (e, x) in pair.chunks_exact_mut(size).zip([r * cos, r * sin]) {
            dtype.encode(x, e);
        }
    }
    out
}

/// Bytes of an operand's memory, its offset included.
fn footprint(desc: &TensorDesc) -> u64 {
    (desc.span().unwrap_or(0).saturating_add(desc.offset) * desc.dtype.size()).next_multiple_of(256).max(256)
}

impl<'a> Meter<'a> {
    pub(crate) fn new(device: &'a dyn Device) -> Result<Self> {
        Ok(Meter { device, queue: device.queue()?, patterns: HashMap::new() })
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.device.caps().target.vendor() == Vendor::Cpu
    }

    /// Allocates and fills the operands of a problem.
    pub(crate) fn memory(&mut self, op: &dyn Op, problem: &Valid) -> Result<Memory> {
        let one: u64 = problem.operands.iter().flatten().map(footprint).sum();
        let room = (self.device.caps().memory / 4 / one.max(1)).max(1);
        let count = if self.is_cpu() { 1 } else { ROTATE.div_ceil(one.max(1)).clamp(1, MOST).min(room) };
        let mut sets = vec![vec![None; problem.operands.len()]; count as usize];
        for (o, desc) in problem.operands.iter().enumerate() {
            let Some(desc) = desc else { continue };
            let step = footprint(desc);
            let buffer = self.device.allocate(step * count)?;
            if problem.signature.operands[o].role != Role::Output {
                let own = |i| op.sample(problem, o, Family::Normal, 1, i);
                match own(0).filter(|_| !desc.is_empty()) {
                    Some(_) => self.fill_own(desc, &buffer, &|i| own(i).unwrap_or(0.0))?,
                    None => self.fill(desc.dtype, &buffer, o)?,
                }
            }
            for (i, set) in sets.iter_mut().enumerate() {
                set[o] = Some(View { buffer: buffer.clone(), offset: i as u64 * step + desc.offset * desc.dtype.size() });
            }
        }
        self.queue.sync()?;
        Ok(Memory { sets })
    }

    /// An operand whose values are no normal numbers, drawn anew for the first elements and repeated.
    fn fill_own(&self, desc: &TensorDesc, buffer: &DeviceBuffer, value: &dyn Fn(u64) -> f64) -> Result<()> {
        let size = desc.dtype.size();
        let count = desc.len().min(PATTERN as u64);
        let mut pattern = vec![0; (count * size) as usize];
        pattern.chunks_exact_mut(size as usize).enumerate().for_each(|(i, e)| desc.dtype.encode(value(i as u64), e));
        let mut at = 0;
        while at < buffer.bytes() {
            let piece = (buffer.bytes() - at).min(pattern.len() as u64);
            self.queue.upload(buffer, at, &pattern[..piece as usize])?;
            at += piece;
        }
        Ok(())
    }

    fn fill(&mut self, dtype: DType, buffer: &DeviceBuffer, salt: usize) -> Result<()> {
        let wanted = PATTERN.min((buffer.bytes() / dtype.size()) as usize + 64);
        let pattern = self.patterns.entry(dtype).or_default();
        if pattern.len() < wanted * dtype.size() as usize {
            *pattern = normal(dtype, wanted);
        }
        // operands begin at other places of the pattern, so that no two are the same
        let mut from = (salt * 17 * dtype.size() as usize) % pattern.len();
        let mut at = 0;
        while at < buffer.bytes() {
            let piece = (pattern.len() - from).min((buffer.bytes() - at) as usize);
            self.queue.upload(buffer, at, &pattern[from..from + piece])?;
            at += piece as u64;
            from = 0;
        }
        Ok(())
    }

    /// Makes a plan ready: binds it to every copy, runs it, chooses the method.
    pub(crate) fn prepare(&self, op: &dyn Op, problem: &Valid, plan: &Plan, memory: &Memory) -> Result<Timed> {
        // one workspace: a run has read what it wrote there before the next begins
        let workspace = match plan.workspace.bytes() {
            0 => None,
            bytes => Some(View { buffer: self.device.allocate(bytes)?, offset: 0 }),
        };
        let works = memory
            .sets
            .iter()
            .map(|views| bind(op, problem, plan, views, workspace.as_ref(), self.queue.error_word()))
            .collect::<Result<Vec<Work>, _>>()?;
        let mut timed = Timed { works, graph: None, estimate: 0.0, next: 0 };
        // loads the kernels
        self.launch(&timed.works[0])?;
        self.queue.sync()?;
        let mut runs = 1;
        loop {
            let us = self.time_runs(&mut timed, runs)?;
            timed.estimate = (us / runs as f64).max(0.05);
            if us > 5000.0 || runs >= MOST {
                break;
            }
            runs = (runs * 4).min(MOST);
        }
        if !self.is_cpu() && timed.estimate < GRAPH_BELOW {
            let copies = timed.works.len() as u64;
            let runs = ((GRAPH_TIME / timed.estimate) as u64 / copies).max(1) * copies;
            let captured = self.queue.capture(&mut || (0..runs).try_for_each(|i| self.launch(&timed.works[(i % copies) as usize])));
            match captured {
                Ok(graph) => {
                    timed.graph = Some((graph, runs));
                    self.time_graph(&timed, 1)?;
                    timed.estimate = (self.time_graph(&timed, 1)? / runs as f64).max(0.05);
                }
                Err(DeviceError::Unsupported { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(timed)
    }

    fn launch(&self, work: &Work) -> Result<(), DeviceError> {
        // SAFETY: the work was bound to memory that it holds itself; this queue alone writes it
        unsafe { self.queue.run(work) }
    }

    /// Microseconds of so many runs.
    fn time_runs(&self, timed: &mut Timed, runs: u64) -> Result<f64> {
        let start = self.queue.record()?;
        for _ in 0..runs {
            self.launch(&timed.works[timed.next])?;
            timed.next = (timed.next + 1) % timed.works.len();
        }
        let end = self.queue.record()?;
        self.queue.sync()?;
        Ok(end.since(&*start)? * 1e3)
    }

    fn time_graph(&self, timed: &Timed, launches: u64) -> Result<f64> {
        let (graph, _) = timed.graph.as_ref().context("no graph")?;
        let start = self.queue.record()?;
        for _ in 0..launches {
            graph.launch()?;
        }
        let end = self.queue.record()?;
        self.queue.sync()?;
        Ok(end.since(&*start)? * 1e3)
    }

    /// Microseconds of a run, the mean over a window of about this length, and how many runs that were.
    pub(crate) fn window(&self, timed: &mut Timed, window: Duration) -> Result<(f64, u64)> {
        let us = window.as_secs_f64() * 1e6;
        match &timed.graph {
            Some((_, runs)) => {
                let runs = *runs;
                let launches = ((us / (timed.estimate * runs as f64)) as u64).max(1);
                Ok((self.time_graph(timed, launches)? / (launches * runs) as f64, launches * runs))
            }
            None => {
                let runs = ((us / timed.estimate) as u64).max(1);
                Ok((self.time_runs(timed, runs)? / runs as f64, runs))
            }
        }
    }
}

/// The middle of some values; of an even number the lower of the two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
