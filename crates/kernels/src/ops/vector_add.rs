//! `out = x + y`, elementwise.

use crate::rows::{RowShape, floats, launch, max_lead, operand, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, BuildSet, DType, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role, Rule, Signature, Source,
    Step, Target, TensorDesc, Unsupported, Valid, Variant, Workspace, collapse_rows,
};

mod reference;

/// `out = x + y`: tensors of one shape and dtype (f32, f16, bf16, on the CPU f64), any strides, rounded once.
#[derive(Clone, Copy, Debug)]
pub struct VectorAdd;

const SIGNATURE: Signature = Signature {
    op: "vector_add",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
        OperandSpec { name: "y", role: Role::Input, doc: "the shape and dtype of x" },
        OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
    ],
    attrs: &[],
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("y", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("stretches", ArgType::I64),
    Param::new("programs", ArgType::I64),
];

fn shapes(dtype: DType) -> [RowShape; 2] {
    [RowShape::new(256, 1, 1, vec_of(dtype)), RowShape::new(128, 1, 2, vec_of(dtype))]
}

fn id(dtype: DType, shape: RowShape, target: Target) -> KernelId {
    KernelId { kernel: "vector_add", tag: format!("{dtype}.{}", shape.tag()), target }
}

impl Op for VectorAdd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        let out = problem.operand("x").map(|x| TensorDesc::contiguous(x.dtype, &x.shape));
        Ok(match (problem.operand("out"), out) {
            (None, Some(out)) => problem.with("out", out),
            _ => problem,
        })
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let [Some(x), Some(y), Some(out)] = &p.operands[..] else {
            return Ok(());
        };
        if !floats(Target::Host32).contains(&x.dtype) {
            return Err(DescError { operand: "x", rule: Rule::DTypeSupported, got: x.dtype.to_string(), expected: "f32, f16, bf16 or f64".into() });
        }
        for (name, d) in [("y", y), ("out", out)] {
            if d.dtype != x.dtype {
                return Err(DescError { operand: name, rule: Rule::SameDType, got: d.dtype.to_string(), expected: x.dtype.to_string() });
            }
            if d.shape != x.shape {
                return Err(DescError { operand: name, rule: Rule::SameShape, got: d.to_string(), expected: x.to_string() });
            }
        }
        collapse_rows(&[operand("x", x), operand("y", y), operand("out", out)], x.rank().saturating_sub(1), true).map(|_| ())
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let [Some(x), Some(y), Some(out)] = &p.operands[..] else {
            return Ok(Vec::new());
        };
        if out.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(Unsupported { op: "vector_add", target: caps.target, what: format!("no kernel for {}", x.dtype) });
        }
        let Ok((space, mut views)) = collapse_rows(&[operand("x", x), operand("y", y), operand("out", out)], out.rank().saturating_sub(1), true)
        else {
            return Ok(Vec::new());
        };
        for (i, v) in views.iter_mut().enumerate() {
            v.buffer = Some(warpwave_core::Buffer::Operand(i));
        }
        let lead = max_lead(out, &views[2], &space);
        let mut shapes = shapes(x.dtype);
        // a large sum keeps two accesses of each operand in flight: 2^28 f32 in 0.998 of the roof, 256x1x4 in 1.027 (H200, 2026-11-30)
        if space.n >= u64::from(caps.units) * 8 * shapes[1].tile() {
            shapes.reverse();
        }
        let plan = |shape: RowShape| {
            let stretches = (space.n + lead).div_ceil(shape.tile());
            let programs = space.rows() * stretches;
            let args = vec![
                ("x", Arg::Rows(views[0].clone())),
                ("y", Arg::Rows(views[1].clone())),
                ("out", Arg::Rows(views[2].clone())),
                ("space", Arg::Space(space.clone())),
                ("stretches", Arg::I64(stretches as i64)),
                ("programs", Arg::I64(programs as i64)),
            ];
            let step = Step::Launch(launch(id(x.dtype, shape, caps.target), shape, programs, 1, args));
            Plan { tag: shape.tag(), target: caps.target, steps: vec![step], workspace: Workspace::default() }
        };
        Ok(shapes.map(plan).into())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        let one = |dtype: DType, shape: RowShape, set| {
            let config = format!(".type = ww::dtype::{dtype}, .threads = {}, .chunks = {}, .vec = {}", shape.threads, shape.chunks, shape.vec);
            variant(id(dtype, shape, target), shape, "ops/vector_add.h", ["VectorAdd", "VectorAddConfig"], config, set)
        };
        floats(target)
            .iter()
            .flat_map(|&d| {
                shapes(d).into_iter().enumerate().map(move |(i, s)| (d, s, if i == 0 && d == DType::F32 { BuildSet::Ci } else { BuildSet::Full }))
            })
            .map(|(d, s, set)| one(d, s, set))
            .collect()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        if kernel == "vector_add" { PARAMS } else { &[] }
    }

    fn reference(&self, _: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(inputs, ranges)
    }

    fn exact(&self, _: &Problem) -> bool {
        true
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }
}
