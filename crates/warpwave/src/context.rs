use crate::{AttrValue, Device, DeviceError, Error, Images, Op, Plan, Problem, Target, Tensor, Tuning, View};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warpwave_core::{Role, Valid};
use warpwave_hal::{DeviceBuffer, Event, Graph, Queue, Work};

/// A queue that several tensors and threads share.
#[derive(Debug)]
struct SharedQueue(Mutex<Box<dyn Queue>>);

impl SharedQueue {
    fn get(&self) -> MutexGuard<'_, Box<dyn Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for SharedQueue {
    fn upload(&self, to: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.get().upload(to, offset, bytes)
    }
    fn download(&self, from: &DeviceBuffer, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.get().download(from, offset, out)
    }
    fn fill(&self, to: &DeviceBuffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        self.get().fill(to, offset, bytes, value)
    }
    unsafe fn run(&self, work: &Work) -> Result<(), DeviceError> {
        // SAFETY: passed on to the caller
        unsafe { self.get().run(work) }
    }
    fn record(&self) -> Result<Box<dyn Event>, DeviceError> {
        self.get().record()
    }
    fn wait(&self, event: &dyn Event) -> Result<(), DeviceError> {
        self.get().wait(event)
    }
    fn error_word(&self) -> u64 {
        self.get().error_word()
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.get().sync()
    }
    fn capture(&self, _: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError> {
        // the body would ask for the lock that this holds: a graph is captured on a queue of one's own
        Err(DeviceError::Unsupported { device: "a context".into(), what: "graph capture on the shared queue" })
    }
}

/// A device, a queue on it, and measured choices of plans. Cheap to clone; clones share the queue.
#[derive(Clone, Debug)]
pub struct Context {
    device: Arc<dyn Device>,
    queue: Arc<SharedQueue>,
    tuning: Arc<Tuning>,
}

/// Every device of this machine: the CPU with warps of 32 and of 64, then GPUs. Backends without a driver are left out; why stands beside them.
pub fn devices() -> (Vec<Arc<dyn Device>>, Vec<DeviceError>) {
    devices_with(Arc::new(Images::standard(&[])))
}

fn cpu(name: &str) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    Ok(vec![Arc::new(warpwave_cpu::CpuDevice::open(name)?)])
}

/// [`devices`], with kernels from the given images.
pub fn devices_with(images: Arc<Images>) -> (Vec<Arc<dyn Device>>, Vec<DeviceError>) {
    let lists = [
        cpu("cpu"),
        cpu("cpu:64"),
        #[cfg(feature = "cuda")]
        warpwave_cuda::devices(images.clone()),
        #[cfg(feature = "hip")]
        warpwave_hip::devices(images.clone()),
    ];
    // held by GPU backends alone
    drop(images);
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for list in lists {
        match list {
            Ok(list) => found.extend(list),
            Err(e) => missing.push(e),
        }
    }
    (found, missing)
}

/// The devices of the library `warpwave-hip-interp`, which executes AMD code objects on the CPU; see [`warpwave_hip::interpreted_devices`].
///
/// # Errors
/// [`DeviceError::NoDriver`] where the library does not load.
#[cfg(feature = "hip")]
pub fn interpreted_devices(library: &std::path::Path, images: Arc<Images>) -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    warpwave_hip::interpreted_devices(library, images)
}

impl Context {
    /// A context on a device.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn new(device: Arc<dyn Device>) -> Result<Self, Error> {
        let queue = Arc::new(SharedQueue(Mutex::new(device.queue()?)));
        Ok(Context { device, queue, tuning: Arc::default() })
    }

    /// A context on the CPU.
    ///
    /// # Errors
    /// The environment asks for a schedule that does not exist.
    pub fn cpu() -> Result<Self, Error> {
        Context::new(Arc::new(warpwave_cpu::CpuDevice::open("cpu")?))
    }

    /// A context on the device of a name: `cpu`, `cpu:64`, `cuda:0`, `hip:0`; a bare `cuda` or `hip` is its first.
    ///
    /// # Errors
    /// There is no such device.
    pub fn open(name: &str) -> Result<Self, Error> {
        let (found, missing) = devices();
        let full = if name.contains(':') || name == "cpu" { name.to_owned() } else { format!("{name}:0") };
        match found.iter().find(|d| d.name() == full) {
            Some(d) => Context::new(d.clone()),
            None => {
                let names: Vec<String> = found.iter().map(|d| d.name()).collect();
                let why: Vec<String> = missing.iter().map(|e| format!("; {e}")).collect();
                Err(Error::Input(format!("no device `{name}`; there are {}{}", names.join(", "), why.concat())))
            }
        }
    }

    /// The same device and queue, with measured choices.
    pub fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = Arc::new(tuning);
        self
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The queue that calls go to.
    pub fn queue(&self) -> &dyn Queue {
        &*self.queue
    }

    pub(crate) fn shared_queue(&self) -> Arc<dyn Queue + Sync> {
        self.queue.clone()
    }

    /// Waits for all work so far.
    ///
    /// # Errors
    /// Faults of that work.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.queue.sync()?)
    }

    /// A call of an op, to which operands and attributes are added.
    pub fn call<'a>(&'a self, op: &'a dyn Op) -> Call<'a> {
        Call { ctx: self, op, operands: BTreeMap::new(), attrs: Vec::new() }
    }

    /// The target that this device's kernels are built for.
    pub fn target(&self) -> Target {
        self.device.caps().target
    }
}

