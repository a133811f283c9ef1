//! Sum of two tensors, with broadcasting.

use crate::pointwise::{Kernel, SPACE, broadcast, layout, names, plans, usual_shapes, variants_by_dtype, view_args};
use crate::rows::{EXAMPLES, expect, floats};
use warpwave_core::{
    Arg, ArgType, BuildSet, DType, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Target, TensorDesc, Unsupported, Valid, Variant,
};

mod reference;
pub(crate) use reference::place;

pub(crate) const KERNEL: Kernel = Kernel { name: "add", header: "ops/add.h", names: ["Add", "AddConfig"], shapes: usual_shapes };

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("y", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("x_f32", ArgType::I32),
    Param::new("y_f32", ArgType::I32),
    Param::new("out_f32", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const OPERANDS: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "y", role: Role::Input, doc: "a shape that broadcasts with that of x" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape of both together" },
];
const ATTRS: &[warpwave_core::AttrSpec] = &[];

crate::pointwise::pointwise! {
    /// `out = x + y`: shapes are aligned at their last dimensions, and an extent of 1, or a missing one, is repeated to the other's. f32, f16, bf16
    /// (f64 on the CPU), any strides; each of x, y and out may be float32 where the others are of one 16-bit type. The sum is one of float32,
    /// rounded to the type of out, which is float32 where x and y differ and out is not given. In place over an operand of the same layout.
    Add, "add", "ops/add.h", ops::add, OPERANDS, ATTRS
}

/// The dtype of the kernel: that of 16 bits, where operands are mixed.
fn kernel_type(p: &Problem) -> DType {
    let all = p.dtypes();
    all.iter().copied().find(|d| d.size() == 2).or(all.first().copied()).unwrap_or(DType::F32)
}

fn infer(p: Problem) -> Result<Problem, DescError> {
    let shape = broadcast(&p, &["x", "y"])?;
    let (Some(x), Some(y)) = (p.operand("x"), p.operand("y")) else { return Ok(p) };
    let dtype = if x.dtype == y.dtype { x.dtype } else { DType::F32 };
    Ok(crate::rows::or_contiguous(p, "out", dtype, &shape))
}

fn check(p: &Problem) -> Result<(), DescError> {
    let shape = broadcast(p, &["x", "y"])?;
    let main = kernel_type(p);
    let mixed = [main, DType::F32];
    let legal = if main.size() == 2 { &mixed[..] } else { &mixed[..1] };
    for name in ["x", "y", "out"] {
        let Some(d) = p.operand(name) else { continue };
        if !floats(Target::Host32).contains(&d.dtype) {
            return expect(p, name, floats(Target::Host32), &d.shape);
        }
        expect(p, name, legal, if name == "out" { &shape } else { &d.shape })?;
    }
    layout(p, &names(p), "out", false).map(|_| ())
}

fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let Ok(rows) = layout(p, &names(p), "out", false) else { return Ok(Vec::new()) };
    let args = view_args(&names(p), &rows);
    let f32 = |name| Arg::I32(i32::from(p.operand(name).is_some_and(|d| d.dtype == DType::F32)));
    let more = [("x_f32", f32("x")), ("y_f32", f32("y")), ("out_f32", f32("out")), ("reserved", Arg::I32(0))];
    let flag = if p.dtypes().len() > 1 { ".mixed" } else { "" };
    plans(p, caps, (KERNEL, flag), &[kernel_type(p)], rows, args, &more)
}

fn variants(target: Target) -> Vec<Variant> {
    let all = variants_by_dtype(KERNEL, &[("", ", .mixed = false"), (".mixed", ", .mixed = true")], target);
    // one bf16 kernel in the ci set
    let of = |v: Variant| if v.id.tag.ends_with(".mixed") { Variant { set: BuildSet::Full, ..v } } else { v };
    all.into_iter().map(of).filter(|v| !v.id.tag.ends_with(".mixed") || v.id.tag.contains("f16.")).collect()
}

fn in_place(_: &Problem, _: usize, _: usize) -> bool {
    true
}

fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let full = [outer, &[n]].concat();
    let dtype = EXAMPLES[pick(EXAMPLES.len())];
    let types = match pick(if dtype.size() == 2 { 5 } else { 1 }) {
        0 => [dtype; 3],
        1 => [dtype, DType::F32, DType::F32],
        2 => [dtype, DType::F32, dtype],
        3 => [DType::F32, dtype, dtype],
        _ => [dtype, dtype, DType::F32],
    };
    let ones = |keep: &dyn Fn(usize) -> bool| full.iter().enumerate().map(|(i, &n)| if keep(i) { n } else { 1 }).collect::<Vec<_>>();
    let rank = full.len();
    let (x, y) = match pick(7) {
        0 => (full.clone(), full.clone()),
        1 => (full.clone(), vec![n]),
        2 => (full.clone(), ones(&|i| i + 1 < rank)),
        3 => (full.clone(), Vec::new()),
        4 => (ones(&|i| i % 2 == 0), full.clone()),
        5 => (ones(&|i| i + 1 < rank), ones(&|i| i + 1 == rank)),
        _ => (full.clone(), ones(&|i| i == 0)),
    };
    let of = |i: usize, shape: &[u64]| TensorDesc::contiguous(types[i], shape);
    p.with("x", of(0, &x)).with("y", of(1, &y)).with("out", of(2, &full))
}

/// Small integers.
fn exact(_: &Problem) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwave_core::{Op, validate};

    fn result(text: &str) -> Result<String, String> {
        let p = Problem::parse(text, &|_| Some(SIGNATURE))?;
        let p = Add.infer(p).map_err(|e| e.to_string())?;
        validate(&Add, p).map(|p| p.operand("out").map_or(String::new(), ToString::to_string)).map_err(|e| e.to_string())
    }

    #[test]
    fn shapes_and_dtypes() {
        let good = [
            ("add x=f32[3,4] y=f32[4]", "f32[3,4]"),
            ("add x=f32[] y=bf16[2,1,3]", "f32[2,1,3]"),
            ("add x=bf16[5,1] y=bf16[1,7]", "bf16[5,7]"),
            ("add x=f16[0,1] y=f16[4]", "f16[0,4]"),
            ("add x=f64[2] y=f64[1]", "f64[2]"),
            ("add x=f32[2] y=f32[2] out=bf16[2]", "bf16[2]"),
        ];
        for (text, out) in good {
            assert_eq!(result(text).as_deref(), Ok(out), "{text}");
        }
        let bad = [
            ("add x=f32[3,4] y=f32[3]", "y: the shapes fit together: got f32[3], expected an extent of 1 or 4, not 3"),
            ("add x=f32[0] y=f32[2]", "y: the shapes fit together: got f32[2], expected an extent of 1 or 0, not 2"),
            ("add x=f16[2] y=bf16[2]", "y: the op supports the dtype: got bf16, expected f16 or f32"),
            ("add x=f64[2] y=f32[2]", "y: the op supports the dtype: got f32, expected f64"),
            ("add x=f32[2] y=f32[2] out=f32[1]", "out: the shapes fit together: got f32[1], expected [2]"),
            ("add x=i32[2] y=f32[2] out=f32[2]", "x: the op supports the dtype: got i32, expected f32 or f16 or bf16 or f64"),
        ];
        for (text, what) in bad {
            assert_eq!(result(text).err().as_deref(), Some(what), "{text}");
        }
    }
}
