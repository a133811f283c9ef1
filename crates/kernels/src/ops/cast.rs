//! Change of element type.

use crate::pointwise::{self, Kernel, Layout, SPACE, layout, plans, view_args};
use crate::rows::{EXAMPLES, RowShape, expect, floats};
use warpwave_core::{
    Arg, ArgType, AttrKind, AttrSpec, DType, DescError, DeviceCaps, Family, OperandSpec, Param, Plan, Problem, Role, Rule, Target, TensorDesc,
    Unsupported, Valid, Variant, noise,
};

mod reference;

pub(crate) const KERNEL: Kernel = Kernel { name: "cast", header: "ops/cast.h", names: ["Cast", "CastConfig"], shapes };

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("to", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape of x, any dtype" },
];
const TYPES: &[&str] = &["out", "f32", "f16", "bf16", "f64"];
const ATTRS: &[AttrSpec] =
    &[AttrSpec { name: "to", kind: AttrKind::Choice { default: "out", all: TYPES }, doc: "dtype of out; `out`: as its descriptor says" }];

crate::pointwise::pointwise! {
    /// `out = x` in another element type, rounded once to the nearest, ties to even; infinite beyond the range: any pair of f32, f16, bf16 (and f64
    /// on the CPU), any strides; in place where the dtypes are equal. The dtype of out is its descriptor's, or `to`.
    Cast, "cast", "ops/cast.h", ops::cast, OPERANDS, ATTRS;

    fn sample(&self, p: &Problem, _: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        (family == Family::Exact).then(|| p.operand("x").map_or(0.0, |x| x.dtype.round(near_ties(noise(seed, i)))))
    }
}

fn to(p: &Problem) -> Option<DType> {
    p.choice("to").parse().ok()
}

fn infer(p: Problem) -> Result<Problem, DescError> {
    Ok(match (to(&p), p.operand("x").map(|x| x.shape.clone())) {
        (Some(to), Some(shape)) => crate::rows::or_contiguous(p, "out", to, &shape),
        _ => p,
    })
}

fn check(p: &Problem) -> Result<(), DescError> {
    let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Ok(()) };
    expect(p, "x", floats(Target::Host32), &x.shape)?;
    expect(p, "out", floats(Target::Host32), &x.shape)?;
    if let Some(to) = to(p).filter(|to| *to != out.dtype) {
        return Err(DescError { operand: "to", rule: Rule::SameDType, got: to.to_string(), expected: out.dtype.to_string() });
    }
    layout(p, &["x", "out"], "out", false).map(|_| ())
}

/// 16 bytes of a 16-bit type, whichever x is: it may be that of out.
fn shapes(_: u32) -> [RowShape; 2] {
    [RowShape::new(128, 1, 2, 8), RowShape::new(32, 4, 1, 8)]
}

fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Some(out), Ok(rows)) = (p.operand("x"), p.operand("out"), layout(p, &["x", "out"], "out", false)) else {
        return Ok(Vec::new());
    };
    if let Some(d) = [x.dtype, out.dtype].into_iter().find(|d| !floats(caps.target).contains(d)) {
        return Err(Unsupported { op: "cast", target: caps.target, what: format!("no kernel for {d}") });
    }
    by_rows(p, caps, x.dtype, out.dtype, rows)
}

/// Plans that bring operand `x` to operand `out` of a problem element by element, as a layout has them.
pub(crate) fn by_rows(p: &Valid, caps: &DeviceCaps, from: DType, to: DType, rows: Layout) -> Result<Vec<Plan>, Unsupported> {
    // enumerators of ww::dtype
    let to = match to {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::BF16 => 2,
        _ => 3,
    };
    let args = view_args(&["x", "out"], &rows);
    plans(p, caps, (KERNEL, ""), &[from], rows, args, &[("to", Arg::I32(to)), ("reserved", Arg::I32(0))])
}

fn variants(target: Target) -> Vec<Variant> {
    let wide = floats(target).contains(&DType::F64);
    let of = |d: DType| {
        let (before, behind) = (format!(".type = ww::dtype::{d}, "), format!(", .to_f64 = {wide}"));
        pointwise::variants(KERNEL, (d.name(), ""), 8, [&before, &behind], d == DType::BF16, target)
    };
    floats(target).iter().flat_map(|&d| of(d)).collect()
}

fn in_place(p: &Problem, _: usize, _: usize) -> bool {
    p.operand("x").map(|d| d.dtype) == p.operand("out").map(|d| d.dtype)
}

fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let shape = [outer, &[n]].concat();
    let x = EXAMPLES[pick(EXAMPLES.len())];
    let out = [DType::F32, DType::BF16, DType::F16, DType::F64][pick(if x == DType::F64 { 4 } else { 3 })];
    p.with("x", TensorDesc::contiguous(x, &shape)).with("out", TensorDesc::contiguous(out, &shape))
}

fn exact(_: &Problem) -> bool {
    true
}

/// Numbers of any size, and those that lie at or half-way between values of the narrower types, subnormal ones too.
fn near_ties(bits: u64) -> f64 {
    let any = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (1023 - 160 + (bits >> 52) % 320) << 52);
    let digits = |n: u32| f64::from_bits(any.to_bits() >> (52 - n) << (52 - n));
    match bits % 4 {
        0 => any,
        1 => digits(8),
        2 => digits(11) * f64::powi(2.0, -((bits >> 8) as i32 % 30)),
        _ => ((bits >> 8) % 8192) as f64 * f64::powi(2.0, -26),
    }
}
