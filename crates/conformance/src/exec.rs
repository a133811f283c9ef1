//! Runs one plan: guard bands around every buffer, gaps filled, outputs and workspace poisoned, everything checked afterwards.

use rayon::prelude::*;
use std::ops::Range;
use warpwave_core::{DType, DescError, Op, Plan, Role, Source, Target, TensorDesc, Valid};
use warpwave_hal::{Device, DeviceBuffer, DeviceError, Queue, View, bind};

/// Every byte of an output or a workspace before a run: NaN in each floating-point type, and none that arithmetic produces.
pub const POISON: u8 = 0xff;
/// The least width of a guard band, in elements.
pub const GUARD: u64 = 64;
/// Tensors of more bytes stay on the device: only the asked-for ranges and the guards come back.
const LARGE: u64 = 1 << 30;
/// Elements that a parallel loop takes at a time.
const CHUNK: usize = 1 << 14;

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Width of each guard band, in elements; at least [`GUARD`].
    pub guard: u64,
    /// What the guard bands hold.
    pub guard_value: f64,
    /// What lies between the elements of a strided tensor.
    pub gap_value: f64,
    /// What outputs hold before a run; `None`: [`POISON`].
    pub prefill: Option<f64>,
    /// The elements (row-major numbers) of each output that come back; `None`: all.
    pub ranges: Option<Vec<Range<u64>>>,
    /// Operand numbers of an output and of the input that it is written over.
    pub alias: Option<(usize, usize)>,
    /// No guard band behind a tensor or the workspace: its memory ends there, and a sanitizer reports what reads on.
    pub tight: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { guard: GUARD, guard_value: f64::NAN, gap_value: f64::NAN, prefill: None, ranges: None, alias: None, tight: false }
    }
}

/// What can be wrong with a run, whatever its results are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    #[error("{0}")]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Bind(#[from] DescError),
    #[error("{operand}: memory outside the tensor was changed, {elements} elements from its first one")]
    Outside { operand: String, elements: i64 },
    #[error("{operand}: the input was changed, {elements} elements from its first one")]
    InputChanged { operand: String, elements: i64 },
    #[error("{operand}: element {index} was not written")]
    NotWritten { operand: String, index: u64 },
    #[error("an index out of range in operand {0:?} was not reported")]
    NotReported(Vec<&'static str>),
    #[error("{operand}: {what}")]
    Setup { operand: String, what: String },
}

/// The tensor with each dimension of stride 0 cut to extent 1: one index for each element that exists.
pub fn distinct(desc: &TensorDesc) -> TensorDesc {
    let shape = desc.shape.iter().zip(&desc.strides).map(|(&n, &s)| if s == 0 { n.min(1) } else { n }).collect();
    TensorDesc { shape, ..desc.clone() }
}

/// Calls `f` with row-major number and position (in elements from the first one) of every index.
pub fn for_each_position(desc: &TensorDesc, mut f: impl FnMut(u64, u64)) {
    if desc.is_empty() {
        return;
    }
    let (n, step) = match desc.rank() {
        0 => (1, 0),
        r => (desc.shape[r - 1], desc.strides[r - 1] as u64),
    };
    let outer = desc.rank().saturating_sub(1);
    let mut index = vec![0u64; outer];
    let (mut i, mut row) = (0, 0u64);
    loop {
        for j in 0..n {
            f(i + j, row + j * step);
        }
        i += n;
        let mut d = outer;
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            row += desc.strides[d] as u64;
            if index[d] < desc.shape[d] {
                break;
            }
            row -= desc.shape[d] * desc.strides[d] as u64;
            index[d] = 0;
        }
    }
}

/// The bytes of one element.
fn element(dtype: DType, x: f64) -> Vec<u8> {
    let mut e = vec![0; dtype.size() as usize];
    dtype.encode(x, &mut e);
    e
}

/// The host's copy of a buffer: guard band, tensor with its gaps, guard band.
#[derive(Clone, Debug)]
pub struct Image {
    desc: TensorDesc,
    first: usize,
    bytes: Vec<u8>,
}

