//! Decides whether a result is right.

use crate::exec::Output;
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;
use warpwave_core::{Approx, DType, Op, Problem, Source};

/// How near a result must be to the reference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// The op's error bound and one rounding.
    Bound,
    /// The reference rounded once, bit for bit (-0 equals 0, NaN equals NaN).
    Bits,
    /// As near as so much plus a share of the reference.
    Stated {
        /// Absolute part.
        abs: f64,
        /// Relative part.
        rel: f64,
    },
}

/// Whether `got` is a right result for `want` under the op's bound: within its error plus one rounding to `dtype`.
pub fn within(dtype: DType, got: f64, want: Approx) -> bool {
    let Approx { value, error } = want;
    if value.is_nan() || got.is_nan() {
        return value.is_nan() && got.is_nan();
    }
    if value.is_infinite() {
        return got == value;
    }
    // rounding is monotone: whatever lies within the error rounds into this interval, infinities included
    let inside = dtype.round(value - error) <= got && got <= dtype.round(value + error);
    inside || (got.is_finite() && (got - value).abs() <= error + dtype.unit_roundoff() * value.abs() + dtype.min_subnormal())
}

/// Equal as results: NaN equals NaN, -0 equals 0.
pub fn equal(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

impl Tolerance {
    /// Whether `got` passes.
    pub fn accepts(self, dtype: DType, got: f64, want: Approx) -> bool {
        match self {
            Tolerance::Bound => within(dtype, got, want),
            Tolerance::Bits => equal(got, dtype.round(want.value)),
            Tolerance::Stated { abs, rel } => equal(got, want.value) || (got - want.value).abs() <= abs + rel * want.value.abs(),
        }
    }
}

/// An element that is wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mismatch {
    /// Row-major number.
    pub index: u64,
    /// What the device gave.
    pub got: f64,
    /// What was expected.
    pub want: Approx,
    /// How many elements are wrong in all.
    pub count: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { index, got, want, count } = self;
        write!(f, "element {index}: got {got:e}, expected {:e} within {:.2e}; {count} wrong", want.value, want.error)
    }
}

/// The float64 reference of one output of a problem.
pub struct Reference<'a> {
    op: &'a dyn Op,
    problem: &'a Problem,
    inputs: Vec<Source<'a>>,
    output: usize,
    ranges: Vec<Range<u64>>,
    dtype: DType,
    /// Kept where several results are compared.
    stored: Option<Vec<Approx>>,
}

impl fmt::Debug for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reference of {}", self.problem)
    }
}

/// References of so many elements are computed at a time, and only as many are stored as four times that.
const PIECE: u64 = 1 << 20;

impl<'a> Reference<'a> {
    /// The reference of operand `output` at `ranges`. Stored where it is not too large.
    pub fn new(op: &'a dyn Op, problem: &'a Problem, inputs: Vec<Source<'a>>, output: usize, ranges: Vec<Range<u64>>) -> Self {
        let dtype = problem.operands[output].as_ref().map_or(DType::F32, |d| d.dtype);
        let mut r = Reference { op, problem, inputs, output, ranges, dtype, stored: None };
        let count: u64 = r.ranges.iter().map(|r| r.end - r.start).sum();
        if count <= 4 * PIECE {
            // rows of a large product in parallel; small problems are not worth the threads
            let threads = rayon::current_num_threads() as u64;
            let piece = if op.flops(problem) > 1 << 22 { count.div_ceil(4 * threads).max(1) } else { PIECE };
            let parts: Vec<Vec<Approx>> = r.pieces(piece).into_par_iter().map(|(_, p)| r.compute(p)).collect();
            r.stored = Some(parts.concat());
        }
        r
    }

    fn compute(&self, range: Range<u64>) -> Vec<Approx> {
        self.op.reference(self.problem, &self.inputs, self.output, &[range])
    }

    /// The ranges cut to at most `piece` elements, each with the number of elements before it.
    fn pieces(&self, piece: u64) -> Vec<(usize, Range<u64>)> {
        let mut out = Vec::new();
        let mut before = 0;
        for r in &self.ranges {
            let mut at = r.start;
            while at < r.end {
                let end = r.end.min(at + piece);
                out.push((before, at..end));
                before += (end - at) as usize;
                at = end;
            }
        }
        out
    }

    /// The stored values; empty for a large problem.
    pub fn values(&self) -> &[Approx] {
        self.stored.as_deref().unwrap_or(&[])
    }

    /// Compares an output of the same ranges. `only` picks the elements that count.
    pub fn check(&self, got: &Output, tolerance: Tolerance, only: &(dyn Fn(u64) -> bool + Sync)) -> Option<Mismatch> {
        let part = |before: usize, range: Range<u64>, want: &[Approx]| -> Option<Mismatch> {
            let mut found: Option<Mismatch> = None;
            for (j, (index, want)) in range.zip(want).enumerate() {
                let value = got.value(before + j);
                if !tolerance.accepts(self.dtype, value, *want) && only(index) {
                    found.get_or_insert(Mismatch { index, got: value, want: *want, count: 0 }).count += 1;
                }
            }
            found
        };
        let merge = |a: Option<Mismatch>, b: Option<Mismatch>| match (a, b) {
            (Some(a), Some(b)) => Some(Mismatch { count: a.count + b.count, ..a }),
            (a, b) => a.or(b),
        };
        match &self.stored {
            Some(all) => {
                self.pieces(u64::MAX / 2).into_iter().map(|(at, r)| part(at, r.clone(), &all[at..at + (r.end - r.start) as usize])).fold(None, merge)
            }
            None => self.pieces(PIECE).into_par_iter().map(|(at, r)| part(at, r.clone(), &self.compute(r))).reduce(|| None, merge),
        }
    }
}

/// Two results of one problem, each within the bound: how far apart they may be. Returns the first place where they are farther.
pub fn agree(dtype: DType, a: &[f64], b: &[f64], bound: &[Approx]) -> Option<usize> {
    (0..a.len().min(b.len())).find(|&i| {
        let (x, y, w) = (a[i], b[i], bound[i]);
        let near = (x - y).abs() <= 2.0 * (w.error + dtype.unit_roundoff() * w.value.abs() + dtype.min_subnormal());
        // at the edge of the range one may round to infinity
        let edge = (x.is_infinite() || y.is_infinite()) && within(dtype, x, w) && within(dtype, y, w);
        !(equal(x, y) || near || edge)
    })
}
