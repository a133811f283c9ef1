//! Streams, events, graphs.

use crate::context::{Context, Relaxed, lock, pointer};
use crate::driver::{Driver, hip};
use crate::memory;
use crate::sys::{self, hipError_t, hipEvent_t, hipGraph_t, hipGraphExec_t, hipStream_t};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use warpwave_hal::{BoundLaunch, BoundStep, DeviceBuffer, DeviceError, Event, Graph, Queue, Work};

/// Buffers that a queue holds before it looks which it can let go.
const HELD: usize = 64;

/// Buffers by the address of what the Arc holds.
type Buffers = HashMap<usize, DeviceBuffer>;

/// A stream and what its work uses. Shared by a queue, its graphs, and for a moment by an allocation that is short of memory.
#[derive(Debug)]
pub(crate) struct Stream {
    context: Arc<Context>,
    raw: hipStream_t,
    owned: bool,
    held: Mutex<Held>,
    /// The error word, cleared; of no bytes where the stream was borrowed while its owner captures.
    word: DeviceBuffer,
    /// Work since the last look may have written it.
    reports: AtomicBool,
    /// Held where a capture begins, and where another thread synchronises a stream that must not be capturing.
    gate: Mutex<()>,
}

#[derive(Debug, Default)]
struct Held {
    /// Used by work that may not be done.
    live: Buffers,
    /// As `live`, but nobody else holds them: free once the event has passed. Oldest first.
    marked: VecDeque<(hipEvent_t, Vec<DeviceBuffer>)>,
    /// How many `live` ones make `sweep` worth while.
    limit: usize,
    /// While capturing: what the graph uses.
    recording: Option<Buffers>,
}

// SAFETY: the handles are those of the runtime, whose functions may be called from any thread; the rest is Send and Sync or behind the lock
unsafe impl Send for Stream {}
// SAFETY: as above
unsafe impl Sync for Stream {}

impl Stream {
    fn new(context: Arc<Context>, raw: hipStream_t, owned: bool) -> Result<Arc<Self>, DeviceError> {
        let word = memory::HipMemory::allocate(&context, 0)?;
        let held = Held { limit: HELD, ..Held::default() };
        let mut stream = Stream { context, raw, owned, held: Mutex::new(held), word, reports: AtomicBool::new(false), gate: Mutex::default() };
        if !stream.captured_elsewhere() {
            stream.word = memory::HipMemory::allocate(&stream.context, 4)?;
            stream.fill(stream.word.address(), 4, 0)?;
        }
        let stream = Arc::new(stream);
        stream.context.add_stream(&stream);
        Ok(stream)
    }

    /// What kernels reported since the last call; all work is done.
    fn reported(&self) -> Result<(), DeviceError> {
        if self.word.bytes() == 0 || !self.reports.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let mut word = 0u32;
        // SAFETY: the error word is 4 bytes that live as long as the stream, `word` until the copy is waited for
        unsafe { hip!(self.context, hipMemcpyDtoHAsync((&raw mut word).cast(), pointer(self.word.address()), 4, self.raw)) }?;
        // SAFETY: the stream is live
        unsafe { hip!(self.context, hipStreamSynchronize(self.raw)) }?;
        if word == 0 {
            return Ok(());
        }
        self.fill(self.word.address(), 4, 0)?;
        Err(DeviceError::IndexOutOfRange { device: self.name().into(), operand: word - 1 })
    }

    fn name(&self) -> &str {
        &self.context.name
    }

