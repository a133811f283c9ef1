//! Rotary position embedding.

use crate::rope;
use std::ops::Range;
use warpwave_core::{
    Approx, DescError, DeviceCaps, Family, Indices, Op, Param, Plan, Problem, Signature, Source, Target, Unsupported, Valid, Variant,
};

mod reference;
pub(crate) use reference::turned;

/// Turns pairs of channels of x by angles that grow with the position: with `(c, s)` cosine and sine of `position * frequency`,
/// `(x1, x2)` becomes `(x1 c - x2 s, x2 c + x1 s)`, in float32, rounded once (f32, f16, bf16; f64 on the CPU).
///
/// x is `[batch, position, head, channel]`, or without batch, of any strides: a tensor `[batch, head, position, channel]` is given as a view with
/// its strides. Only the first `rot` channels turn, all others pass unchanged. Style `neox` pairs (i, i + rot/2), `interleaved` (2i, 2i + 1);
/// `neox_proportional` pairs (i, i + channels/2), i < rot/2, at the frequencies of all channels.
///
/// Without `cos` and `sin` angles are exact to float64 at any position, and `scaling` takes `linear`, `llama3`, `yarn` (Peng et al., 2023). With
/// them, row `pos` of the tables is used; a position outside lets its rows pass unturned and sets the queue's error word:
/// `DeviceError::IndexOutOfRange`. `out` may be written over `x`. Su et al., 2021.
#[derive(Clone, Copy, Debug)]
pub struct Rope;

const SIGNATURE: Signature = Signature { op: "rope", operands: rope::FORWARD, attrs: rope::ATTRS };

impl Op for Rope {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("x").cloned() else { return Ok(p) };
        Ok(crate::rows::or_contiguous(p, "out", x.dtype, &x.shape))
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
