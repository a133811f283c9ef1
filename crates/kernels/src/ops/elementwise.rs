//! A chain of elementwise functions.

use crate::pointwise::{Kernel, SPACE, broadcast, layout, names, no_view, plans, usual_shapes, variants_by_dtype, view_args};
use crate::rows::{EXAMPLES, RowShape, expect, floats};
use warpwave_core::{
    Arg, ArgType, AttrKind, AttrSpec, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Rule, Target, TensorDesc, Unsupported, Valid,
    Variant,
};

mod reference;

pub(crate) const KERNEL: Kernel =
    Kernel { name: "elementwise", header: "ops/elementwise.h", names: ["Elementwise", "ElementwiseConfig"], shapes: usual_shapes };

/// With more operands beside x than one.
const MANY: Kernel = Kernel { shapes: many_shapes, ..KERNEL };

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("y1", ArgType::Rows),
    Param::new("y2", ArgType::Rows),
    Param::new("y3", ArgType::Rows),
    Param::new("y4", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("steps", ArgType::I64),
    Param::new("c1", ArgType::F64),
    Param::new("c2", ArgType::F64),
    Param::new("c3", ArgType::F64),
    Param::new("c4", ArgType::F64),
    Param::new("count", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "y1", role: Role::OptionalInput, doc: "of the first step of two operands; broadcasts with x, of its dtype" },
    OperandSpec { name: "y2", role: Role::OptionalInput, doc: "of the second" },
    OperandSpec { name: "y3", role: Role::OptionalInput, doc: "of the third" },
    OperandSpec { name: "y4", role: Role::OptionalInput, doc: "of the fourth" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape of all together, the dtype of x" },
];
const INPUTS: [&str; 5] = ["x", "y1", "y2", "y3", "y4"];

/// By number in the kernel; those from `FIRST_BINARY` on take an operand.
const STEPS: &[&str] = &[
    "none",
    "neg",
    "abs",
    "relu",
    "silu",
    "gelu",
    "gelu_tanh",
    "sigmoid",
    "tanh",
    "exp",
    "log",
    "sqrt",
    "square",
    "reciprocal",
    "scale",
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
];
const FIRST_BINARY: usize = 15;

const fn step(name: &'static str) -> AttrSpec {
    AttrSpec { name, kind: AttrKind::Choice { default: "none", all: STEPS }, doc: "a function of the value so far, or of it and the next operand" }
}
const fn factor(name: &'static str) -> AttrSpec {
    AttrSpec { name, kind: AttrKind::Float { default: 1.0 }, doc: "what a step `scale` of this number multiplies by" }
}
const ATTRS: &[AttrSpec] = &[step("step1"), step("step2"), step("step3"), step("step4"), factor("c1"), factor("c2"), factor("c3"), factor("c4")];

crate::pointwise::pointwise! {
    /// `out = step4(step3(step2(step1(x))))` in one pass, intermediate values in float32: f32, f16, bf16 (f64 on the CPU), any strides, in place
    /// over an operand of the same layout.
    ///
    /// Steps of one operand are `neg`, `abs`, `relu`, `silu`, `gelu`, `gelu_tanh`, `sigmoid`, `tanh`, `exp`, `log`, `sqrt`, `square`, `reciprocal`
    /// and `scale` (by c1 to c4, as a float32); `add`, `sub`, `mul`, `div`, `max`, `min` take y1, y2, ... in turn, as their second argument; as many
    /// must be given as there are such steps. Shapes broadcast. relu, max and min pass NaN on; results of exp below 2^-126 may be 0.
    Elementwise, "elementwise", "ops/elementwise.h", ops::elementwise, OPERANDS, ATTRS
}

/// The steps of a problem but `none`: number in the kernel, and factor.
fn steps(p: &Problem) -> Vec<(usize, f64)> {
    let number = |name| STEPS.iter().position(|s| *s == p.choice(name)).unwrap_or(0);
    let all = [("step1", "c1"), ("step2", "c2"), ("step3", "c3"), ("step4", "c4")];
    all.into_iter().map(|(s, c)| (number(s), p.float(c))).filter(|(s, _)| *s != 0).collect()
}

fn infer(p: Problem) -> Result<Problem, DescError> {
    let shape = broadcast(&p, &INPUTS)?;
    Ok(crate::pointwise::infer(p, Some(shape)))
}

fn check(p: &Problem) -> Result<(), DescError> {
    let Some(x) = p.operand("x") else { return Ok(()) };
    let shape = broadcast(p, &INPUTS)?;
    expect(p, "x", floats(Target::Host32), &x.shape)?;
    for name in &INPUTS[1..] {
        expect(p, name, &[x.dtype], &p.operand(name).map_or(Vec::new(), |d| d.shape.clone()))?;
    }
    expect(p, "out", &[x.dtype], &shape)?;
    let count = steps(p).iter().filter(|(s, _)| *s >= FIRST_BINARY).count();
    for (i, name) in INPUTS.into_iter().enumerate().skip(1) {
        if p.operand(name).is_some() != (i <= count) {
            let got = p.operand(name).map_or("nothing".into(), ToString::to_string);
            return Err(DescError { operand: name, rule: Rule::Present, got, expected: format!("one operand for each of {count} steps of two") });
        }
    }
    for (step, c) in [("step1", "c1"), ("step2", "c2"), ("step3", "c3"), ("step4", "c4")] {
        if p.choice(step) != "scale" && p.float(c).to_bits() != 1f64.to_bits() {
            return Err(DescError {
                operand: c,
                rule: Rule::ValueInRange,
                got: p.float(c).to_string(),
                expected: format!("1, unless {step} is scale"),
            });
        }
    }
    layout(p, &names(p), "out", false).map(|_| ())
}

fn many_shapes(vec: u32) -> [RowShape; 2] {
    [RowShape::new(128, 1, 1, vec), RowShape::new(32, 4, 1, vec)]
}

fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Ok(rows)) = (p.operand("x"), layout(p, &names(p), "out", false)) else { return Ok(Vec::new()) };
    let dtype = x.dtype;
    let mut args = view_args(&names(p), &rows);
    for (name, arg) in &mut args {
        if p.operand(name).is_none() {
            *arg = no_view();
        }
    }
    let all = steps(p);
    let code = all.iter().rev().fold(0, |code, (s, _)| code << 8 | *s as i64);
    let factor = |i: usize| Arg::F64(all.get(i).map_or(1.0, |s| s.1));
    let count = all.iter().filter(|(s, _)| *s >= FIRST_BINARY).count();
    let more = [
        ("steps", Arg::I64(code)),
        ("c1", factor(0)),
        ("c2", factor(1)),
        ("c3", factor(2)),
        ("c4", factor(3)),
        ("count", Arg::I32(count as i32)),
        ("reserved", Arg::I32(0)),
    ];
    plans(p, caps, if count > 1 { (MANY, ".many") } else { (KERNEL, "") }, &[dtype], rows, args, &more)
}