    /// Keeps buffers until the work that was just enqueued is done. Called behind the enqueueing while the caller still holds them: what another
    /// thread lets go in between was held for earlier work.
    fn hold<'a>(&self, buffers: impl IntoIterator<Item = &'a DeviceBuffer>) -> Result<(), DeviceError> {
        let mut guard = lock(&self.held);
        let held = &mut *guard;
        let list = held.recording.as_mut().unwrap_or(&mut held.live);
        for b in buffers {
            list.entry(Arc::as_ptr(b).addr()).or_insert_with(|| b.clone());
        }
        let many = held.live.len() > held.limit;
        drop(guard);
        if many { self.sweep() } else { Ok(()) }
    }

    /// Lets go of buffers whose work is done, and marks the end of the work of those that nobody else holds. The device is current.
    pub(crate) fn sweep(&self) -> Result<(), DeviceError> {
        let _relaxed = Relaxed::new(self.context.driver);
        let mut done = Vec::new();
        let mut held = lock(&self.held);
        while let Some(&(event, _)) = held.marked.front() {
            // SAFETY: the event is one of `sweep`, destroyed only when it leaves the list
            if unsafe { self.context.driver.hip.hipEventQuery(event) } == sys::hipError_t_hipErrorNotReady {
                break;
            }
            // SAFETY: as above
            let _ = unsafe { self.context.driver.hip.hipEventDestroy(event) };
            done.extend(held.marked.pop_front());
        }
        let orphan = |b: &DeviceBuffer| Arc::strong_count(b) == 1;
        if held.live.values().any(orphan) && held.recording.is_none() && !self.captured_elsewhere() {
            let mut event: hipEvent_t = null_mut();
            // SAFETY: the device is current and `event` writable
            unsafe { hip!(self.context, hipEventCreateWithFlags(&mut event, sys::hipEventDisableTiming)) }?;
            // SAFETY: event and stream are live and of one device
            if let Err(e) = unsafe { hip!(self.context, hipEventRecord(event, self.raw)) } {
                // SAFETY: made above
                let _ = unsafe { self.context.driver.hip.hipEventDestroy(event) };
                return Err(e);
            }
            let orphans = held.live.extract_if(|_, b| orphan(b)).map(|(_, b)| b).collect();
            held.marked.push_back((event, orphans));
        }
        held.limit = HELD.max(2 * held.live.len());
        // buffers are freed without the lock
        drop(held);
        drop(done);
        Ok(())
    }

    /// Whether the owner of a borrowed stream captures it.
    fn captured_elsewhere(&self) -> bool {
        if self.owned {
            return false;
        }
        let mut status = sys::hipStreamCaptureStatus_hipStreamCaptureStatusNone;
        // SAFETY: the stream is live and `status` writable
        let code = unsafe { self.context.driver.hip.hipStreamIsCapturing(self.raw, &mut status) };
        code != sys::hipError_t_hipSuccess || status != sys::hipStreamCaptureStatus_hipStreamCaptureStatusNone
    }

    /// Whether work is captured into a graph instead of running.
    fn is_capturing(&self) -> bool {
        lock(&self.held).recording.is_some() || self.captured_elsewhere()
    }

    /// Waits for all work and lets go of what it used. The device is current.
    fn finish(&self) -> Result<(), DeviceError> {
        // taken first: what another thread adds while this one waits may be for later work
        let (live, marked) = {
            let mut held = lock(&self.held);
            held.limit = HELD;
            (std::mem::take(&mut held.live), std::mem::take(&mut held.marked))
        };
        // SAFETY: the stream is live
        if let Err(e) = unsafe { hip!(self.context, hipStreamSynchronize(self.raw)) } {
            let mut held = lock(&self.held);
            held.live.extend(live);
            for entry in marked.into_iter().rev() {
                held.marked.push_front(entry);
            }
            return Err(e);
        }
        destroy_events(self.context.driver, &marked);
        Ok(())
    }

    /// As [`finish`](Self::finish), for a thread that the queue may not be of: a capture is left alone.
    pub(crate) fn finish_unless_capturing(&self) -> Result<(), DeviceError> {
        let _gate = lock(&self.gate);
        if self.is_capturing() { Ok(()) } else { self.finish() }
    }

    fn enqueue(&self, steps: &[BoundStep]) -> Result<(), DeviceError> {
        for step in steps {
            match step {
                BoundStep::Fill(f) => self.fill(f.address, f.bytes, f.value)?,
                BoundStep::Launch(l) => self.launch(l)?,
            }
        }
        Ok(())
    }

    fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: `bind`, or the caller's check, placed the bytes inside a buffer, which is held until the work is done
        unsafe { hip!(self.context, hipMemsetD8Async(pointer(address), value, bytes as usize, self.raw)) }
    }

    fn launch(&self, l: &BoundLaunch) -> Result<(), DeviceError> {
        let err = |what: String| Err(DeviceError::Launch { device: self.name().into(), kernel: l.kernel.to_string(), what });
        // the hardware counts work items, not blocks
        let items = l.blocks.checked_mul(l.threads.into()).filter(|&n| n <= u32::MAX.into());
        let (Some(_), Ok(grid)) = (items, u32::try_from(l.blocks)) else {
            return err(format!("{} blocks of {} threads: more than a grid may have", l.blocks, l.threads));
        };
        if grid == 0 {
            return Ok(());
        }
        let kernel = self.context.modules.get(&self.context, &l.kernel)?;
        // words, because the runtime may read it as such
        let mut block: Vec<u64> = l
            .args
            .chunks(8)
            .map(|c| {
                let mut word = [0; 8];
                word[..c.len()].copy_from_slice(c);
                u64::from_ne_bytes(word)
            })
            .collect();
        let mut bytes = l.args.len();
        let mut extra: [*mut c_void; 5] = [BUFFER_POINTER, block.as_mut_ptr().cast(), BUFFER_SIZE, (&raw mut bytes).cast(), BUFFER_END];
        // What a plan counts as shared memory is part of the kernel: the launch asks for none on top.
        // SAFETY: the list is as the header describes it, the block as long as it says, and the runtime copies it before it returns; the memory
        // that the block names is live and in bounds by the promise of `Queue::run`
        let code = unsafe {
            self.context.driver.hip.hipModuleLaunchKernel(kernel.function, grid, 1, 1, l.threads, 1, 1, 0, self.raw, null_mut(), extra.as_mut_ptr())
        };
        if is_fault(code) {
            // not this kernel's: a launch also reports what work before it ran into
            return self.context.driver.check(self.name(), "hipModuleLaunchKernel", code);
        }
        if code != sys::hipError_t_hipSuccess {
            return err(format!("hipModuleLaunchKernel: {} ({grid} blocks of {} threads)", self.context.driver.text(code), l.threads));
        }
        Ok(())
    }
}

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `…_SIZE` and `…_END`: macros with a cast, which have no binding.
const BUFFER_POINTER: *mut c_void = without_provenance_mut(1);
const BUFFER_SIZE: *mut c_void = without_provenance_mut(2);
const BUFFER_END: *mut c_void = without_provenance_mut(3);

