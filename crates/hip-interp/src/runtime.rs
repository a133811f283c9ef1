//! Streams, events, modules, graphs: plain data behind one lock.

use crate::device::{Device, devices};
use amdgpu_interp::{CodeObject, Fault, Launch, Options};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// `hipError_t`.
pub(crate) type Code = u32;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NO_DEVICE: Code = 100;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_IMAGE: Code = 200;
pub(crate) const NO_BINARY_FOR_GPU: Code = 209;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const ILLEGAL_ADDRESS: Code = 700;
pub(crate) const LAUNCH_FAILURE: Code = 719;
pub(crate) const CAPTURE_UNSUPPORTED: Code = 900;
pub(crate) const ILLEGAL_STATE: Code = 401;

/// A host address that a copy will write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPointer(pub(crate) *mut u8);

// SAFETY: whoever asks for a copy to the host promises that the memory may be written until the stream is synchronised, from any thread
unsafe impl Send for HostPointer {}

/// Work of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// From the host: the bytes were read when the copy was asked for, as the runtime does with pageable memory.
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    Download {
        to: HostPointer,
        from: u64,
        bytes: u64,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: u64,
    },
    Launch {
        code: Arc<CodeObject>,
        kernel: String,
        grid: [u32; 3],
        block: [u32; 3],
        lds: u32,
        kernarg: Vec<u8>,
    },
    Record {
        event: usize,
        number: u64,
    },
    Wait {
        event: usize,
        number: u64,
    },
}

#[derive(Debug)]
struct Stream {
    device: usize,
    /// Runs apart from the default stream.
    independent: bool,
    work: VecDeque<Work>,
    capture: Option<Vec<Work>>,
    fault: Option<Code>,
}

#[derive(Debug, Default)]
struct Event {
    /// How often it was recorded, how many of these have run.
    recorded: u64,
    done: u64,
    stream: usize,
    at: Option<Instant>,
}

/// All that the library holds.
#[derive(Default)]
pub(crate) struct Runtime {
    pub(crate) devices: Vec<Device>,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Event>,
    modules: HashMap<usize, Arc<CodeObject>>,
    functions: HashMap<usize, (usize, String)>,
    graphs: HashMap<usize, Vec<Work>>,
    last: usize,
    /// What the last fault was.
    pub(crate) fault: Option<String>,
}

static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| Mutex::new(Runtime { devices: devices(), ..Runtime::default() }));

pub(crate) fn runtime() -> MutexGuard<'static, Runtime> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) type Result<T> = std::result::Result<T, Code>;

impl Runtime {
    fn number(&mut self) -> usize {
        self.last += 1;
        self.last * 16
    }

    pub(crate) fn device(&self, index: usize) -> Result<&Device> {
        self.devices.get(index).ok_or(if self.devices.is_empty() { NO_DEVICE } else { INVALID_DEVICE })
    }

    /// The device whose memory an address lies in.
    fn owner(&self, address: u64) -> Option<usize> {
        self.devices.iter().position(|d| d.memory.allocation(address).is_some())
    }

    pub(crate) fn allocate(&mut self, device: usize, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.device(device)?.memory.alloc(bytes).ok_or(OUT_OF_MEMORY)
    }

