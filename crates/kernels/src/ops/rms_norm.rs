//! Root mean square normalisation of rows, and what `add_rms_norm` shares with it.

use crate::rows::{EXAMPLES, expect, floats, max_lead, or_contiguous, reducing_launches, reducing_variants, rows_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, DType, DescError, DeviceCaps, Op, OperandSpec, Param, Plan, Problem, Role, Signature, Source, Step,
    Target, TensorDesc, Unsupported, Valid, Variant, Workspace,
};

mod reference;
pub(crate) use reference::{inverse_root, reference as reference_of};

/// `out = x / sqrt(mean(x²) + eps) · (w + shift)` along the last dimension: x in f32, f16, bf16 (f64 on the CPU), any strides; w of x's dtype or
/// f32, or left out; sums in float32. A finite row whose squares overflow float32 gives the right values; a row of zeros with eps = 0 gives zeros.
/// Zhang and Sennrich, 2019.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm;

const SIGNATURE: Signature = Signature {
    op: "rms_norm",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "w", role: Role::OptionalInput, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
    ],
    attrs: ATTRS,
};

pub(crate) const ATTRS: &[AttrSpec] = &[
    AttrSpec { name: "eps", kind: AttrKind::Float { default: 1e-6 }, doc: "added to the mean square; 0 or more" },
    AttrSpec { name: "shift", kind: AttrKind::Float { default: 0.0 }, doc: "added to the weight (Gemma: 1)" },
];

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("residual", ArgType::Rows),
    Param::new("w", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("residual_out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("programs", ArgType::I64),
    Param::new("eps", ArgType::F64),
    Param::new("inverse", ArgType::F64),
    Param::new("shift", ArgType::F32),
    Param::new("w_kind", ArgType::I32),
];

/// The dtypes of a weight beside rows of a dtype.
pub(crate) fn weight_dtypes(x: DType) -> Vec<DType> {
    if x == DType::F64 { vec![x] } else { vec![x, DType::F32] }
}

/// How a kernel is told of a weight: 0 none, 1 of the rows' dtype, 2 float32.
pub(crate) fn weight_kind(p: &Problem, name: &str, x: DType) -> i32 {
    p.operand(name).map_or(0, |w| if w.dtype == x { 1 } else { 2 })
}

/// Checks eps, x, and each operand of x's shape or of its last dimension.
pub(crate) fn check_norm(p: &Problem, rows: &[&'static str], weights: &[&'static str]) -> Result<(), DescError> {
    let Some(x) = p.operand("x") else { return Ok(()) };
    expect(p, "x", floats(Target::Host32), &x.shape)?;
    let Some(&n) = x.shape.last() else {
        return Err(DescError { operand: "x", rule: warpwave_core::Rule::RankAtLeast, got: "no dimension".into(), expected: "1 or more".into() });
    };
    for name in rows {
        expect(p, name, &[x.dtype], &x.shape)?;
    }
    for name in weights {
        expect(p, name, &weight_dtypes(x.dtype), &[n])?;
    }
    let eps = p.float("eps");
    if !(eps >= 0.0 && eps.is_finite()) {
        return Err(DescError { operand: "eps", rule: warpwave_core::Rule::ValueInRange, got: eps.to_string(), expected: "0 or more".into() });
    }
    rows_of(p, &[&["x"], rows].concat(), false).map(|_| ())
}

/// See [`reducing`](crate::rows::reducing). With a residual 32 spilled.
fn per_thread(add: bool) -> u32 {
    if add { 16 } else { 32 }
}

/// No kernel for a dtype on a target.
pub(crate) fn unsupported(p: &Problem, dtype: DType, target: Target) -> Unsupported {
    Unsupported { op: p.signature.op, target, what: format!("no kernel for {dtype}") }
}

/// Plans of both ops; `add` is add_rms_norm.
pub(crate) fn plans(p: &Valid, caps: &DeviceCaps, add: bool) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Ok(Vec::new()) };
    if out.is_empty() {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if !floats(caps.target).contains(&x.dtype) {
        return Err(unsupported(p, x.dtype, caps.target));
    }
    let names = ["x", "residual", "w", "out", "residual_out"];
    let Ok((space, views)) = rows_of(p, &names, false) else { return Ok(Vec::new()) };
    let need = space.n + max_lead(x, &views[0], &space);
    let flag = if add { ".add" } else { "" };
    let mut args: Vec<_> = names.into_iter().zip(views.iter().cloned().map(Arg::Rows)).collect();
    args.extend([
        ("space", Arg::Space(space.clone())),
        ("programs", Arg::I64(space.rows() as i64)),
        ("eps", Arg::F64(p.float("eps"))),
        ("inverse", Arg::F64(1.0 / space.n as f64)),
        ("shift", Arg::F32(p.float("shift") as f32)),
        ("w_kind", Arg::I32(weight_kind(p, "w", x.dtype))),
    ]);
    let launches = reducing_launches("rms_norm", (x.dtype, flag), per_thread(add), (space.rows(), need), &args, caps);
    let plan = |(step, tag)| Plan { tag, target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() };
    Ok(launches.into_iter().map(plan).collect())
}

pub(crate) fn variants(target: Target, add: bool) -> Vec<Variant> {
    let flag = if add { ".add" } else { "" };
    reducing_variants("rms_norm", "ops/rms_norm.h", ["RmsNorm", "RmsNormConfig"], (flag, &format!(", .add = {add}")), per_thread(add), target)
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    if kernel == "rms_norm" { PARAMS } else { &[] }
}

/// Rows of some dtype, and a weight of it or of float32.
pub(crate) fn example_norm(p: Problem, outer: &[u64], n: u64, rows: &[&str], weights: &[&str], pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let dtype = EXAMPLES[pick(EXAMPLES.len())];
    let x = TensorDesc::contiguous(dtype, &[outer, &[n]].concat());
    let mut p = rows.iter().fold(p, |p, name| p.with(name, x.clone()));
    let kinds = weight_dtypes(dtype);
    for name in weights {
        // the last choice is none at all
        if let Some(&w) = kinds.get(pick(kinds.len() + 1)) {
            p = p.with(name, TensorDesc::contiguous(w, &[n]));
        }
    }
    let eps = [p.float("eps"), 1e-2, 0.0][pick(3)];
    p.with_attr("eps", eps.into())
}

impl Op for RmsNorm {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("x").cloned() else { return Ok(p) };
        Ok(or_contiguous(p, "out", x.dtype, &x.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["out"], &["w"])
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        plans(p, caps, false)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        variants(target, false)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, &inputs[0], None, &inputs[1], ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, input: usize) -> bool {
        input == 0
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_norm(Problem::new(SIGNATURE), outer, n, &["x", "out"], &["w"], pick);
        Some(p.with_attr("shift", [0.0, 1.0][pick(2)].into()))
    }

    fn neutral(&self) -> Option<f64> {
        Some(0.0)
    }
}