/// Errors that a kernel that was launched earlier ran into.
fn is_fault(code: hipError_t) -> bool {
    matches!(code, sys::hipError_t_hipErrorIllegalAddress | sys::hipError_t_hipErrorLaunchFailure | sys::hipError_t_hipErrorLaunchTimeOut)
}

fn destroy_events(driver: &Driver, marked: &VecDeque<(hipEvent_t, Vec<DeviceBuffer>)>) {
    for (event, _) in marked {
        // SAFETY: the event left the list of its stream, so nobody else destroys or uses it
        let _ = unsafe { driver.hip.hipEventDestroy(*event) };
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.make_current().is_err() {
            return;
        }
        let _relaxed = Relaxed::new(self.context.driver);
        if !self.captured_elsewhere() {
            // an error is a fault that has ended all work of the device
            let _ = self.finish();
        }
        let held = std::mem::take(&mut *lock(&self.held));
        destroy_events(self.context.driver, &held.marked);
        drop(held);
        if self.owned {
            // SAFETY: made for this queue, and nobody else has it
            let _ = unsafe { self.context.driver.hip.hipStreamDestroy(self.raw) };
        }
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct HipQueue {
    stream: Arc<Stream>,
}

impl HipQueue {
    pub(crate) fn owned(context: Arc<Context>, raw: hipStream_t) -> Result<Self, DeviceError> {
        Ok(HipQueue { stream: Stream::new(context, raw, true)? })
    }

    pub(crate) fn borrowed(context: Arc<Context>, raw: hipStream_t) -> Result<Self, DeviceError> {
        Ok(HipQueue { stream: Stream::new(context, raw, false)? })
    }

    fn name(&self) -> &str {
        self.stream.name()
    }

    /// The stream, where it is not being captured, with the device current.
    fn running(&self, what: &'static str) -> Result<&Stream, DeviceError> {
        self.stream.context.make_current()?;
        if self.stream.is_capturing() {
            return Err(DeviceError::Unsupported { device: self.name().into(), what });
        }
        Ok(&self.stream)
    }

    fn event<'a>(&self, event: &'a dyn Event, call: &'static str) -> Result<&'a HipEvent, DeviceError> {
        HipEvent::of(event, self.name(), call)
    }
}

impl Queue for HipQueue {
    fn upload(&self, to: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let stream = self.running("upload while a graph is captured")?;
        let address = memory::range(self.name(), "hipMemcpyHtoDAsync", to, offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `range` found the bytes inside a live buffer; both sides are live until `finish` has seen the copy done
        unsafe { hip!(stream.context, hipMemcpyHtoDAsync(pointer(address), bytes.as_ptr().cast_mut().cast(), bytes.len(), stream.raw)) }?;
        // whether the runtime still reads the slice after the call depends on what kind of memory it is
        stream.finish()
    }

    fn download(&self, from: &DeviceBuffer, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let stream = self.running("download while a graph is captured")?;
        let address = memory::range(self.name(), "hipMemcpyDtoHAsync", from, offset, out.len() as u64)?;
        if !out.is_empty() {
            // SAFETY: as in `upload`, the other way
            unsafe { hip!(stream.context, hipMemcpyDtoHAsync(out.as_mut_ptr().cast(), pointer(address), out.len(), stream.raw)) }?;
        }
        stream.finish()?;
        stream.reported()
    }

    fn fill(&self, to: &DeviceBuffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        let address = memory::range(self.name(), "hipMemsetD8Async", to, offset, bytes)?;
        self.stream.context.make_current()?;
        self.stream.fill(address, bytes, value)?;
        self.stream.hold([to])
    }

    unsafe fn run(&self, work: &Work) -> Result<(), DeviceError> {
        self.stream.context.make_current()?;
        if work.reports() {
            self.stream.reports.store(true, Ordering::Relaxed);
        }
        let result = self.stream.enqueue(work.steps());
        // steps before one that failed are under way
        let held = self.stream.hold(work.memory());
        result.and(held)
    }

    fn record(&self) -> Result<Box<dyn Event>, DeviceError> {
        let stream = self.running("an event while a graph is captured")?;
        let mut raw: hipEvent_t = null_mut();
        // SAFETY: the device is current and `raw` writable
        unsafe { hip!(stream.context, hipEventCreateWithFlags(&mut raw, sys::hipEventDefault)) }?;
        let event = HipEvent { context: stream.context.clone(), raw };
        // SAFETY: event and stream are live and of one device
        unsafe { hip!(stream.context, hipEventRecord(event.raw, stream.raw)) }?;
        Ok(Box::new(event))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceError> {
        let event = self.event(event, "hipStreamWaitEvent")?;
        let stream = self.running("a wait while a graph is captured")?;
        // SAFETY: both are live; the runtime keeps what it needs of an event that is destroyed later
        unsafe { hip!(stream.context, hipStreamWaitEvent(stream.raw, event.raw, 0)) }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let stream = self.running("sync while a graph is captured")?;
        stream.finish()?;
        stream.reported()
    }

    fn error_word(&self) -> u64 {
        if self.stream.word.bytes() == 0 { 0 } else { self.stream.word.address() }
    }

    fn capture(&self, body: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError> {
        let stream = self.running("a capture inside a capture")?;
        let mode = sys::hipStreamCaptureMode_hipStreamCaptureModeThreadLocal;
        {
            let _gate = lock(&stream.gate);
            lock(&stream.held).recording = Some(Buffers::new());
            // SAFETY: the stream is live and not capturing
            let begun = unsafe { hip!(stream.context, hipStreamBeginCapture(stream.raw, mode)) };
            if begun.is_err() {
                lock(&stream.held).recording = None;
            }
            begun
        }?;
        let mut capture = Capture { stream, ended: false };
        let result = body();
        let (template, memory) = capture.end();
        // a broken body explains more than the capture that it broke
        result?;
        let template = template?;
        let mut exec: hipGraphExec_t = null_mut();
        // SAFETY: `exec` is writable, the template live, and neither a faulty node nor a log is asked for
        unsafe { hip!(stream.context, hipGraphInstantiate(&mut exec, template.graph, null_mut(), null_mut(), 0)) }?;
        Ok(Box::new(HipGraph { stream: self.stream.clone(), exec, memory: memory.into_values().collect() }))
    }
}

/// A capture that is under way: ended also where the body panics.
struct Capture<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> (Result<Template, DeviceError>, Buffers) {
        self.ended = true;
        let mut graph: hipGraph_t = null_mut();
        let current = self.stream.context.make_current();
        // SAFETY: the stream is live, `graph` writable; this is the thread that began the capture, as `capture` does not leave it
        let result = unsafe { hip!(self.stream.context, hipStreamEndCapture(self.stream.raw, &mut graph)) };
        let memory = lock(&self.stream.held).recording.take().unwrap_or_default();
        // a capture that went wrong gives no graph, and destroying none is no more than an error code
        let template = Template { driver: self.stream.context.driver, graph };
        (current.and(result).map(|()| template), memory)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.end());
        }
    }
}

/// What a capture gives: the graph that executable ones are made from.
struct Template {
    driver: &'static Driver,
    graph: hipGraph_t,
}

impl Drop for Template {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: given by `hipStreamEndCapture`, destroyed only here
            let _ = unsafe { self.driver.hip.hipGraphDestroy(self.graph) };
        }
    }
}

