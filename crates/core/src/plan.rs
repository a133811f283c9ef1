use crate::{Arg, Buffer, DType, KernelId, Target};
use std::collections::BTreeMap;
use std::fmt;

/// What running a problem takes: steps in order, over one workspace.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Which of the op's ways this is; names it in tuning tables and tests.
    pub tag: String,
    /// Target whose kernels the steps name.
    pub target: Target,
    /// In order; each sees what the ones before it wrote.
    pub steps: Vec<Step>,
    /// Scratch memory.
    pub workspace: Workspace,
}

/// One step of a plan.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Run a kernel.
    Launch(Launch),
    /// Set memory to a byte.
    Fill(Fill),
}

/// Sets `bytes` bytes of a buffer, from its start, to `value`.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "see above")]
pub struct Fill {
    pub buffer: Buffer,
    pub bytes: u64,
    pub value: u8,
}

/// One kernel launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// Which kernel.
    pub kernel: KernelId,
    /// Programs in all: rows, stretches or tiles. The host runs them one by one; a GPU maps them to `blocks` as the kernel's driver does.
    pub programs: u64,
    /// Blocks of the launch.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// The fields of the kernel's `Params`, in order, with their C++ names.
    pub args: Vec<(&'static str, Arg)>,
    /// Tensor maps, in the order of the views' numbers; only targets that copy by tensor map use them.
    pub maps: Vec<TensorMap>,
}

/// A description of a tensor for a copy engine: four dimensions, fastest first, the last ones 1 where not needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Memory that it describes, from its start. `None`: unused; the kernel takes another path.
    pub buffer: Option<Buffer>,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub dims: [u64; 4],
    /// Bytes from one index to the next, for all dimensions but the first.
    pub strides: [u64; 3],
    /// Extents of the box that one copy moves.
    pub boxes: [u32; 4],
    /// Rows of 128 bytes with their 16-byte chunks xored by the row number.
    pub swizzle128: bool,
}

/// Scratch memory, cut into slices aligned to 256 bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workspace {
    /// The slices, in order.
    pub slices: Vec<Slice>,
}

/// A named part of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "see Workspace")]
pub struct Slice {
    pub name: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

impl Workspace {
    /// Adds a slice and returns how steps name it.
    pub fn push(&mut self, name: &'static str, bytes: u64) -> Buffer {
        let offset = self.bytes().next_multiple_of(256);
        self.slices.push(Slice { name, offset, bytes });
        Buffer::Workspace(self.slices.len() - 1)
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.slices.last().map_or(0, |s| s.offset + s.bytes)
    }
}

impl Plan {
    /// A plan without steps: nothing to do.
    pub fn empty(target: Target) -> Self {
        Plan { tag: "empty".into(), target, steps: Vec::new(), workspace: Workspace::default() }
    }

    /// The launches among the steps.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.steps.iter().filter_map(|s| match s {
            Step::Launch(l) => Some(l),
            Step::Fill(_) => None,
        })
    }
}

impl fmt::Display for Plan {
    /// One line for each step, one for each argument that is memory: what snapshots hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.tag, self.target)?;
        for step in &self.steps {
            match step {
                Step::Fill(s) => writeln!(f, "  fill {:?} {} bytes with {}", s.buffer, s.bytes, s.value)?,
                Step::Launch(l) => {
                    write!(f, "  {}: {} programs, {} blocks of {} threads", l.kernel, l.programs, l.blocks, l.threads)?;
                    if l.cluster > 1 {
                        write!(f, ", clusters of {}", l.cluster)?;
                    }
                    writeln!(f, ", {} bytes shared", l.shared)?;
                    for (name, arg) in &l.args {
                        writeln!(f, "    {name}: {arg:?}")?;
                    }
                    for m in &l.maps {
                        writeln!(f, "    map {:?} {} {:?} pitch {:?} box {:?}", m.buffer, m.dtype, m.dims, m.strides, m.boxes)?;
                    }
                }
            }
        }
        for s in &self.workspace.slices {
            writeln!(f, "  workspace {}: {} bytes at {}", s.name, s.bytes, s.offset)?;
        }
        Ok(())
    }
}

/// Measured choices: for an op and a class of problems, the tag of the plan that was fastest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    choices: BTreeMap<String, String>,
}

impl Tuning {
    /// Records that `tag` is to be used for the problem string `problem`.
    pub fn set(&mut self, problem: &str, tag: &str) {
        self.choices.insert(problem.into(), tag.into());
    }

    /// The recorded tag for a problem string.
    pub fn get(&self, problem: &str) -> Option<&str> {
        self.choices.get(problem).map(String::as_str)
    }
}