/// Bytes before the first element: the guard band, up to an address on 256, and the offset.
fn front(desc: &TensorDesc, options: &Options) -> u64 {
    let size = desc.dtype.size();
    (options.guard.max(GUARD) * size).next_multiple_of(256) + desc.offset % (256 / size) * size
}

/// Bytes of the buffer of a tensor.
pub fn buffer_bytes(desc: &TensorDesc, options: &Options) -> u64 {
    let size = desc.dtype.size();
    let behind = if options.tight { 0 } else { options.guard.max(GUARD) };
    front(desc, options) + (desc.span().unwrap_or(u64::MAX / 64) + behind) * size
}

impl Image {
    /// A tensor whose elements are `element` everywhere, or poison.
    pub fn new(desc: &TensorDesc, options: &Options, value: Option<f64>) -> Image {
        let size = desc.dtype.size() as usize;
        let first = front(desc, options) as usize;
        let total = buffer_bytes(desc, options) as usize;
        let span = desc.span().unwrap_or(0) as usize * size;
        let mut bytes = element(desc.dtype, options.guard_value).repeat(total / size);
        let inside = &mut bytes[first..first + span];
        let e = value.map_or_else(|| vec![POISON; size], |v| element(desc.dtype, v));
        if distinct(desc).is_contiguous() {
            inside.chunks_exact_mut(size).for_each(|c| c.copy_from_slice(&e));
        } else {
            let gap = element(desc.dtype, options.gap_value);
            inside.chunks_exact_mut(size).for_each(|c| c.copy_from_slice(&gap));
            for_each_position(&distinct(desc), |_, at| inside[at as usize * size..][..size].copy_from_slice(&e));
        }
        Image { desc: desc.clone(), first, bytes }
    }

    /// A tensor with the values `f` of the row-major number in the [`distinct`] shape, each rounded once.
    pub fn filled(desc: &TensorDesc, options: &Options, f: &(dyn Fn(u64) -> f64 + Sync)) -> Image {
        let mut image = Image::new(desc, options, Some(0.0));
        let (dtype, size, first) = (desc.dtype, desc.dtype.size() as usize, image.first);
        let cut = distinct(desc);
        let len = cut.len() as usize * size;
        if cut.is_contiguous() {
            image.bytes[first..first + len].par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, bytes)| {
                for (j, e) in bytes.chunks_exact_mut(size).enumerate() {
                    dtype.encode(f((chunk * CHUNK + j) as u64), e);
                }
            });
        } else {
            let inside = &mut image.bytes[first..];
            for_each_position(&cut, |i, at| dtype.encode(f(i), &mut inside[at as usize * size..]));
        }
        image
    }

    /// What it describes.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Element number `i`.
    pub fn get(&self, i: u64) -> f64 {
        let size = self.desc.dtype.size();
        self.desc.dtype.decode(&self.bytes[self.first + (self.desc.position(i) * size) as usize..])
    }

    /// All elements, in row-major order.
    pub fn dense(&self) -> Vec<f64> {
        let (dtype, size) = (self.desc.dtype, self.desc.dtype.size() as usize);
        let mut out = Vec::with_capacity(self.desc.len() as usize);
        for_each_position(&self.desc, |_, at| out.push(dtype.decode(&self.bytes[self.first + at as usize * size..])));
        out
    }

    /// For a reference: stored as float64 unless that would be large.
    pub fn source(&self) -> Source<'_> {
        if self.desc.len() <= 1 << 24 { Source::Dense(self.dense()) } else { Source::Lazy(Box::new(|i| self.get(i))) }
    }

    /// As [`Image::source`], as an op on a target reads it.
    pub fn source_on(&self, op: &dyn Op, target: Target) -> Source<'_> {
        let dtype = self.desc.dtype;
        if !(target.matrix_flushes_subnormals() && op.multiplies_matrices() && matches!(dtype, DType::F16 | DType::BF16)) {
            return self.source();
        }
        let least = if dtype == DType::F16 { 2f64.powi(-14) } else { 2f64.powi(-126) };
        let flushed = move |x: f64| if x.abs() < least { 0f64.copysign(x) } else { x };
        match self.source() {
            Source::Dense(all) => Source::Dense(all.into_iter().map(flushed).collect()),
            Source::Lazy(f) => Source::Lazy(Box::new(move |i| flushed(f(i)))),
        }
    }

    /// The same elements under other guards and gaps.
    pub fn with_surroundings(&self, options: &Options) -> Image {
        let mut image = Image::new(&self.desc, options, Some(0.0));
        let size = self.desc.dtype.size() as usize;
        let (to, from) = (image.first, self.first);
        for_each_position(&distinct(&self.desc), |_, at| {
            let at = at as usize * size;
            image.bytes[to + at..to + at + size].copy_from_slice(&self.bytes[from + at..from + at + size]);
        });
        image
    }

    /// Elements from the first one to byte `at`.
    fn distance(&self, at: usize) -> i64 {
        (at as i64 - self.first as i64).div_euclid(self.desc.dtype.size() as i64)
    }
}