#[derive(Debug)]
struct HipGraph {
    stream: Arc<Stream>,
    exec: hipGraphExec_t,
    memory: Vec<DeviceBuffer>,
}

// SAFETY: the handles are those of the runtime, whose functions may be called from any thread; the graph is used by one thread at a time
unsafe impl Send for HipGraph {}

impl Graph for HipGraph {
    fn launch(&self) -> Result<(), DeviceError> {
        self.stream.reports.store(true, Ordering::Relaxed);
        self.stream.context.make_current()?;
        // SAFETY: graph and stream are live, and so is the memory, which the graph holds
        unsafe { hip!(self.stream.context, hipGraphLaunch(self.exec, self.stream.raw)) }?;
        self.stream.hold(&self.memory)
    }
}

impl Drop for HipGraph {
    fn drop(&mut self) {
        if self.stream.context.make_current().is_ok() {
            // SAFETY: made by `capture`, destroyed only here; the runtime lets a launch that is under way end first
            let _ = unsafe { self.stream.context.driver.hip.hipGraphExecDestroy(self.exec) };
        }
    }
}

#[derive(Debug)]
struct HipEvent {
    context: Arc<Context>,
    raw: hipEvent_t,
}

// SAFETY: the handle is one of the runtime, whose functions may be called from any thread
unsafe impl Send for HipEvent {}

