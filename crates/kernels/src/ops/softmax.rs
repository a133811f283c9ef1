//! Softmax along one dimension, and what `log_softmax` shares with it.

use crate::rows::{RowShape, floats, launch, lie_alike, max_lead, operand, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role,
    Rule, Signature, Source, Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace, collapse_rows,
};

mod reference;

/// `out = exp(x - max x) / sum exp(x - max x)` along `axis`: f32, f16, bf16 (on the CPU f64), any strides, sums in float32 (float64
/// for f64). A row that holds NaN or +inf,
/// or nothing but -inf, gives NaN.
#[derive(Clone, Copy, Debug)]
pub struct Softmax;

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape of one dimension or more" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
];
pub(crate) const ATTRS: &[AttrSpec] = &[AttrSpec {
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Config {
    shape: RowShape,
    hold: bool,
    /// Tiles that the copy engine brings while others are worked on.
    ring: u32,
    /// The most blocks that share a row before a larger config does better.
    span: u32,
}

/// By width: a part of a warp or a warp for a short row, a block or a cluster of blocks for a longer one, and one config that reads a row of any
/// length twice. Measured on an H200, bench/records/2026-11-30-h200-rows.md.
fn configs(dtype: DType, target: Target) -> Vec<Config> {
    let vec = vec_of(dtype);
    let per_16_bytes = 8 / vec; // as many elements a thread for 4-byte types as for 2-byte ones
    let hold = |threads, groups, chunks, span| Config { shape: RowShape::new(threads, groups, chunks, vec), hold: true, ring: 0, span };
    if dtype == DType::F64 {
        return vec![hold(32, 4, 4, 1), hold(256, 1, 4, 1), Config { hold: false, ..hold(512, 1, 4, 1) }];
    }
    let mut all = vec![hold(8, 16, per_16_bytes, 1), hold(32, 4, per_16_bytes, 1), hold(32, 4, 4 * per_16_bytes, 1)];
    if dtype == DType::F32 {
        all.extend([hold(256, 1, 4, 4), hold(512, 1, 8, 8)]);
    } else if target == Target::Sm90a {
        let ahead = |threads, span| Config { ring: 1, ..hold(threads, 1, 8, span) };
        all.extend([hold(128, 1, 4, 1), hold(256, 1, 4, 1), ahead(128, 8), ahead(256, 8), ahead(512, 8)]);
    } else {
        all.extend([hold(128, 1, 4, 1), hold(256, 1, 4, 2), hold(1024, 1, 4, 8)]);
    }
    all.push(Config { hold: false, ..hold(512, 1, per_16_bytes, 1) });
    all
}

impl Config {
    /// Bytes of shared memory for the ring.
    fn shared(self) -> u32 {
        self.ring * self.shape.tile() as u32 * (16 / self.shape.vec) * self.shape.groups
    }

    /// Into how many parts `rows` are cut, a cluster each. With rows ahead a cluster works on two or four: enough to hide a row's way from memory,
    /// so few that the last cluster is not waited for. Large clusters of large blocks are as many as run at once: they start late, and 8 of the
    /// H200's 132 multiprocessors have no place in a cluster of eight.
    fn parts(self, rows: u64, cluster: u32, caps: &DeviceCaps) -> u64 {
        if self.ring == 0 {
            return rows;
        }
        let outside = if cluster > 2 { 8 } else { 0 };
        let resident = u64::from(caps.units.saturating_sub(outside) / cluster * (512 / self.shape.threads)).max(1);
        let parts = if cluster > 2 && self.shape.threads > 128 { 0 } else { rows.div_ceil(if cluster > 2 { 4 } else { 2 }) };
        parts.max(resident).min(rows)
    }
}

fn id(dtype: DType, c: Config, target: Target) -> KernelId {
    let ahead = if c.ring > 0 { ".ahead" } else { "" };
    KernelId { kernel: "softmax", tag: format!("{dtype}.{}.{}{ahead}", c.shape.tag(), if c.hold { "hold" } else { "online" }), target }
}

/// The dimension that a valid or unchecked problem's `axis` names.
pub(crate) fn axis(p: &Problem, rank: usize) -> Option<usize> {
    let axis = p.int("axis");
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&a| a < rank)
}

/// One element of a row counts under exact data; a row of equal elements is no such row.
pub(crate) fn exact(p: &Problem) -> bool {
    p.operand("x").is_some_and(|x| axis(p, x.rank()).is_some_and(|a| x.strides.get(a) != Some(&0) || x.shape[a] == 1))
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
    if !floats(Target::Host32).contains(&x.dtype) {
        return Err(DescError { operand: "x", rule: Rule::DTypeSupported, got: x.dtype.to_string(), expected: "f32, f16, bf16 or f64".into() });
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

pub(crate) fn plans(p: &Valid, caps: &DeviceCaps, log: bool) -> Result<Vec<Plan>, Unsupported> {
    let [Some(x), Some(out)] = &p.operands[..] else {
        return Ok(Vec::new());
    };
    if out.is_empty() {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if !floats(caps.target).contains(&x.dtype) {
        return Err(Unsupported { op: p.signature.op, target: caps.target, what: format!("no kernel for {}", x.dtype) });
    }
    let Some(axis) = axis(p, x.rank()) else {
        return Ok(Vec::new());
    };
    let Ok((space, mut views)) = collapse_rows(&[operand("x", x), operand("out", out)], axis, false) else {
        return Ok(Vec::new());
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
        let mut step = launch(id(x.dtype, c, caps.target), c.shape, space.rows(), cluster, args);
        if c.ring > 0 {
            step.blocks = c.parts(space.rows(), cluster, caps) * u64::from(cluster);
            step.shared = c.shared();
        }
        let tag = format!("{}{}", id(x.dtype, c, caps.target).tag, if cluster > 1 { format!(".c{cluster}") } else { String::new() });
        Plan { tag, target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() }
    };
    let alike = lie_alike(&[x, out], &views, &space);
    let all = configs(x.dtype, caps.target);
    let cluster = |c: &Config| need.div_ceil(c.shape.tile()).next_power_of_two();
    // AMD has no clusters, whatever a device says
    let max_cluster = if caps.target.vendor() == Vendor::Cuda { u64::from(caps.max_cluster) } else { 1 };
    let legal = |c: &&Config| c.hold && (c.ring == 0 || alike) && (cluster(c) == 1 || c.shape.groups == 1 && cluster(c) <= max_cluster);
    // in the order of capacity: the first that holds the row in few enough blocks is the best
    let (good, rest): (Vec<_>, Vec<_>) = all.iter().filter(legal).map(|&c| (c, cluster(&c) as u32)).partition(|(c, k)| *k <= c.span);
    let mut ways = [good, rest].concat();
    ways.extend(all.iter().filter(|c| !c.hold).map(|&c| (c, 1)));
    Ok(ways.into_iter().map(plan).collect())
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let one = |dtype: DType, c: Config| {
        let s = c.shape;
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {}{}",
            s.threads,
            s.groups,
            s.chunks,
            s.vec,
            c.hold,
            if c.ring > 0 { format!(", .ring = {}", c.ring) } else { String::new() }
        );
        let set = if dtype == DType::BF16 && (s.threads == 256 || !c.hold) { BuildSet::Ci } else { BuildSet::Full };
        let shared = c.shared();
        Variant { shared, ..variant(id(dtype, c, target), s, "ops/softmax.h", ["Softmax", "SoftmaxConfig"], config, set) }
    };
    floats(target).iter().flat_map(|&d| configs(d, target).into_iter().map(move |c| (d, c))).map(|(d, c)| one(d, c)).collect()
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
        plans(p, caps, false)
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

    fn exact(&self, p: &Problem) -> bool {
        exact(p)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }
}
