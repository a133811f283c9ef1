//! Gradients of residual addition and root mean square normalisation; the kernels are rms_norm_bwd's.

use crate::norm_bwd;
use crate::ops::rms_norm::{ATTRS, check_norm, example_norm};
use crate::ops::rms_norm_bwd;
use crate::rows::{expect, or_contiguous};
use std::ops::Range;
use warpwave_core::{
    Approx, DType, DescError, DeviceCaps, Family, Op, OperandSpec, Param, Plan, Problem, Role, Signature, Source, Target, TensorDesc, Unsupported,
    Valid, Variant,
};

mod reference;

/// Gradients of [`AddRmsNorm`](super::add_rms_norm::AddRmsNorm). Its sum reaches both outputs: `dx = dresidual_out +` the gradient that
/// [`RmsNormBwd`](rms_norm_bwd::RmsNormBwd) gives at the sum, and is the gradient by x and by residual alike; `dw` as there. `x` is the saved
/// `residual_out`. `dx` may be written over any input of its shape.
#[derive(Clone, Copy, Debug)]
pub struct AddRmsNormBwd;

const SIGNATURE: Signature = Signature {
    op: "add_rms_norm_bwd",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n], the forward's residual_out" },
        OperandSpec { name: "dy", role: Role::Input, doc: "gradient by out; the shape and dtype of x" },
        OperandSpec { name: "dresidual_out", role: Role::Input, doc: "gradient by residual_out; the shape and dtype of x" },
        OperandSpec { name: "w", role: Role::Input, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
        OperandSpec { name: "dw", role: Role::Output, doc: "[n], of w's dtype" },
    ],
    attrs: ATTRS,
};

impl Op for AddRmsNormBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let (Some(x), Some(w)) = (p.operand("x").cloned(), p.operand("w").cloned()) else { return Ok(p) };
        Ok(or_contiguous(or_contiguous(p, "dx", x.dtype, &x.shape), "dw", w.dtype, &w.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["dy", "dresidual_out", "dx"], &["w"])?;
        let Some(w) = p.operand("w") else { return Ok(()) };
        expect(p, "dw", &[w.dtype], &w.shape)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        rms_norm_bwd::plans(p, caps)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        rms_norm_bwd::variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        rms_norm_bwd::params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn in_place(&self, _: &Problem, output: usize, input: usize) -> bool {
        output == 4 && input < 3
    }

    fn sample(&self, _: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        norm_bwd::sample(operand, family, seed, i)
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_norm(Problem::new(SIGNATURE), outer, n, &["x", "dy", "dresidual_out", "dx"], &["w"], pick);
        let dtype = p.operand("w").or(p.operand("x")).map_or(DType::F32, |d| d.dtype);
        let p = ["w", "dw"].into_iter().fold(p, |p, name| p.with(name, TensorDesc::contiguous(dtype, &[n])));
        Some(p.with_attr("shift", [0.0, 1.0][pick(2)].into()))
    }
}
