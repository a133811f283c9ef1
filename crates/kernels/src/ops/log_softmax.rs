//! The logarithm of softmax; the kernels are softmax's.

use crate::ops::softmax;
use std::ops::Range;
use warpwave_core::{Approx, DescError, DeviceCaps, Op, Param, Plan, Problem, Signature, Source, Target, Unsupported, Valid, Variant};

mod reference;

/// `out = x - max x - log sum exp(x - max x)` along `axis`: operands and rules of [`Softmax`](softmax::Softmax).
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax;

impl Op for LogSoftmax {
    fn signature(&self) -> Signature {
        softmax::signature("log_softmax")
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        Ok(softmax::infer(problem))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        softmax::check(p)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        softmax::plans(p, caps, true)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        softmax::variants(target)
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        softmax::params(kernel)
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, &inputs[0], ranges)
    }

    fn exact(&self, p: &Problem) -> bool {
        softmax::exact(p)
    }

    fn in_place(&self, _: &Problem, _: usize, _: usize) -> bool {
        true
    }
}
