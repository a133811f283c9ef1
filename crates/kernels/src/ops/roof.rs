//! What memory allows: kernels that only move bytes, for benchmarks.

use crate::rows::{RowShape, launch, variant};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role,
    Rule, Signature, Source, Stage, Step, Target, TensorDesc, Unsupported, Valid, Variant, Workspace,
};

mod reference;

/// Moves bytes: f32, without gaps, from an address on 16 bytes. `kind` 0 copies x to out; 1 reads x and leaves out as it is (unless an element
/// is 1e30); 2 writes the larger of x and y. Each launch shape is a plan: the roof of so many bytes is the fastest of them.
#[derive(Clone, Copy, Debug)]
pub struct Roof;

/// Value of `kind` for a copy.
pub const COPY: i64 = 0;
/// Value of `kind` for reading alone.
pub const READ: i64 = 1;
/// Value of `kind` for two inputs and one output.
pub const TWO_IN_ONE_OUT: i64 = 2;

/// Reading must have a consequence, or the compiler drops it: a block that sees this value writes.
const NEVER: f32 = 1e30;

const SIGNATURE: Signature = Signature {
    op: "roof",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "f32, contiguous" },
        OperandSpec { name: "y", role: Role::OptionalInput, doc: "the shape of x; with kind=2" },
        OperandSpec { name: "out", role: Role::Output, doc: "the shape of x" },
    ],
    attrs: &[AttrSpec {
        name: "kind",
        kind: AttrKind::Int { default: COPY, min: COPY, max: TWO_IN_ONE_OUT },
        doc: "0 copy, 1 read, 2 two in, one out",
    }],
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Pointer),
    Param::new("y", ArgType::Pointer),
    Param::new("out", ArgType::Pointer),
    Param::new("n", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("never", ArgType::F32),
    Param::new("reserved", ArgType::I32),
];

/// Enumerator of `ww::traffic` for each kind.
const KINDS: [&str; 3] = ["copy", "read", "two_in_one_out"];

const SHAPES: [RowShape; 4] = [RowShape::new(256, 1, 1, 4), RowShape::new(128, 1, 2, 4), RowShape::new(32, 8, 4, 4), RowShape::new(32, 8, 8, 4)];

fn id(kind: &str, shape: RowShape, target: Target) -> KernelId {
    KernelId { kernel: "roof", tag: format!("{kind}.{}", shape.tag()), target }
}

impl Op for Roof {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn stage(&self) -> Stage {
        Stage::Experimental
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        let out = problem.operand("x").map(|x| TensorDesc::contiguous(x.dtype, &x.shape));
        Ok(match (problem.operand("out"), out) {
            (None, Some(out)) => problem.with("out", out),
            _ => problem,
        })
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let [Some(x), y, Some(out)] = &p.operands[..] else {
            return Ok(());
        };
        match (y, p.int("kind") == TWO_IN_ONE_OUT) {
            (None, true) => return Err(DescError { operand: "y", rule: Rule::Present, got: "nothing".into(), expected: x.to_string() }),
            (Some(y), false) => {
                let expected = format!("no y with kind={}", p.int("kind"));
                return Err(DescError { operand: "y", rule: Rule::Known, got: y.to_string(), expected });
            }
            _ => {}
        }
        for (name, d) in [("x", Some(x)), ("y", y.as_ref()), ("out", Some(out))] {
            let Some(d) = d else { continue };
            if d.dtype != DType::F32 {
                return Err(DescError { operand: name, rule: Rule::DTypeSupported, got: d.dtype.to_string(), expected: "f32".into() });
            }
            if d.shape != x.shape {
                return Err(DescError { operand: name, rule: Rule::SameShape, got: d.to_string(), expected: x.to_string() });
            }
            if !d.is_contiguous() || d.alignment() < 16 {
                return Err(DescError { operand: name, rule: Rule::ShapeMatches, got: d.to_string(), expected: "no gaps, on 16 bytes".into() });
            }
        }
        Ok(())
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let Some(x) = p.operand("x").filter(|x| !x.is_empty()) else {
            return Ok(vec![Plan::empty(caps.target)]);
        };
        let (n, kind) = (x.len(), KINDS[p.int("kind").clamp(COPY, TWO_IN_ONE_OUT) as usize]);
        let plan = |shape: RowShape| {
            let programs = n.div_ceil(shape.tile());
            let args = vec![
                ("x", Arg::Pointer(Some(Buffer::Operand(0)))),
                ("y", Arg::Pointer(p.operand("y").map(|_| Buffer::Operand(1)))),
                ("out", Arg::Pointer(Some(Buffer::Operand(2)))),
                ("n", Arg::I64(n as i64)),
                ("programs", Arg::I64(programs as i64)),
                ("never", Arg::F32(NEVER)),
                ("reserved", Arg::I32(0)),
            ];
            let id = id(kind, shape, caps.target);
            let tag = id.tag.clone();
            Plan { tag, target: caps.target, steps: vec![Step::Launch(launch(id, shape, programs, 1, args))], workspace: Workspace::default() }
        };
        Ok(SHAPES.map(plan).into())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        let one = |kind: &str, s: RowShape| {
            let config =
                format!(".kind = ww::traffic::{kind}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}", s.threads, s.groups, s.chunks, s.vec);
            let set = if s == SHAPES[1] { BuildSet::Ci } else { BuildSet::Full };
            variant(id(kind, s, target), s, "ops/roof.h", ["Roof", "RoofConfig"], config, set)
        };
        KINDS.into_iter().flat_map(|k| SHAPES.map(|s| one(k, s))).collect()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        if kernel == "roof" { PARAMS } else { &[] }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p.int("kind"), inputs, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }
}
