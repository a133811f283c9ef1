//! Gradients of the root mean square normalisation.

use crate::ops::rms_norm::{ATTRS, check_norm, example_norm, unsupported};
use crate::rows::{expect, floats, or_contiguous, rows_of};
use crate::{column_sum, norm_bwd};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, DType, DescError, DeviceCaps, Family, Op, OperandSpec, Param, Plan, Problem, Role, RowsView, Signature, Source, Target,
    TensorDesc, Unsupported, Valid, Variant,
};

mod reference;
pub(crate) use reference::reference as reference_of;

/// Gradients of [`RmsNorm`](super::rms_norm::RmsNorm) by x and w from that by its output. With h = x / rms, g = dy · (w + shift):
/// `dx = (g - h · mean(g · h)) / rms`, `dw` = sum over rows of dy · h. Any strides; sums in float32, in an order that shape and device fix; `dx` may be
/// written over `dy` or `x`. Right also where squares of x overflow float32; products of dy with w and h must hold in it. Zhang and Sennrich, 2019.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormBwd;

const SIGNATURE: Signature = Signature {
    op: "rms_norm_bwd",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of x" },
        OperandSpec { name: "w", role: Role::Input, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
        OperandSpec { name: "dw", role: Role::Output, doc: "[n], of w's dtype" },
    ],
    attrs: ATTRS,
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("dsum", ArgType::Rows),
    Param::new("w", ArgType::Rows),
    Param::new("dx", ArgType::Rows),
    Param::new("part", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("rows", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("eps", ArgType::F64),
    Param::new("inverse", ArgType::F64),
    Param::new("shift", ArgType::F32),
    Param::new("w_kind", ArgType::I32),
];

const KERNEL: norm_bwd::Kernel =
    norm_bwd::Kernel { name: "rms_norm_bwd", header: "ops/rms_norm_bwd.h", names: ["RmsNormBwd", "RmsNormBwdConfig"], ahead: 16 };

/// Plans of both ops; `dsum` is the operand of add_rms_norm_bwd that rms_norm_bwd lacks.
pub(crate) fn plans(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Some(w), Some(dw), Some(index)) = (p.operand("x"), p.operand("w"), p.operand("dw"), p.index("dw")) else { return Ok(Vec::new()) };
    if dw.is_empty() {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if !floats(caps.target).contains(&x.dtype) {
        return Err(unsupported(p, x.dtype, caps.target));
    }
    let out = RowsView { buffer: Some(warpwave_core::Buffer::Operand(index)), stride: dw.strides[0], outer: [0; 3] };
    let gradients = [("part", out, dw.dtype)];
    if x.is_empty() {
        return Ok(vec![norm_bwd::no_rows(dw.len(), &gradients, caps)]);
    }
    let names = ["x", "dy", "dresidual_out", "w", "dx"];
    let Ok((space, views)) = rows_of(p, &names, false) else { return Ok(Vec::new()) };
    let whole = names.iter().zip(&views).all(|(n, v)| p.operand(n).is_none_or(|d| norm_bwd::whole(d, v, &space)));
    let fields = ["x", "dy", "dsum", "w", "dx"];
    let before: Vec<_> = fields.into_iter().zip(views.into_iter().map(Arg::Rows)).collect();
    let behind = [
        ("eps", Arg::F64(p.float("eps"))),
        ("inverse", Arg::F64(1.0 / space.n as f64)),
        ("shift", Arg::F32(p.float("shift") as f32)),
        ("w_kind", Arg::I32(if w.dtype == x.dtype { 1 } else { 2 })),
    ];
    Ok(norm_bwd::plans(KERNEL, x.dtype, (&space, whole), [&before, &behind], &gradients, caps))
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    norm_bwd::variants(KERNEL, target)
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    match kernel {
        "rms_norm_bwd" => PARAMS,
        "column_sum" => column_sum::PARAMS,
        _ => &[],
    }
}

impl Op for RmsNormBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let (Some(x), Some(w)) = (p.operand("x").cloned(), p.operand("w").cloned()) else { return Ok(p) };
        Ok(or_contiguous(or_contiguous(p, "dx", x.dtype, &x.shape), "dw", w.dtype, &w.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["dy", "dx"], &["w"])?;
        let Some(w) = p.operand("w") else { return Ok(()) };
        expect(p, "dw", &[w.dtype], &w.shape)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        plans(p, caps)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, &inputs[0], &inputs[1], &inputs[2], output == 4, ranges)
    }

    fn in_place(&self, _: &Problem, output: usize, input: usize) -> bool {
        output == 3 && input < 2
    }

    fn sample(&self, _: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        norm_bwd::sample(operand, family, seed, i)
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_norm(Problem::new(SIGNATURE), outer, n, &["x", "dy", "dx"], &["w"], pick);
        let dtype = p.operand("w").or(p.operand("x")).map_or(DType::F32, |d| d.dtype);
        let p = ["w", "dw"].into_iter().fold(p, |p, name| p.with(name, TensorDesc::contiguous(dtype, &[n])));
        Some(p.with_attr("shift", [0.0, 1.0][pick(2)].into()))
    }
}