fn variants(target: Target) -> Vec<Variant> {
    let mut all = variants_by_dtype(KERNEL, &[("", ", .operands = 1")], target);
    all.extend(variants_by_dtype(MANY, &[(".many", ", .operands = 4")], target));
    all
}

fn in_place(_: &Problem, _: usize, _: usize) -> bool {
    true
}

/// Chains whose reference can tell a number from NaN: logarithm, root and reciprocal of values that no earlier step has made inexact.
fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let full = [outer, &[n]].concat();
    let x = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &full);
    let mut p = p.with("x", x.clone()).with("out", x.clone());
    let (mut count, mut exact) = (0, true);
    for (i, (step, c)) in [("step1", "c1"), ("step2", "c2"), ("step3", "c3"), ("step4", "c4")].into_iter().enumerate() {
        let number = if i == 0 { 1 + pick(STEPS.len() - 1) } else { pick(STEPS.len()) };
        let name = STEPS[number];
        let name = if matches!(name, "log" | "sqrt" | "reciprocal") && !exact { "neg" } else { name };
        exact &= matches!(name, "none" | "neg" | "abs" | "relu" | "max" | "min");
        p = p.with_attr(step, name.into());
        if name == "scale" {
            p = p.with_attr(c, [0.5, 0.1, -3.0, 0.0][pick(4)].into());
        }
        if number >= FIRST_BINARY && count < 4 {
            let shape = match pick(4) {
                0 | 1 => full.clone(),
                2 => vec![n],
                _ => Vec::new(),
            };
            count += 1;
            p = p.with(INPUTS[count], TensorDesc::contiguous(x.dtype, &shape));
        }
    }
    p
}

/// Small integers stay such.
fn exact(p: &Problem) -> bool {
    let whole = |s: &(usize, f64)| matches!(STEPS[s.0], "neg" | "abs" | "relu" | "square" | "add" | "sub" | "mul" | "max" | "min");
    steps(p).iter().all(|s| whole(s) || (STEPS[s.0] == "scale" && [0.5, -3.0, 0.0].contains(&s.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwave_core::{Op, validate};

    fn error(text: &str) -> String {
        let p = Problem::parse(text, &|_| Some(SIGNATURE)).and_then(|p| Elementwise.infer(p).map_err(|e| e.to_string()));
        p.and_then(|p| validate(&Elementwise, p).map_err(|e| e.to_string())).err().unwrap_or_default()
    }

    /// Nothing that is given goes unused, and nothing that is used is missing.
    #[test]
    fn operands_and_factors_belong_to_steps() {
        for good in [
            "elementwise x=f32[4]",
            "elementwise x=f32[4] step2=scale c2=2.0",
            "elementwise x=f32[4] y1=f32[] step4=max",
            "elementwise x=f32[1] y1=f32[4] y2=f32[3,1] y3=f32[4] y4=f32[4] step1=add step2=add step3=add step4=add",
        ] {
            assert_eq!(error(good), "", "{good}");
        }
        for (bad, what) in [
            ("elementwise x=f32[4] y1=f32[4] step1=relu", "y1: the operand is given: got f32[4], expected one operand for each of 0 steps of two"),
            ("elementwise x=f32[4] step1=add", "y1: the operand is given: got nothing, expected one operand for each of 1 steps of two"),
            ("elementwise x=f32[4] y2=f32[4] step1=add", "y1: the operand is given: got nothing, expected one operand for each of 1 steps of two"),
            ("elementwise x=f32[4] c2=2.0 step1=scale", "c2: the value is in range: got 2, expected 1, unless step2 is scale"),
            ("elementwise x=f32[4] y1=f16[4] step1=add", "y1: the op supports the dtype: got f16, expected f32"),
            ("elementwise x=f32[4] y1=f32[3] step1=add", "y1: the shapes fit together: got f32[3], expected an extent of 1 or 4, not 3"),
        ] {
            assert_eq!(error(bad), what, "{bad}");
        }
    }
}