/// A call under construction.
#[derive(Debug)]
pub struct Call<'a> {
    ctx: &'a Context,
    op: &'a dyn Op,
    operands: BTreeMap<String, &'a Tensor>,
    attrs: Vec<(String, AttrValue)>,
}

/// What a call wrote, in the order of the op's signature.
pub type Outputs = Vec<Tensor>;

impl<'a> Call<'a> {
    /// An input.
    pub fn input(mut self, name: &str, tensor: &'a Tensor) -> Self {
        self.operands.insert(name.into(), tensor);
        self
    }

    /// Memory for an output; without it a new tensor is made.
    pub fn output(self, name: &str, tensor: &'a Tensor) -> Self {
        self.input(name, tensor)
    }

    /// An attribute.
    pub fn attr(mut self, name: &str, value: impl Into<AttrValue>) -> Self {
        self.attrs.push((name.into(), value.into()));
        self
    }

    /// The problem that this call poses, checked.
    ///
    /// # Errors
    /// An operand, attribute or value that the op does not know; a rule that is broken.
    pub fn problem(&self) -> Result<Valid, Error> {
        let signature = self.op.signature();
        let mut problem = Problem::new(signature);
        for (name, tensor) in &self.operands {
            if problem.index(name).is_none() {
                return Err(Error::Input(format!("{} has no operand `{name}`", signature.op)));
            }
            problem = problem.with(name, tensor.desc().clone());
        }
        for (name, value) in &self.attrs {
            let Some(spec) = signature.attrs.iter().find(|a| a.name == name) else {
                return Err(Error::Input(format!("{} has no attribute `{name}`", signature.op)));
            };
            if std::mem::discriminant(&spec.kind.default()) != std::mem::discriminant(value) {
                return Err(Error::Input(format!("{}: attribute {name} is not {value:?}", signature.op)));
            }
            problem = problem.with_attr(name, *value);
        }
        Ok(warpwave_core::validate(self.op, self.op.infer(problem)?)?)
    }

    /// The plan that [`run`](Self::run) follows.
    ///
    /// # Errors
    /// As [`problem`](Self::problem); no kernel of the device's target computes it.
    pub fn plan(&self) -> Result<Plan, Error> {
        Ok(warpwave_core::plan(self.op, &self.problem()?, self.ctx.device.caps(), &self.ctx.tuning)?)
    }

    /// Queues the work and returns the outputs; they are ordered behind it on the context's queue.
    ///
    /// # Errors
    /// A rule that is broken, a kernel that is missing, out of memory.
    pub fn run(self) -> Result<Outputs, Error> {
        let problem = self.problem()?;
        let plan = warpwave_core::plan(self.op, &problem, self.ctx.device.caps(), &self.ctx.tuning)?;
        let mut tensors: Vec<Option<Tensor>> = Vec::with_capacity(problem.operands.len());
        for (spec, desc) in problem.signature.operands.iter().zip(&problem.operands) {
            tensors.push(match (self.operands.get(spec.name), desc) {
                (Some(&t), _) => Some(t.clone()),
                (None, Some(desc)) => Some(self.ctx.empty(desc)?),
                (None, None) => None,
            });
        }
        let views: Vec<Option<View>> = tensors.iter().map(|t| t.as_ref().map(|t| t.view().clone())).collect();
        let workspace = match plan.workspace.bytes() {
            0 => None,
            bytes => Some(View { buffer: self.ctx.device.allocate(bytes)?, offset: 0 }),
        };
        let work = warpwave_hal::bind(self.op, &problem, &plan, &views, workspace.as_ref(), self.ctx.queue.error_word())?;
        // SAFETY: the problem is valid, the plan is made from it for this device, and bind checked every view against its memory; tensors hold
        // their memory, and a backend keeps what `work` names until the queue is done with it. Other queues are the caller's to order.
        unsafe { self.ctx.queue.run(&work)? };
        let outputs = problem.signature.operands.iter().zip(tensors).filter(|(s, _)| s.role == Role::Output);
        Ok(outputs.filter_map(|(_, t)| t).collect())
    }
}
