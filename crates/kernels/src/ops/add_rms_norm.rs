//! Residual addition and root mean square normalisation in one pass; the kernels are rms_norm's.

use crate::ops::rms_norm;
use crate::rows::or_contiguous;
use std::ops::Range;
use warpwave_core::{
    Approx, DescError, DeviceCaps, Op, OperandSpec, Param, Plan, Problem, Role, Signature, Source, Target, Unsupported, Valid, Variant,
};

mod reference;

/// `residual_out = x + residual`, `out = rms_norm(x + residual)`: the mean square is that of the sum before it is rounded. Operands and rules of
/// [`RmsNorm`](rms_norm::RmsNorm); `residual_out` may be written over `residual` or `x`.
#[derive(Clone, Copy, Debug)]
pub struct AddRmsNorm;

const SIGNATURE: Signature = Signature {
    op: "add_rms_norm",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "residual", role: Role::Input, doc: "the shape and dtype of x" },
        OperandSpec { name: "w", role: Role::OptionalInput, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
        OperandSpec { name: "residual_out", role: Role::Output, doc: "the shape and dtype of x" },
    ],
    attrs: rms_norm::ATTRS,
};

impl Op for AddRmsNorm {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("x").cloned() else { return Ok(p) };
        Ok(["out", "residual_out"].into_iter().fold(p, |p, name| or_contiguous(p, name, x.dtype, &x.shape)))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        rms_norm::check_norm(p, &["residual", "out", "residual_out"], &["w"])
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        rms_norm::plans(p, caps, true)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        rms_norm::variants(target, true)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        rms_norm::params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, input: usize) -> bool {
        input < 2
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        Some(rms_norm::example_norm(Problem::new(SIGNATURE), outer, n, &["x", "residual", "out", "residual_out"], &["w"], pick))
    }

    fn neutral(&self) -> Option<f64> {
        Some(0.0)
    }
}
