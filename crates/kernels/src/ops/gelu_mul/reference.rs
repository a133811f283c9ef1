use crate::ops::gelu::{gelu, gelu_tanh};
use crate::ops::gelu_bwd::{gelu_slope, gelu_tanh_slope};
use std::ops::Range;
use warpwave_core::{Approx, Problem, Source};

/// gelu(gate) up.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
    let f: [crate::gate::Bounded; 2] = if p.choice("approximate") == "tanh" { [gelu_tanh, gelu_tanh_slope] } else { [gelu, gelu_slope] };
    crate::gate::reference(p, inputs, output, ranges, f)
}
