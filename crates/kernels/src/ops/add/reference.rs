use std::ops::Range;
use warpwave_core::{Approx, Problem, Source, TensorDesc};

/// Number of the element of an operand that stands at element `i` of a tensor of shape `shape`.
pub(crate) fn place(operand: &TensorDesc, shape: &[u64], i: u64) -> u64 {
    let (mut rest, mut number, mut step) = (i, 0, 1);
    for (k, &n) in shape.iter().rev().enumerate() {
        let index = rest % n;
        rest /= n;
        if k < operand.rank() {
            let own = operand.shape[operand.rank() - 1 - k];
            number += if own == 1 { 0 } else { index * step };
            step *= own;
        }
    }
    number
}

/// x + y. Operands of one type: no error beyond one rounding, since a float32 sum of two 16-bit values, rounded again, is the sum rounded once
/// (Figueroa, 1995). Mixed: a float32 sum, rounded again where out has 16 bits.
pub(super) fn reference(p: &Problem, inputs: &[Source<'_>], ranges: &[Range<u64>]) -> Vec<Approx> {
    let [Some(x), Some(y), Some(out)] = &p.operands[..] else { return Vec::new() };
    let mixed = x.dtype != out.dtype || y.dtype != out.dtype;
    let one = |i| {
        let value = inputs[0].get(place(x, &out.shape, i)) + inputs[1].get(place(y, &out.shape, i));
        let error = if mixed { f64::from(f32::EPSILON) / 2.0 * value.abs() + f64::from(f32::from_bits(1)) } else { 0.0 };
        Approx { value, error: if error.is_finite() { error } else { 0.0 } }
    };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}
