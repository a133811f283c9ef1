//! Gradient of the rotary position embedding.

use crate::rope;
use std::ops::Range;
use warpwave_core::{
    Approx, DescError, DeviceCaps, Family, Indices, Op, Param, Plan, Problem, Signature, Source, Target, Unsupported, Valid, Variant,
};

mod reference;

/// Gradient of [`Rope`](super::rope::Rope): dy turned back, by the same angles with their sign changed. Operands, attributes, strides, dtypes and
/// what becomes of a position outside the tables as there; `dx` may be written over `dy`.
#[derive(Clone, Copy, Debug)]
pub struct RopeBwd;

const SIGNATURE: Signature = Signature { op: "rope_bwd", operands: rope::BACKWARD, attrs: rope::ATTRS };

impl Op for RopeBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("dy").cloned() else { return Ok(p) };
        Ok(crate::rows::or_contiguous(p, "dx", x.dtype, &x.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        rope::check(p)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        rope::plans(p, caps)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        debug_assert!(rope::variants(target).iter().all(|v| ["ops/rope.h", "ops/rope_table.h"].contains(&v.header)));
        rope::variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        rope::params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn indices(&self, p: &Problem, operand: usize) -> Option<Indices> {
        rope::indices(p, operand)
    }

    fn in_place(&self, _: &Problem, output: usize, input: usize) -> bool {
        rope::in_place(output, input)
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        Some(rope::example(Problem::new(SIGNATURE), outer, n, pick))
    }

    fn sample(&self, p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        rope::sample(p, operand, family, seed, i)
    }
}