impl HipEvent {
    fn of<'a>(event: &'a dyn Event, device: &str, call: &'static str) -> Result<&'a HipEvent, DeviceError> {
        match event.as_any().downcast_ref::<HipEvent>() {
            Some(e) if e.context.name == device => Ok(e),
            _ => Err(DeviceError::Driver { device: device.into(), call, what: "the event is another device's".into() }),
        }
    }
}

impl Event for HipEvent {
    fn since(&self, earlier: &dyn Event) -> Result<f64, DeviceError> {
        let name = &self.context.name;
        let earlier = HipEvent::of(earlier, name, "hipEventElapsedTime")?;
        self.context.make_current()?;
        let _relaxed = Relaxed::new(self.context.driver);
        for event in [earlier.raw, self.raw] {
            // SAFETY: both events are live
            unsafe { hip!(self.context, hipEventSynchronize(event)) }?;
        }
        let mut ms = 0.0;
        // SAFETY: both are live, recorded and done, and were made with timing; `ms` is writable
        unsafe { hip!(self.context, hipEventElapsedTime(&mut ms, earlier.raw, self.raw)) }?;
        Ok(f64::from(ms))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for HipEvent {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // SAFETY: made by `record`, destroyed only here
            let _ = unsafe { self.context.driver.hip.hipEventDestroy(self.raw) };
        }
    }
}
