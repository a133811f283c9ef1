//! What dropout, relu_dropout and their gradients share: one kernel.

use crate::pointwise::{Kernel, SPACE, check_same, layout, names, no_view, output, plans, variants_by_dtype, view_args};
use crate::rows::{EXAMPLES, RowShape};
use warpwave_core::{
    Arg, ArgType, AttrKind, AttrSpec, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Rule, Target, TensorDesc, Unsupported, Valid,
    Variant,
};

pub(crate) const KERNEL: Kernel = Kernel { name: "dropout", header: "ops/dropout.h", names: ["Dropout", "DropoutConfig"], shapes };

/// Of two operands.
const TWO: Kernel = Kernel { shapes: gated_shapes, ..KERNEL };

pub(crate) const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("gate", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("seed", ArgType::I64),
    Param::new("offset", ArgType::I64),
    Param::new("first", ArgType::I64),
    Param::new("threshold", ArgType::I64),
    Param::new("scale", ArgType::F64),
    Param::new("relu", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

/// Operands of the forward ops.
pub(crate) const FORWARD: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
];
/// Operands of dropout's gradient.
pub(crate) const GRADIENT: &[OperandSpec] = &[
    OperandSpec { name: "dy", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of dy" },
];
/// Operands of relu_dropout's gradient.
pub(crate) const GATED: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "what relu_dropout read; any shape" },
    OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of x" },
    OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
];

const P: AttrSpec = AttrSpec { name: "p", kind: AttrKind::Float { default: 0.0 }, doc: "probability that an element is dropped, 0 to 1" };
const SEED: AttrSpec =
    AttrSpec { name: "seed", kind: AttrKind::Int { default: 0, min: i64::MIN, max: i64::MAX }, doc: "of the generator: 64 bits, as they are" };
const OFFSET: AttrSpec = AttrSpec {
    name: "offset",
    kind: AttrKind::Int { default: 0, min: i64::MIN, max: i64::MAX },
    doc: "number of the draw, 64 bits: one for each use of a seed",
};
const FIRST: AttrSpec = AttrSpec {
    name: "first",
    kind: AttrKind::Int { default: 0, min: 0, max: i64::MAX },
    doc: "number of the tensor's first element, where it is part of a larger one",
};
const RELU: AttrSpec = AttrSpec { name: "relu", kind: AttrKind::Bool { default: true }, doc: "false: dropout alone" };
/// Attributes of every op but relu_dropout.
pub(crate) const DRAW: &[AttrSpec] = &[P, SEED, OFFSET, FIRST];
/// Attributes of relu_dropout.
pub(crate) const RELU_DRAW: &[AttrSpec] = &[P, SEED, OFFSET, FIRST, RELU];

/// Several accesses in flight a thread, for large problems: an element takes 16 instructions, three quarters of them for its random word, and what a
/// program costs once has to be spread over as many elements as registers hold.
fn shapes(vec: u32) -> [RowShape; 2] {
    [RowShape::new(128, 1, 4, vec), RowShape::new(32, 4, 1, vec)]
}

fn gated_shapes(vec: u32) -> [RowShape; 2] {
    [RowShape::new(128, 1, if vec > 4 { 2 } else { 3 }, vec), RowShape::new(32, 4, 1, vec)]
}

pub(crate) fn infer(p: Problem) -> Result<Problem, DescError> {
    Ok(crate::pointwise::infer(p, None))
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    let bad = |operand, got: String, expected: &str| Err(DescError { operand, rule: Rule::ValueInRange, got, expected: expected.into() });
    if !(0.0..=1.0).contains(&p.float("p")) {
        return bad("p", p.float("p").to_string(), "0 to 1");
    }
    let len = p.operands.iter().flatten().next().map_or(0, TensorDesc::len);
    if i64::try_from(len).ok().and_then(|n| n.checked_add(p.int("first"))).is_none() {
        return bad("first", p.int("first").to_string(), "a number with which every element's own fits in 63 bits");
    }
    // elements are numbered in the order of the dimensions, whatever their strides
    check_same(p, true)
}

pub(crate) fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(dtype), Ok(rows)) = (p.operands.iter().flatten().next().map(|d| d.dtype), layout(p, &names(p), output(p), true)) else {
        return Ok(Vec::new());
    };
    let mut args = view_args(&names(p), &rows);
    let gated = args.len() == 3;
    if gated {
        args.swap(0, 1);
    } else {
        args.insert(1, ("", no_view()));
    }
    for (arg, name) in args.iter_mut().zip(["x", "gate", "out"]) {
        arg.0 = name;
    }
    let drop = p.float("p");
    let threshold = (drop * 4_294_967_296.0).round();
    let more = [
        ("seed", Arg::I64(p.int("seed"))),
        ("offset", Arg::I64(p.int("offset"))),
        ("first", Arg::I64(p.int("first"))),
        ("threshold", Arg::I64(threshold as i64)),
        ("scale", Arg::F64(if drop < 1.0 { 1.0 / (1.0 - drop) } else { 0.0 })),
        ("relu", Arg::I32(i32::from(gated || p.flag("relu")))),
        ("reserved", Arg::I32(0)),
    ];
    plans(p, caps, if gated { (TWO, ".gated") } else { (KERNEL, "") }, &[dtype], rows, args, &more)
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let mut all = variants_by_dtype(KERNEL, &[("", ", .gated = false")], target);
    all.extend(variants_by_dtype(TWO, &[(".gated", ", .gated = true")], target));
    all
}

pub(crate) fn in_place(_: &Problem, _: usize, _: usize) -> bool {
    true
}

pub(crate) fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let x = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &[outer, &[n]].concat());
    let p = names(&p).into_iter().fold(p, |p, name| p.with(name, x.clone()));
    let p = p.with_attr("p", [0.1, 0.5, 0.0, 1.0, 0.9, 0.75][pick(6)].into());
    let p = p.with_attr("seed", [0, 1, -1, 0x0123_4567_89ab_cdef][pick(4)].into());
    let p = p.with_attr("offset", [0, 1, -1, 1 << 40][pick(4)].into());
    let p = p.with_attr("first", [0, 4, 1, 3, (1 << 34) - 2, 1 << 60][pick(6)].into());
    p.with_attr("relu", (pick(2) == 0).into())
}

/// Small integers times a power of two are exact.
pub(crate) fn exact(p: &Problem) -> bool {
    [0.0, 0.5, 0.75, 1.0].contains(&p.float("p"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::dropout::Dropout;
    use warpwave_core::{Op, validate};

    #[test]
    fn attributes() {
        let error = |text: &str| {
            let p = Problem::parse(text, &|_| Some(Dropout.signature())).and_then(|p| Dropout.infer(p).map_err(|e| e.to_string()));
            p.and_then(|p| validate(&Dropout, p).map_err(|e| e.to_string())).err().unwrap_or_default()
        };
        assert_eq!(error("dropout x=f32[4] p=1.0 seed=-9223372036854775808 offset=9223372036854775807 first=9223372036854775803"), "");
        for p in ["-0.1", "1.0000001", "NaN", "inf"] {
            assert!(error(&format!("dropout x=f32[4] p={p}")).starts_with("p: the value is in range: got "), "{p}");
        }
        assert!(error("dropout x=f32[4] first=-1").starts_with("first: the value is in range"));
        assert!(error("dropout x=f32[4] first=9223372036854775804").starts_with("first: the value is in range"));
        assert!(error("dropout x=f32[4] out=f16[4]").starts_with("out: the op supports the dtype"));
    }
}
