//! The gradient of softmax, and what that of `log_softmax` shares with it.

use crate::ops::softmax::{ATTRS, axis};
use crate::rows::{EXAMPLES, RowShape, expect, floats, launch, max_lead, operand, or_contiguous, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, Buffer, BuildSet, DType, DescError, DeviceCaps, Family, KernelId, Op, OperandSpec, Param, Plan, Problem, Role, Rule,
    Signature, Source, Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace, collapse_rows, noise, unit,
};

mod reference;

/// Gradient of [`Softmax`](super::softmax::Softmax) from its output: `dx = y · (dy - sum(y · dy))` along `axis`. f32, f16, bf16 (on the CPU f64),
/// any strides, sums in float32 (float64 for f64); `dx` may be written over `y` or `dy`. Products of y and dy must hold in the type of the sums.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxBwd;

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "dy", role: Role::Input, doc: "any shape of one dimension or more" },
    OperandSpec { name: "y", role: Role::Input, doc: "what the forward gave; the shape and dtype of dy" },
    OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of dy" },
];

/// The signature of an op of this family.
pub(crate) const fn signature(op: &'static str) -> Signature {
    Signature { op, operands: OPERANDS, attrs: ATTRS }
}

const PARAMS: &[Param] = &[
    Param::new("y", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("dx", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("programs", ArgType::I64),
    Param::new("log", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

/// Shapes, and whether they hold a row, narrow ones first. A thread has half as many elements as in the forward: it holds y and dy.
fn shapes(dtype: DType, target: Target) -> Vec<(RowShape, bool)> {
    let vec = vec_of(dtype);
    let per = (8 / vec).max(1);
    let shape = |threads, groups, chunks| RowShape::new(threads, groups, chunks, vec);
    // two chunks of y and of dy under way; with as few of f32 gfx942 spilled scalar registers (clang 19)
    let again = (shape(256, 1, if target.vendor() == Vendor::Hip { 2 * per } else { 2 }), false);
    if target.vendor() == Vendor::Cpu {
        return vec![(shape(64, 1, per), true), (shape(256, 1, 2 * per), true), again];
    }
    let few = (shape(8, 16, per), true);
    vec![few, (shape(32, 4, 2 * per), true), (shape(128, 1, 2 * per), true), (shape(256, 1, 2 * per), true), (shape(512, 1, 2 * per), true), again]
}

fn id(dtype: DType, (shape, hold): (RowShape, bool), target: Target) -> KernelId {
    KernelId { kernel: "softmax_bwd", tag: format!("{dtype}.{}.{}", shape.tag(), if hold { "hold" } else { "online" }), target }
}

pub(crate) fn infer(p: Problem) -> Problem {
    let Some(y) = p.operand("y").cloned() else { return p };
    or_contiguous(p, "dx", y.dtype, &y.shape)
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    let [Some(dy), Some(y), Some(dx)] = &p.operands[..] else { return Ok(()) };
    expect(p, "y", floats(Target::Host32), &y.shape)?;
    expect(p, "dy", &[y.dtype], &y.shape)?;
    expect(p, "dx", &[y.dtype], &y.shape)?;
    let Some(axis) = axis(p, y.rank()) else {
        return Err(DescError { operand: "axis", rule: Rule::AxisInRange, got: p.int("axis").to_string(), expected: format!("a dimension of {y}") });
    };
    collapse_rows(&[operand("dy", dy), operand("y", y), operand("dx", dx)], axis, false).map(|_| ())
}

pub(crate) fn plans(p: &Valid, caps: &DeviceCaps, log: bool) -> Result<Vec<Plan>, Unsupported> {
    let [Some(dy), Some(y), Some(dx)] = &p.operands[..] else { return Ok(Vec::new()) };
    if dx.is_empty() {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if !floats(caps.target).contains(&y.dtype) {
        return Err(Unsupported { op: p.signature.op, target: caps.target, what: format!("no kernel for {}", y.dtype) });
    }
    let Some(axis) = axis(p, y.rank()) else { return Ok(Vec::new()) };
    let all = [operand("dy", dy), operand("y", y), operand("dx", dx)];
    let Ok((space, mut views)) = collapse_rows(&all, axis, false) else { return Ok(Vec::new()) };
    for (i, v) in views.iter_mut().enumerate() {
        v.buffer = Some(Buffer::Operand(i));
    }
    let need = space.n + max_lead(dx, &views[2], &space);
    let plan = |(way, cluster): ((RowShape, bool), u32)| {
        let args = vec![
            ("y", Arg::Rows(views[1].clone())),
            ("dy", Arg::Rows(views[0].clone())),
            ("dx", Arg::Rows(views[2].clone())),
            ("space", Arg::Space(space.clone())),
            ("programs", Arg::I64(space.rows() as i64)),
            ("log", Arg::I32(log.into())),
            ("reserved", Arg::I32(0)),
        ];
        let id = id(y.dtype, way, caps.target);
        let tag = format!("{}{}", id.tag, if cluster > 1 { format!(".c{cluster}") } else { String::new() });
        let step = launch(id, way.0, space.rows(), cluster, args);
        Plan { tag, target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() }
    };
    // a cluster of blocks holds what one does not
    let max_cluster = if caps.target.vendor() == Vendor::Cuda { u64::from(caps.max_cluster) } else { 1 };
    let cluster = |s: RowShape| need.div_ceil(s.tile()).next_power_of_two();
    let ways = shapes(y.dtype, caps.target).into_iter().filter_map(|(s, hold)| match (hold, cluster(s)) {
        (false, _) | (true, 1) => Some(((s, hold), 1)),
        (true, k) if s.threads == 512 && k <= max_cluster => Some(((s, hold), k as u32)),
        _ => None,
    });
    Ok(ways.map(plan).collect())
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let one = |dtype: DType, (s, hold): (RowShape, bool)| {
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {hold}",
            s.threads, s.groups, s.chunks, s.vec
        );
        let set = if dtype == DType::BF16 && s.threads == 256 && hold { BuildSet::Ci } else { BuildSet::Full };
        variant(id(dtype, (s, hold), target), s, "ops/softmax_bwd.h", ["SoftmaxBwd", "SoftmaxBwdConfig"], config, set)
    };
    floats(target).iter().flat_map(|&d| shapes(d, target).into_iter().map(move |s| (d, s))).map(|(d, s)| one(d, s)).collect()
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    if kernel == "softmax_bwd" { PARAMS } else { &[] }
}

pub(crate) fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let x = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &[outer, &[n]].concat());
    let p = OPERANDS.iter().fold(p, |p, spec| p.with(spec.name, x.clone()));
    // along the first dimension now and then
    if pick(4) == 3 { p.with_attr("axis", 0.into()) } else { p }
}

/// Data of both ops: what y can be, and a dy whose sum holds in float32.
pub(crate) fn sample(p: &Problem, operand: usize, family: Family, seed: u64, i: u64, log: bool) -> Option<f64> {
    let desc = p.operands.get(operand)?.as_ref()?;
    let axis = axis(p, desc.rank())?;
    // elements that exist: dimensions of stride 0 have one
    let extent = |d: usize| if desc.strides[d] == 0 { desc.shape[d].min(1) } else { desc.shape[d] };
    let n = extent(axis).max(1);
    let step = (axis + 1..desc.rank()).map(extent).product::<u64>().max(1);
    let k = i / step % n;
    let bits = noise(seed, i);
    let is_y = p.signature.operands[operand].name == "y";
    let edge = k + 1 == n || k & (k + 1) == 0;
    Some(match (family, is_y) {
        (Family::Exact, true) if log => [0.0, f64::NEG_INFINITY][(bits % 2) as usize],
        (Family::Exact, true) => [0.0, 0.25, 0.5][(bits % 3) as usize],
        (Family::Exact, false) => (bits % 5) as f64 - 2.0,
        // the last element of dy weighs as much as all others; some of y are near 1
        (Family::Spikes, true) if log => {
            if edge {
                -unit(seed, i)
            } else {
                -2.0 - (n as f64).ln() - unit(seed, i)
            }
        }
        (Family::Spikes, true) => {
            if edge {
                0.25
            } else {
                (0.25 + 0.5 * unit(seed, i)) / n as f64
            }
        }
        (Family::Spikes, false) if log => {
            let root = (n as f64).sqrt();
            if k + 1 == n { 1.5 * root } else { (1.0 + unit(seed, i)) / root }
        }
        (Family::Spikes, false) => {
            if k + 1 == n {
                4.0
            } else {
                1.0 + unit(seed, i)
            }
        }
        (Family::Extreme, true) => {
            let x = unit(seed, i) * f64::powi(2.0, -((bits % 60) as i32));
            if !log {
                x
            } else if bits.is_multiple_of(8) {
                -1e4 * x
            } else {
                -10.0 * x
            }
        }
        (Family::Extreme, false) => {
            let reach: u64 = if desc.dtype == DType::F16 { 6 } else { 20 };
            (2.0 * unit(seed, i) - 1.0) * f64::powi(2.0, (bits % (2 * reach + 1)) as i32 - reach as i32)
        }
        (Family::Normal, true) if log => -8.0 * unit(seed, i),
        (Family::Normal, true) => 2.0 * unit(seed, i) / n as f64,
        _ => return None,
    })
}

impl Op for SoftmaxBwd {
    fn signature(&self) -> Signature {
        signature("softmax_bwd")
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        Ok(infer(p))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check(p)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        plans(p, caps, false)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        Some(example(Problem::new(self.signature()), outer, n, pick))
    }

    fn sample(&self, p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        sample(p, operand, family, seed, i, false)
    }

    fn exact(&self, _: &Problem) -> bool {
        true
    }

    fn neutral(&self) -> Option<f64> {
        Some(0.0)
    }
}