/// What came back of one output.
#[derive(Clone, Debug)]
pub struct Output {
    /// Operand number.
    pub operand: usize,
    /// Element type.
    pub dtype: DType,
    /// Logical extents.
    pub shape: Vec<u64>,
    /// Which elements, as row-major numbers.
    pub ranges: Vec<Range<u64>>,
    /// Their bytes, in that order.
    pub bytes: Vec<u8>,
}

impl Output {
    /// Number of elements that came back.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size() as usize
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The `at`th element that came back.
    pub fn value(&self, at: usize) -> f64 {
        self.dtype.decode(&self.bytes[at * self.dtype.size() as usize..])
    }

    /// All that came back.
    pub fn values(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.value(i)).collect()
    }

    /// Element with row-major number `i`, if it came back.
    pub fn get(&self, i: u64) -> Option<f64> {
        let mut before = 0;
        for r in &self.ranges {
            if r.contains(&i) {
                return Some(self.value((before + i - r.start) as usize));
            }
            before += r.end - r.start;
        }
        None
    }

    /// Row-major number and value of everything that came back.
    pub fn iter(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.ranges.iter().flat_map(Clone::clone).enumerate().map(|(at, i)| (i, self.value(at)))
    }
}

/// A problem with its memory on a device; plans of it run one after the other.
#[derive(Debug)]
pub struct Session<'a> {
    device: &'a dyn Device,
    queue: Box<dyn Queue>,
    op: &'a dyn Op,
    problem: &'a Valid,
    options: Options,
    /// What each operand's buffer holds before a run; `None`: not given, or large.
    images: Vec<Option<Image>>,
    views: Vec<Option<View>>,
}

/// Runs problems on one device.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    device: &'a dyn Device,
}

impl<'a> Runner<'a> {
    /// For a device.
    pub fn new(device: &'a dyn Device) -> Self {
        Runner { device }
    }

    /// The device.
    pub fn device(&self) -> &'a dyn Device {
        self.device
    }

    /// Memory for a problem with these inputs (one entry for each operand, `None` for outputs and what is not given).
    ///
    /// # Errors
    /// What the device reports.
    pub fn session(&self, op: &'a dyn Op, problem: &'a Valid, inputs: Vec<Option<Image>>, options: Options) -> Result<Session<'a>, Fault> {
        let queue = self.device.queue()?;
        let mut images = inputs;
        let mut views: Vec<Option<View>> = Vec::new();
        for (i, desc) in problem.operands.iter().enumerate() {
            let spec = &problem.signature.operands[i];
            let Some(desc) = desc else {
                views.push(None);
                images[i] = None;
                continue;
            };
            let bytes = buffer_bytes(desc, &options);
            if spec.role == Role::Output {
                if let Some((_, input)) = options.alias.filter(|a| a.0 == i) {
                    images[i] = images[input].clone();
                    views.push(views.get(input).cloned().flatten());
                    continue;
                }
                images[i] = (bytes <= LARGE).then(|| Image::new(desc, &options, options.prefill));
                if images[i].is_none() && (options.ranges.is_none() || !desc.is_contiguous() || options.prefill.is_some()) {
                    let what = format!("an output of {bytes} bytes must be contiguous, without prefill and compared in ranges");
                    return Err(Fault::Setup { operand: spec.name.into(), what });
                }
            } else {
                let image = images[i].as_ref().ok_or_else(|| Fault::Setup { operand: spec.name.into(), what: "no data".into() })?;
                let buffer = self.device.allocate(bytes)?;
                queue.upload(&buffer, 0, &image.bytes)?;
                views.push(Some(View { buffer, offset: front(desc, &options) }));
                continue;
            }
            views.push(Some(View { buffer: self.device.allocate(bytes)?, offset: front(desc, &options) }));
        }
        Ok(Session { device: self.device, queue, op, problem, options, images, views })
    }

    /// One plan, once.
    ///
    /// # Errors
    /// See [`Session::run`].
    pub fn run(&self, op: &'a dyn Op, problem: &'a Valid, plan: &Plan, inputs: Vec<Option<Image>>, options: Options) -> Result<Vec<Output>, Fault> {
        self.session(op, problem, inputs, options)?.run(plan)
    }
}