    /// Waits for the device first, as `hipFree` does.
    pub(crate) fn free(&mut self, address: u64) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let device = self.owner(address).ok_or(INVALID_VALUE)?;
        for s in self.streams_of(device) {
            // a fault is left for the call that waits for the stream
            self.drain(s, None);
        }
        if self.devices[device].memory.free(address) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn streams_of(&self, device: usize) -> Vec<usize> {
        let mut all: Vec<usize> = self.streams.iter().filter(|(_, s)| s.device == device).map(|(&i, _)| i).collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn new_stream(&mut self, device: usize, independent: bool) -> Result<usize> {
        self.device(device)?;
        let n = self.number();
        self.streams.insert(n, Stream { device, independent, work: VecDeque::new(), capture: None, fault: None });
        Ok(n)
    }

    /// The stream of a handle; 0 is a device's default one, which waits for those that are not independent, as they do for it.
    fn resolve(&mut self, stream: usize, device: usize) -> Result<usize> {
        self.device(device)?;
        let default = device + 1;
        if stream != 0 {
            let s = self.streams.get(&stream).ok_or(INVALID_HANDLE)?;
            let (blocking, of) = (!s.independent && s.capture.is_none(), s.device + 1);
            if blocking && self.streams.contains_key(&of) {
                self.drain(of, None);
            }
            return Ok(stream);
        }
        self.streams.entry(default).or_insert(Stream { device, independent: false, work: VecDeque::new(), capture: None, fault: None });
        for s in self.streams_of(device) {
            if s != default && self.streams.get(&s).is_some_and(|s| !s.independent && s.capture.is_none()) {
                self.drain(s, None);
            }
        }
        Ok(default)
    }

    pub(crate) fn destroy_stream(&mut self, stream: usize) -> Result<()> {
        self.drain(stream, None);
        self.streams.remove(&stream).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn enqueue(&mut self, stream: usize, device: usize, work: Work) -> Result<()> {
        let stream = self.resolve(stream, device)?;
        let s = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        match &mut s.capture {
            Some(list) => list.push(work),
            None => s.work.push_back(work),
        }
        Ok(())
    }

    pub(crate) fn synchronize(&mut self, stream: usize, device: usize) -> Result<()> {
        let stream = self.resolve(stream, device)?;
        if self.is_capturing(stream)? {
            return Err(CAPTURE_UNSUPPORTED);
        }
        self.drain(stream, None);
        match self.streams.get_mut(&stream).and_then(|s| s.fault.take()) {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    /// Runs a stream's work: all, or up to a record of an event.
    fn drain(&mut self, stream: usize, until: Option<(usize, u64)>) {
        loop {
            if until.is_some_and(|(e, n)| self.events.get(&e).is_none_or(|e| e.done >= n)) {
                return;
            }
            let Some(s) = self.streams.get_mut(&stream) else { return };
            let device = s.device;
            let Some(work) = s.work.pop_front() else { return };
            if let Err(fault) = self.perform(work, device) {
                let text = fault.to_string();
                let code =
                    if text.contains("lie in no allocation") || matches!(fault, Fault::Host { .. }) { ILLEGAL_ADDRESS } else { LAUNCH_FAILURE };
                self.fault = Some(text);
                if let Some(s) = self.streams.get_mut(&stream) {
                    s.fault.get_or_insert(code);
                }
            }
        }
    }

    fn perform(&mut self, work: Work, device: usize) -> std::result::Result<(), Fault> {
        let memory = self.devices[device].memory.clone();
        match work {
            Work::Upload { to, bytes } => memory.write(to, &bytes),
            Work::Download { to, from, bytes } => {
                let mut data = vec![0; bytes as usize];
                memory.read(from, &mut data)?;
                // SAFETY: whoever asked for the copy promised so many bytes until the stream is synchronised
                unsafe { std::ptr::copy(data.as_ptr(), to.0, data.len()) };
                Ok(())
            }
            Work::Copy { to, from, bytes } => {
                // of two devices: through the host
                let mut data = vec![0; bytes as usize];
                let (of, onto) = (self.owner(from).unwrap_or(device), self.owner(to).unwrap_or(device));
                self.devices[of].memory.read(from, &mut data)?;
                self.devices[onto].memory.write(to, &data)
            }
            Work::Fill { to, value, bytes } => memory.fill(to, value, bytes),
            Work::Launch { code, kernel, grid, block, lds, kernarg } => {
                let Some(k) = code.kernel(&kernel) else { return Ok(()) };
                amdgpu_interp::run(k, &code, &Launch { grid, block, dynamic_lds: lds, kernarg: &kernarg }, &memory, &Options::default()).map(|_| ())
            }
            Work::Record { event, number } => {
                if let Some(e) = self.events.get_mut(&event) {
                    e.done = e.done.max(number);
                    e.at = Some(Instant::now());
                }
                Ok(())
            }
            Work::Wait { event, number } => {
                let from = self.events.get(&event).filter(|e| e.done < number).map(|e| e.stream);
                if let Some(stream) = from {
                    self.drain(stream, Some((event, number)));
                }
                Ok(())
            }
        }
    }

    pub(crate) fn new_event(&mut self) -> usize {
        let n = self.number();
        self.events.insert(n, Event::default());
        n
    }

    pub(crate) fn record(&mut self, event: usize, stream: usize, device: usize) -> Result<()> {
        let stream = self.resolve(stream, device)?;
        let e = self.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        e.recorded += 1;
        e.stream = stream;
        let number = e.recorded;
        self.enqueue(stream, device, Work::Record { event, number })
    }

    pub(crate) fn wait(&mut self, stream: usize, event: usize, device: usize) -> Result<()> {
        let number = self.events.get(&event).ok_or(INVALID_HANDLE)?.recorded;
        self.enqueue(stream, device, Work::Wait { event, number })
    }

    /// Waits for the last record of an event.
    pub(crate) fn reach(&mut self, event: usize) -> Result<()> {
        let e = self.events.get(&event).ok_or(INVALID_HANDLE)?;
        let (stream, number) = (e.stream, e.recorded);
        self.drain(stream, Some((event, number)));
        match self.streams.get_mut(&stream).and_then(|s| s.fault.take()) {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    /// Whether its last record has run. Each question lets one piece of the stream's work run, so that whoever polls gets there.
    pub(crate) fn query(&mut self, event: usize) -> Result<()> {
        let ready = |r: &Runtime| r.events.get(&event).map(|e| e.done >= e.recorded).ok_or(INVALID_HANDLE);
        if ready(self)? {
            return Ok(());
        }
        let stream = self.events[&event].stream;
        let next = self.streams.get_mut(&stream).and_then(|s| Some((s.device, s.work.pop_front()?)));
        if let Some((device, work)) = next
            && let Err(fault) = self.perform(work, device)
        {
            self.fault = Some(fault.to_string());
            if let Some(s) = self.streams.get_mut(&stream) {
                s.fault.get_or_insert(LAUNCH_FAILURE);
            }
        }
        if ready(self)? { Ok(()) } else { Err(NOT_READY) }
    }

    pub(crate) fn destroy_event(&mut self, event: usize) -> Result<()> {
        self.events.remove(&event).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn elapsed(&self, start: usize, stop: usize) -> Result<f32> {
        let at = |e: usize| {
            let e = self.events.get(&e).ok_or(INVALID_HANDLE)?;
            if e.done < e.recorded { Err(NOT_READY) } else { e.at.ok_or(INVALID_HANDLE) }
        };
        let (a, b) = (at(start)?, at(stop)?);
        let ms = |d: std::time::Duration| d.as_secs_f32() * 1e3;
        Ok(b.checked_duration_since(a).map_or_else(|| -ms(a - b), ms))
    }

    pub(crate) fn load(&mut self, image: &[u8], device: usize) -> Result<usize> {
        let isa = self.device(device)?.isa;
        let code = CodeObject::load(image).map_err(|e| {
            self.fault = Some(e.to_string());
            INVALID_IMAGE
        })?;
        if code.isa() != isa {
            self.fault = Some(format!("a code object of {} on a device of {isa}", code.isa()));
            return Err(NO_BINARY_FOR_GPU);
        }
        let n = self.number();
        self.modules.insert(n, Arc::new(code));
        Ok(n)
    }

    pub(crate) fn unload(&mut self, module: usize) -> Result<()> {
        self.functions.retain(|_, f| f.0 != module);
        self.modules.remove(&module).map(|_| ()).ok_or(INVALID_HANDLE)
    }

    pub(crate) fn function(&mut self, module: usize, name: &str) -> Result<usize> {
        self.modules.get(&module).ok_or(INVALID_HANDLE)?.kernel(name).ok_or(NOT_FOUND)?;
        let n = self.number();
        self.functions.insert(n, (module, name.to_owned()));
        Ok(n)
    }

    /// The code object and the kernel of a function.
    pub(crate) fn kernel(&self, function: usize) -> Result<(Arc<CodeObject>, String)> {
        let (module, name) = self.functions.get(&function).ok_or(INVALID_HANDLE)?;
        Ok((self.modules.get(module).ok_or(INVALID_HANDLE)?.clone(), name.clone()))
    }

    pub(crate) fn is_capturing(&self, stream: usize) -> Result<bool> {
        Ok(stream != 0 && self.streams.get(&stream).ok_or(INVALID_HANDLE)?.capture.is_some())
    }

    pub(crate) fn begin_capture(&mut self, stream: usize) -> Result<()> {
        let s = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        if s.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        s.capture = Some(Vec::new());
        Ok(())
    }

    pub(crate) fn end_capture(&mut self, stream: usize) -> Result<usize> {
        let work = self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.capture.take().ok_or(ILLEGAL_STATE)?;
        let n = self.number();
        self.graphs.insert(n, work);
        Ok(n)
    }

    pub(crate) fn copy_graph(&mut self, graph: usize) -> Result<usize> {
        let work = self.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
        let n = self.number();
        self.graphs.insert(n, work);
        Ok(n)
    }

    pub(crate) fn launch_graph(&mut self, graph: usize, stream: usize, device: usize) -> Result<()> {
        for work in self.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone() {
            self.enqueue(stream, device, work)?;
        }
        Ok(())
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize) -> Result<()> {
        self.graphs.remove(&graph).map(|_| ()).ok_or(INVALID_HANDLE)
    }
}
