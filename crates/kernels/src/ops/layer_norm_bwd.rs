//! Gradients of layer normalisation.

use crate::ops::layer_norm::ATTRS;
use crate::ops::rms_norm::{check_norm, example_norm, unsupported};
use crate::rows::{expect, floats, or_contiguous, rows_of};
use crate::{column_sum, norm_bwd};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, Buffer, DType, DescError, DeviceCaps, Family, Op, OperandSpec, Param, Plan, Problem, Role, RowsView, Signature, Source,
    Target, TensorDesc, Unsupported, Valid, Variant, normal,
};

mod reference;

/// Gradients of [`LayerNorm`](super::layer_norm::LayerNorm) by x, gamma and beta from that by its output. With h the normalised row and
/// g = dy · gamma: `dx = (g - mean(g) - h · mean(g · h)) / sqrt(var + eps)`, `dgamma` = sum over rows of dy · h, `dbeta` = sum over rows of dy. Any
/// strides; sums in float32, in an order that shape and device fix; `dx` may be written over `dy` or `x`. Products of dy with gamma and x must hold
/// in float32. Ba, Kiros and Hinton, 2016.
#[derive(Clone, Copy, Debug)]
pub struct LayerNormBwd;

const SIGNATURE: Signature = Signature {
    op: "layer_norm_bwd",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of x" },
        OperandSpec { name: "gamma", role: Role::Input, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
        OperandSpec { name: "dgamma", role: Role::Output, doc: "[n], of gamma's dtype" },
        OperandSpec { name: "dbeta", role: Role::Output, doc: "[n], of gamma's dtype" },
    ],
    attrs: ATTRS,
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("gamma", ArgType::Rows),
    Param::new("dx", ArgType::Rows),
    Param::new("dgamma", ArgType::Rows),
    Param::new("dbeta", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("rows", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("eps", ArgType::F64),
    Param::new("inverse", ArgType::F64),
    Param::new("gamma_kind", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const KERNEL: norm_bwd::Kernel =
    norm_bwd::Kernel { name: "layer_norm_bwd", header: "ops/layer_norm_bwd.h", names: ["LayerNormBwd", "LayerNormBwdConfig"], ahead: 8 };

impl Op for LayerNormBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let (Some(x), Some(w)) = (p.operand("x").cloned(), p.operand("gamma").cloned()) else { return Ok(p) };
        let p = or_contiguous(p, "dx", x.dtype, &x.shape);
        Ok(["dgamma", "dbeta"].into_iter().fold(p, |p, name| or_contiguous(p, name, w.dtype, &w.shape)))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["dy", "dx"], &["gamma"])?;
        let Some(w) = p.operand("gamma") else { return Ok(()) };
        expect(p, "dgamma", &[w.dtype], &w.shape)?;
        expect(p, "dbeta", &[w.dtype], &w.shape)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(gamma)) = (p.operand("x"), p.operand("gamma")) else { return Ok(Vec::new()) };
        if gamma.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(unsupported(p, x.dtype, caps.target));
        }
        let gradient = |name| {
            let (d, i) = (p.operand(name)?, p.index(name)?);
            Some((name, RowsView { buffer: Some(Buffer::Operand(i)), stride: d.strides[0], outer: [0; 3] }, d.dtype))
        };
        let (Some(dgamma), Some(dbeta)) = (gradient("dgamma"), gradient("dbeta")) else { return Ok(Vec::new()) };
        let gradients = [dgamma, dbeta];
        if x.is_empty() {
            return Ok(vec![norm_bwd::no_rows(gamma.len(), &gradients, caps)]);
        }
        let names = ["x", "dy", "gamma", "dx"];
        let Ok((space, views)) = rows_of(p, &names, false) else { return Ok(Vec::new()) };
        let whole = names.iter().zip(&views).all(|(n, v)| p.operand(n).is_none_or(|d| norm_bwd::whole(d, v, &space)));
        let before: Vec<_> = names.into_iter().zip(views.into_iter().map(Arg::Rows)).collect();
        let behind = [
            ("eps", Arg::F64(p.float("eps"))),
            ("inverse", Arg::F64(1.0 / space.n as f64)),
            ("gamma_kind", Arg::I32(if gamma.dtype == x.dtype { 1 } else { 2 })),
            ("reserved", Arg::I32(0)),
        ];
        Ok(norm_bwd::plans(KERNEL, x.dtype, (&space, whole), [&before, &behind], &gradients, caps))
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        norm_bwd::variants(KERNEL, target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        match kernel {
            "layer_norm_bwd" => PARAMS,
            "column_sum" => column_sum::PARAMS,
            _ => &[],
        }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn in_place(&self, _: &Problem, output: usize, input: usize) -> bool {
        output == 3 && input < 2
    }

    fn sample(&self, _: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        // rounding decides whether h is 0 at the mean, and with it what an infinite gradient gives
        if family == Family::Nonfinite && operand > 0 { Some(normal(seed, i)) } else { norm_bwd::sample(operand, family, seed, i) }
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_norm(Problem::new(SIGNATURE), outer, n, &["x", "dy", "dx"], &["gamma"], pick);
        let dtype = p.operand("gamma").or(p.operand("x")).map_or(DType::F32, |d| d.dtype);
        Some(["gamma", "dgamma", "dbeta"].into_iter().fold(p, |p, name| p.with(name, TensorDesc::contiguous(dtype, &[n]))))
    }
}
