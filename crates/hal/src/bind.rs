use crate::DeviceBuffer;
use std::ops::Range;
use warpwave_core::{Arg, Buffer, DescError, KernelId, Op, Plan, Role, Rule, Step, TensorMap, Valid, encode};

/// Where an operand lies: a buffer, and bytes from its start to the operand's first element.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct View {
    pub buffer: DeviceBuffer,
    pub offset: u64,
}

impl View {
    fn address(&self) -> u64 {
        self.buffer.address() + self.offset
    }
}

/// A plan with addresses: what [`Queue::run`](crate::Queue::run) takes. Made by [`bind`] alone.
#[derive(Debug)]
pub struct Work {
    steps: Vec<BoundStep>,
    reports: bool,
    memory: Vec<DeviceBuffer>,
}

impl Work {
    /// The steps, in order.
    pub fn steps(&self) -> &[BoundStep] {
        &self.steps
    }
    /// Whether some step may write the queue's error word.
    pub fn reports(&self) -> bool {
        self.reports
    }
    /// The buffers that the steps touch.
    pub fn memory(&self) -> &[DeviceBuffer] {
        &self.memory
    }
}

/// A step with addresses.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub enum BoundStep {
    Launch(BoundLaunch),
    Fill(BoundFill),
}

/// Sets memory to a byte.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct BoundFill {
    pub address: u64,
    pub bytes: u64,
    pub value: u8,
}

/// A launch with addresses; fields as in [`Launch`](warpwave_core::Launch).
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "see Launch")]
pub struct BoundLaunch {
    pub kernel: KernelId,
    pub programs: u64,
    pub blocks: u64,
    pub threads: u32,
    pub cluster: u32,
    pub shared: u32,
    /// The argument block up to its tensor maps.
    pub args: Vec<u8>,
    pub maps: Vec<BoundMap>,
}

/// A tensor map with its address.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct BoundMap {
    /// `None`: unused.
    pub address: Option<u64>,
    pub map: TensorMap,
}

fn bytes_of(view: &View, elements: u64, size: u64) -> Range<u64> {
    let start = view.address();
    start..start + elements * size
}

/// Puts addresses into a plan. `views` has one entry for each operand of the problem, `workspace` is memory of at least
/// `plan.workspace.bytes()` bytes where that is not 0, `error_word` is [`Queue::error_word`](crate::Queue::error_word) of the queue that will
/// run it.
///
/// # Errors
/// An operand that is missing, leaves its buffer, is less aligned than its descriptor says, or an output that shares memory with another operand
/// where the op does not allow it.
pub fn bind(op: &dyn Op, problem: &Valid, plan: &Plan, views: &[Option<View>], workspace: Option<&View>, error_word: u64) -> Result<Work, DescError> {
    let specs = problem.signature.operands;
    let mut ranges: Vec<Option<Range<u64>>> = Vec::with_capacity(specs.len());
    for (i, spec) in specs.iter().enumerate() {
        let err = |rule, got: String, expected: String| Err(DescError { operand: spec.name, rule, got, expected });
        let Some(desc) = &problem.operands[i] else {
            ranges.push(None);
            continue;
        };
        let Some(view) = views.get(i).and_then(Option::as_ref) else {
            return err(Rule::Present, "no memory".into(), desc.to_string());
        };
        let size = desc.dtype.size();
        // validate bounded the span, so this does not overflow
        let span = desc.span().unwrap_or(u64::MAX / 16);
        if view.offset.checked_add(span * size).is_none_or(|end| end > view.buffer.bytes()) {
            let got = format!("{} bytes from byte {} of {}", span * size, view.offset, view.buffer.bytes());
            return err(Rule::InsideAllocation, got, desc.to_string());
        }
        if !desc.is_empty() && view.address() % desc.alignment() != 0 {
            return err(Rule::AlignedAsDescribed, format!("address {:#x}", view.address()), format!("a multiple of {}", desc.alignment()));
        }
        ranges.push(Some(bytes_of(view, span, size)));
    }
    for (o, out) in ranges.iter().enumerate().filter(|(o, _)| specs[*o].role == Role::Output) {
        for (i, other) in ranges.iter().enumerate().filter(|(i, _)| *i != o && (specs[*i].role != Role::Output || *i > o)) {
            let (Some(a), Some(b)) = (out, other) else {
                continue;
            };
            let overlaps = a.start < b.end && b.start < a.end;
            let same = a.start == b.start
                && matches!((&problem.operands[o], &problem.operands[i]), (Some(x), Some(y)) if x.dtype == y.dtype && x.shape == y.shape && x.strides == y.strides);
            if overlaps && !(same && specs[i].role != Role::Output && op.in_place(problem, o, i)) {
                return Err(DescError {
                    operand: specs[o].name,
                    rule: Rule::NoAliasedOutput,
                    got: format!("memory shared with {}", specs[i].name),
                    expected: "memory of its own".into(),
                });
            }
        }
    }
    let need = plan.workspace.bytes();
    if need > 0 && workspace.is_none_or(|w| w.offset.checked_add(need).is_none_or(|end| end > w.buffer.bytes()) || w.address() % 256 != 0) {
        return Err(DescError {
            operand: "workspace",
            rule: Rule::InsideAllocation,
            got: workspace.map_or("no memory".into(), |w| format!("{} bytes from byte {}", w.buffer.bytes(), w.offset)),
            expected: format!("{need} bytes on a multiple of 256"),
        });
    }
    let address = |b: Buffer| match b {
        Buffer::Operand(i) => views.get(i).and_then(Option::as_ref).map_or(0, View::address),
        Buffer::Error => error_word,
        Buffer::Workspace(i) => workspace.map_or(0, View::address) + plan.workspace.slices[i].offset,
    };
    let steps = plan
        .steps
        .iter()
        .map(|step| match step {
            Step::Fill(f) => BoundStep::Fill(BoundFill { address: address(f.buffer), bytes: f.bytes, value: f.value }),
            Step::Launch(l) => {
                let args: Vec<Arg> = l.args.iter().map(|(_, a)| a.clone()).collect();
                BoundStep::Launch(BoundLaunch {
                    kernel: l.kernel.clone(),
                    programs: l.programs,
                    blocks: l.blocks,
                    threads: l.threads,
                    cluster: l.cluster,
                    shared: l.shared,
                    args: encode(&args, &address),
                    maps: l.maps.iter().map(|m| BoundMap { address: m.buffer.map(address), map: m.clone() }).collect(),
                })
            }
        })
        .collect();
    let memory = views.iter().flatten().chain(workspace).map(|v| v.buffer.clone()).collect();
    let reports = plan.launches().any(|l| l.args.iter().any(|(_, a)| a.buffer() == Some(Buffer::Error)));
    Ok(Work { steps, reports, memory })
}