/// The place of the first difference.
fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b { None } else { a.iter().zip(b).position(|(x, y)| x != y) }
}

impl Session<'_> {
    /// What an input holds.
    pub fn image(&self, operand: usize) -> Option<&Image> {
        self.images[operand].as_ref()
    }

    /// Runs a plan over poisoned outputs and workspace, and checks that nothing but the outputs' elements was written.
    ///
    /// # Errors
    /// A device error, a guard band or gap or input that was changed, an element that was not written.
    pub fn run(&self, plan: &Plan) -> Result<Vec<Output>, Fault> {
        let q = &*self.queue;
        for o in self.problem.outputs() {
            let Some(view) = &self.views[o] else { continue };
            match &self.images[o] {
                Some(image) => q.upload(&view.buffer, 0, &image.bytes)?,
                None => q.fill(&view.buffer, 0, view.buffer.bytes(), POISON)?,
            }
        }
        let guard = (self.options.guard.max(GUARD) * 4).next_multiple_of(256);
        let behind = if self.options.tight { 0 } else { guard };
        let scratch = match plan.workspace.bytes() {
            0 => None,
            bytes => {
                let buffer = self.device.allocate(guard + bytes + behind)?;
                q.fill(&buffer, 0, guard + bytes + behind, POISON)?;
                Some(View { buffer, offset: guard })
            }
        };
        let work = bind(self.op, self.problem, plan, &self.views, scratch.as_ref(), q.error_word())?;
        // SAFETY: the buffers live in `self` and `scratch` until the sync below, and no other queue knows them
        unsafe { q.run(&work) }?;
        let hostile = if plan.steps.is_empty() { Vec::new() } else { self.hostile() };
        match q.sync() {
            Ok(()) if hostile.is_empty() => {}
            Ok(()) => return Err(Fault::NotReported(hostile.iter().map(|&o| self.problem.signature.operands[o].name).collect())),
            Err(DeviceError::IndexOutOfRange { operand, .. }) if hostile.contains(&(operand as usize)) => {}
            Err(e) => return Err(e.into()),
        }
        if let Some(view) = &scratch {
            for (at, bytes) in [(0, guard), (guard + plan.workspace.bytes(), behind)] {
                self.check_poison("workspace", &view.buffer, at, bytes, 1)?;
            }
        }
        for (i, image) in self.images.iter().enumerate() {
            let (Some(image), Some(view)) = (image, &self.views[i]) else { continue };
            let spec = &self.problem.signature.operands[i];
            let aliased = self.options.alias.is_some_and(|a| a.1 == i);
            if spec.role == Role::Output || aliased {
                continue;
            }
            let mut now = vec![0; image.bytes.len()];
            q.download(&view.buffer, 0, &mut now)?;
            if let Some(at) = difference(&now, &image.bytes) {
                return Err(Fault::InputChanged { operand: spec.name.into(), elements: image.distance(at) });
            }
        }
        self.problem.outputs().filter(|&o| self.views[o].is_some()).map(|o| self.collect(o)).collect()
    }

    /// Inputs that hold indices out of range: what a run must report, and nothing else.
    fn hostile(&self) -> Vec<usize> {
        let holds = |o: usize| -> Option<bool> {
            let (indices, image) = (self.op.indices(self.problem, o)?, self.images[o].as_ref()?);
            Some(image.dense().into_iter().any(|x| indices.is_hostile(x)))
        };
        (0..self.images.len()).filter(|&o| holds(o) == Some(true)).collect()
    }

    fn check_poison(&self, operand: &str, buffer: &DeviceBuffer, at: u64, bytes: u64, size: u64) -> Result<(), Fault> {
        let mut now = vec![0; bytes as usize];
        self.queue.download(buffer, at, &mut now)?;
        match now.iter().position(|&b| b != POISON) {
            None => Ok(()),
            Some(p) => Err(Fault::Outside { operand: operand.into(), elements: ((at + p as u64) / size) as i64 }),
        }
    }

    fn collect(&self, o: usize) -> Result<Output, Fault> {
        let name = self.problem.signature.operands[o].name;
        let (Some(desc), Some(view)) = (&self.problem.operands[o], &self.views[o]) else {
            return Err(Fault::Setup { operand: name.into(), what: "not given".into() });
        };
        let size = desc.dtype.size() as usize;
        let whole = 0..desc.len();
        let ranges = self.options.ranges.clone().unwrap_or_else(|| vec![whole.clone()]);
        if let Some(r) = ranges.iter().find(|r| r.end > whole.end || r.start > r.end) {
            return Err(Fault::Setup { operand: name.into(), what: format!("range {r:?} of {} elements", whole.end) });
        }
        let count: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        let mut bytes = vec![0u8; count as usize * size];
        if let Some(image) = &self.images[o] {
            let mut now = vec![0; image.bytes.len()];
            self.queue.download(&view.buffer, 0, &mut now)?;
            let first = image.first;
            let mut at = 0;
            for r in &ranges {
                if desc.is_contiguous() {
                    let len = (r.end - r.start) as usize * size;
                    bytes[at..at + len].copy_from_slice(&now[first + r.start as usize * size..][..len]);
                    at += len;
                } else if *r == whole {
                    for_each_position(desc, |_, p| {
                        bytes[at..at + size].copy_from_slice(&now[first + p as usize * size..][..size]);
                        at += size;
                    });
                } else {
                    for i in r.clone() {
                        bytes[at..at + size].copy_from_slice(&now[first + desc.position(i) as usize * size..][..size]);
                        at += size;
                    }
                }
            }
            // with the elements put back, the buffer must be as it was
            if desc.is_contiguous() {
                let all = first..first + desc.len() as usize * size;
                now[all.clone()].copy_from_slice(&image.bytes[all]);
            } else {
                for_each_position(desc, |_, p| {
                    let p = first + p as usize * size;
                    now[p..p + size].copy_from_slice(&image.bytes[p..p + size]);
                });
            }
            if let Some(p) = difference(&now, &image.bytes) {
                return Err(Fault::Outside { operand: name.into(), elements: image.distance(p) });
            }
        } else {
            let end = view.offset + desc.len() * size as u64;
            self.check_poison(name, &view.buffer, 0, view.offset, size as u64)?;
            self.check_poison(name, &view.buffer, end, view.buffer.bytes() - end, size as u64)?;
            let mut at = 0;
            for r in &ranges {
                let len = (r.end - r.start) as usize * size;
                self.queue.download(&view.buffer, view.offset + r.start * size as u64, &mut bytes[at..at + len])?;
                at += len;
            }
        }
        if self.options.prefill.is_none() && self.options.alias.is_none() {
            let unwritten = bytes.par_chunks_exact(size).position_first(|e| e.iter().all(|&b| b == POISON));
            if let Some(at) = unwritten {
                let index = ranges.iter().flat_map(Clone::clone).nth(at).unwrap_or(0);
                return Err(Fault::NotWritten { operand: name.into(), index });
            }
        }
        Ok(Output { operand: o, dtype: desc.dtype, shape: desc.shape.clone(), ranges, bytes })
    }
}
