//! A tensor of one value.

use crate::pointwise::{Kernel, SPACE, layout, plans, usual_shapes, variants_by_dtype, view_args};
use crate::rows::{EXAMPLES, expect, floats};
use warpwave_core::{
    Arg, ArgType, AttrKind, AttrSpec, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Target, TensorDesc, Unsupported, Valid, Variant,
};

mod reference;

pub(crate) const KERNEL: Kernel = Kernel { name: "fill", header: "ops/fill.h", names: ["Fill", "FillConfig"], shapes: usual_shapes };

const PARAMS: &[Param] = &[Param::new("out", ArgType::Rows), SPACE[0], SPACE[1], SPACE[2], Param::new("value", ArgType::F64)];

const OPERANDS: &[OperandSpec] = &[OperandSpec { name: "out", role: Role::Output, doc: "any shape" }];
const ATTRS: &[AttrSpec] =
    &[AttrSpec { name: "value", kind: AttrKind::Float { default: 0.0 }, doc: "what every element becomes, rounded to its dtype" }];

crate::pointwise::pointwise! {
    /// `out = value` everywhere, rounded once: f32, f16, bf16 (f64 on the CPU), any strides. The only operand is out, which has to be given.
    Fill, "fill", "ops/fill.h", ops::fill, OPERANDS, ATTRS
}

fn infer(p: Problem) -> Result<Problem, DescError> {
    Ok(p)
}

fn check(p: &Problem) -> Result<(), DescError> {
    let Some(out) = p.operand("out") else { return Ok(()) };
    expect(p, "out", floats(Target::Host32), &out.shape)?;
    layout(p, &["out"], "out", false).map(|_| ())
}

fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(out), Ok(rows)) = (p.operand("out"), layout(p, &["out"], "out", false)) else { return Ok(Vec::new()) };
    let args = view_args(&["out"], &rows);
    plans(p, caps, (KERNEL, ""), &[out.dtype], rows, args, &[("value", Arg::F64(out.dtype.round(p.float("value"))))])
}

fn variants(target: Target) -> Vec<Variant> {
    variants_by_dtype(KERNEL, &[("", "")], target)
}

fn in_place(_: &Problem, _: usize, _: usize) -> bool {
    false
}

fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let out = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &[outer, &[n]].concat());
    let value = [0.0, 1.0, -0.1, 1e-40, f64::INFINITY, f64::NAN][pick(6)];
    p.with("out", out).with_attr("value", value.into())
}

fn exact(_: &Problem) -> bool {
    true
}
