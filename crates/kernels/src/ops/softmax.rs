//! Softmax along one dimension, and what `log_softmax` shares with it.

use crate::rows::{RowShape, launch, max_lead, operand, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role,
    Rule, Signature, Source, Step, Target, TensorDesc, Unsupported, Valid, Variant, Workspace, collapse_rows,
};

mod reference;

/// `out = exp(x - max x) / sum exp(x - max x)` along `axis`: f32, f16, bf16, any strides, float32 accumulation. A row that holds NaN or +inf,
/// or nothing but -inf, gives NaN.
#[derive(Clone, Copy, Debug)]
pub struct Softmax;

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape of one dimension or more" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
];
const ATTRS: &[AttrSpec] = &[AttrSpec {
    name: "axis",
    kind: AttrKind::Int { default: -1, min: -8, max: 7 },
    doc: "the dimension to normalise along; negative counts from the last",
}];

/// The signature of an op of this family.
pub(crate) const fn signature(op: &'static str) -> Signature {
    Signature { op, operands: OPERANDS, attrs: ATTRS }
}

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("programs", ArgType::I64),
    Param::new("log", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Config {
    shape: RowShape,
    hold: bool,
}

/// By width: a warp for a short row, a block for a longer one, and one config that reads a row of any length twice.
fn configs(dtype: DType) -> Vec<Config> {
    let vec = vec_of(dtype);
    let per_16_bytes = 8 / vec; // as many elements a thread for 4-byte types as for 2-byte ones
    let hold = |threads, groups, chunks: u32| Config { shape: RowShape::new(threads, groups, chunks * per_16_bytes, vec), hold: true };
    vec![
        hold(32, 8, 1),
        hold(32, 8, 4),
        hold(256, 1, 4),
        hold(1024, 1, 4),
        Config { shape: RowShape::new(1024, 1, 2 * per_16_bytes, vec), hold: false },
    ]
}

fn id(dtype: DType, c: Config, target: Target) -> KernelId {
    KernelId { kernel: "softmax", tag: format!("{dtype}.{}.{}", c.shape.tag(), if c.hold { "hold" } else { "online" }), target }
}

/// The dimension that a valid or unchecked problem's `axis` names.
pub(crate) fn axis(p: &Problem, rank: usize) -> Option<usize> {
    let axis = p.int("axis");
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&a| a < rank)
}

pub(crate) fn infer(problem: Problem) -> Problem {
    match (problem.operand("out"), problem.operand("x").map(|x| TensorDesc::contiguous(x.dtype, &x.shape))) {
        (None, Some(out)) => problem.with("out", out),
        _ => problem,
    }
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    let [Some(x), Some(out)] = &p.operands[..] else {
        return Ok(());
    };
    if !DTYPES.contains(&x.dtype) {
        return Err(DescError { operand: "x", rule: Rule::DTypeSupported, got: x.dtype.to_string(), expected: "f32, f16 or bf16".into() });
    }
    if out.dtype != x.dtype {
        return Err(DescError { operand: "out", rule: Rule::SameDType, got: out.dtype.to_string(), expected: x.dtype.to_string() });
    }
    if out.shape != x.shape {
        return Err(DescError { operand: "out", rule: Rule::SameShape, got: out.to_string(), expected: x.to_string() });
    }
    let Some(axis) = axis(p, x.rank()) else {
        return Err(DescError { operand: "axis", rule: Rule::AxisInRange, got: p.int("axis").to_string(), expected: format!("a dimension of {x}") });
    };
    collapse_rows(&[operand("x", x), operand("out", out)], axis, false).map(|_| ())
}

pub(crate) fn plans(p: &Valid, caps: &DeviceCaps, log: bool) -> Vec<Plan> {
    let [Some(x), Some(out)] = &p.operands[..] else {
        return Vec::new();
    };
    if out.is_empty() {
        return vec![Plan::empty(caps.target)];
    }
    let Some(axis) = axis(p, x.rank()) else {
        return Vec::new();
    };
    let Ok((space, mut views)) = collapse_rows(&[operand("x", x), operand("out", out)], axis, false) else {
        return Vec::new();
    };
    for (i, v) in views.iter_mut().enumerate() {
        v.buffer = Some(Buffer::Operand(i));
    }
    let need = space.n + max_lead(x, &views[0], &space);
    let plan = |(c, cluster): (Config, u32)| {
        let args = vec![
            ("x", Arg::Rows(views[0].clone())),
            ("out", Arg::Rows(views[1].clone())),
            ("space", Arg::Space(space.clone())),
            ("programs", Arg::I64(space.rows() as i64)),
            ("log", Arg::I32(log.into())),
            ("reserved", Arg::I32(0)),
        ];
        let step = Step::Launch(launch(id(x.dtype, c, caps.target), c.shape, space.rows(), cluster, args));
        let tag = format!("{}{}", id(x.dtype, c, caps.target).tag, if cluster > 1 { format!(".c{cluster}") } else { String::new() });
        Plan { tag, target: caps.target, steps: vec![step], workspace: Workspace::default() }
    };
    let all = configs(x.dtype);
    // in the order of capacity: the first that holds the row is the best
    let mut ways: Vec<(Config, u32)> = all.iter().filter(|c| c.hold && need <= c.shape.tile()).map(|&c| (c, 1)).collect();
    for &c in all.iter().filter(|c| c.hold && c.shape.groups == 1 && need > c.shape.tile()).rev() {
        let cluster = need.div_ceil(c.shape.tile()).next_power_of_two();
        if cluster <= u64::from(caps.max_cluster) {
            ways.push((c, cluster as u32));
        }
    }
    ways.extend(all.iter().filter(|c| !c.hold).map(|&c| (c, 1)));
    ways.into_iter().map(plan).collect()
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let one = |dtype: DType, c: Config| {
        let s = c.shape;
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {}",
            s.threads, s.groups, s.chunks, s.vec, c.hold
        );
        let set = if dtype == DType::BF16 && (s.threads == 256 || !c.hold) { BuildSet::Ci } else { BuildSet::Full };
        variant(id(dtype, c, target), s, "ops/softmax.h", ["Softmax", "SoftmaxConfig"], config, set)
    };
    DTYPES.into_iter().flat_map(|d| configs(d).into_iter().map(move |c| (d, c))).map(|(d, c)| one(d, c)).collect()
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    if kernel == "softmax" { PARAMS } else { &[] }
}

impl Op for Softmax {
    fn signature(&self) -> Signature {
        signature("softmax")
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        Ok(infer(problem))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check(p)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        Ok(plans(p, caps, false))
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, &inputs[0], ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }
}
