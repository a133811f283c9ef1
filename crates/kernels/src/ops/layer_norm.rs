//! Layer normalisation of rows.

use crate::ops::rms_norm::{check_norm, example_norm, unsupported, weight_kind};
use crate::rows::{floats, max_lead, or_contiguous, reducing_launches, reducing_variants, rows_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, DescError, DeviceCaps, Family, Op, OperandSpec, Param, Plan, Problem, Role, Signature, Source, Step,
    Target, Unsupported, Valid, Variant, Workspace, normal,
};

mod reference;

/// `out = (x - mean) / sqrt(var + eps) · gamma + beta` along the last dimension, var the mean square of the centred row: x in f32, f16, bf16 (f64 on
/// the CPU), any strides; gamma and beta of x's dtype or f32, or left out; sums in float32. A finite row whose squares overflow float32 gives the
/// right values; a constant row with eps = 0 gives beta. Ba, Kiros and Hinton, 2016.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm;

const SIGNATURE: Signature = Signature {
    op: "layer_norm",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "gamma", role: Role::OptionalInput, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "beta", role: Role::OptionalInput, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
    ],
    attrs: ATTRS,
};

pub(crate) const ATTRS: &[AttrSpec] = &[AttrSpec { name: "eps", kind: AttrKind::Float { default: 1e-5 }, doc: "added to the variance; 0 or more" }];

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("gamma", ArgType::Rows),
    Param::new("beta", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("programs", ArgType::I64),
    Param::new("eps", ArgType::F64),
    Param::new("inverse", ArgType::F64),
    Param::new("gamma_kind", ArgType::I32),
    Param::new("beta_kind", ArgType::I32),
];

/// See [`reducing`](crate::rows::reducing): 32 spilled.
const PER_THREAD: u32 = 16;

impl Op for LayerNorm {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("x").cloned() else { return Ok(p) };
        Ok(or_contiguous(p, "out", x.dtype, &x.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["out"], &["gamma", "beta"])
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Ok(Vec::new()) };
        if out.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(unsupported(p, x.dtype, caps.target));
        }
        let names = ["x", "gamma", "beta", "out"];
        let Ok((space, views)) = rows_of(p, &names, false) else { return Ok(Vec::new()) };
        let need = space.n + max_lead(x, &views[0], &space);
        let mut args: Vec<_> = names.into_iter().zip(views.iter().cloned().map(Arg::Rows)).collect();
        args.extend([
            ("space", Arg::Space(space.clone())),
            ("programs", Arg::I64(space.rows() as i64)),
            ("eps", Arg::F64(p.float("eps"))),
            ("inverse", Arg::F64(1.0 / space.n as f64)),
            ("gamma_kind", Arg::I32(weight_kind(p, "gamma", x.dtype))),
            ("beta_kind", Arg::I32(weight_kind(p, "beta", x.dtype))),
        ]);
        let launches = reducing_launches("layer_norm", (x.dtype, ""), PER_THREAD, (space.rows(), need), &args, caps);
        let plan = |(step, tag)| Plan { tag, target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() };
        Ok(launches.into_iter().map(plan).collect())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        reducing_variants("layer_norm", "ops/layer_norm.h", ["LayerNorm", "LayerNormConfig"], ("", ""), PER_THREAD, target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        if kernel == "layer_norm" { PARAMS } else { &[] }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, input: usize) -> bool {
        input == 0
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        Some(example_norm(Problem::new(SIGNATURE), outer, n, &["x", "out"], &["gamma", "beta"], pick))
    }

    fn sample(&self, _: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        // rounding decides whether a value at the mean is 0 once centred, and with it whether an infinite gamma gives NaN or infinity
        (operand == 1 && family == Family::Nonfinite).then(|| normal(seed, i))
    }

    fn neutral(&self) -> Option<f64> {
        Some(0.0)
    }
}
