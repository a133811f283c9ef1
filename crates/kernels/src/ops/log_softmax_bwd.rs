//! The gradient of `log_softmax`; the kernels are `softmax_bwd`'s.

use crate::ops::softmax_bwd;
use std::ops::Range;
use warpwave_core::{Approx, DescError, DeviceCaps, Family, Op, Param, Plan, Problem, Signature, Source, Target, Unsupported, Valid, Variant};

mod reference;

/// Gradient of [`LogSoftmax`](super::log_softmax::LogSoftmax) from its output: `dx = dy - exp(y) · sum(dy)` along `axis`: operands and rules of
/// [`SoftmaxBwd`](softmax_bwd::SoftmaxBwd); the sum of dy must hold in the type of the sums.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmaxBwd;

impl Op for LogSoftmaxBwd {
    fn signature(&self) -> Signature {
        softmax_bwd::signature("log_softmax_bwd")
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        Ok(softmax_bwd::infer(p))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        softmax_bwd::check(p)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        softmax_bwd::plans(p, caps, true)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        softmax_bwd::variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        softmax_bwd::params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        Some(softmax_bwd::example(Problem::new(self.signature()), outer, n, pick))
    }

    fn sample(&self, p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        softmax_bwd::sample(p, operand, family, seed, i, true)
    }

    fn exact(&self, _: &Problem) -> bool {
        true
    }

    fn neutral(&self) -> Option<f64> {
        Some(0.0)
    }
}
