//! The error bounds themselves are tested: a result computed in float32 on the host passes, and one that lacks the last element, the last tile
//! or one lane's share does not, at the largest size of the suite.

use crate::exec::{Image, Options, Output};
use crate::generate::{Family, inputs};
use crate::oracle::{Reference, Tolerance};
use std::ops::Range;
use warpwave_core::{DType, DescError, Op, Problem, Source, TensorDesc, Valid, validate};

/// Which elements of the summed dimension a computation loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// None: the right result.
    Nothing,
    /// The last one.
    LastElement,
    /// The last 64.
    LastTile,
    /// Those of one lane of 32.
    Lane,
}

impl Loss {
    /// Every fault.
    pub const FAULTS: [Loss; 3] = [Loss::LastElement, Loss::LastTile, Loss::Lane];

    fn loses(self, k: u64, n: u64) -> bool {
        match self {
            Loss::Nothing => false,
            Loss::LastElement => k + 1 == n,
            Loss::LastTile => k + 64 >= n,
            Loss::Lane => k % 32 == 13,
        }
    }
}

/// The largest problem of the suite for an op: softmax of 2^20 columns, a product over K = 16384, a sum of 2^20 elements.
///
/// # Errors
/// None for the ops of this build: the problem is valid.
pub fn largest(op: &dyn Op, dtype: DType) -> Result<Option<Valid>, DescError> {
    let signature = op.signature();
    let p = Problem::new(signature);
    let t = |shape: &[u64]| TensorDesc::contiguous(dtype, shape);
    let p = match signature.op {
        "vector_add" => p.with("x", t(&[1 << 20])).with("y", t(&[1 << 20])).with("out", t(&[1 << 20])),
        "softmax" | "log_softmax" => p.with("x", t(&[1, 1 << 20])).with("out", t(&[1, 1 << 20])),
        "matmul" => p.with("a", t(&[2, 16384])).with("b", t(&[16384, 64])).with("out", t(&[2, 64])),
        _ => {
            let Some(p) = of_dtype(op, dtype, &[1], 1 << 20) else { return Ok(None) };
            p
        }
    };
    validate(op, p).map(Some)
}

/// A sum in float32 as a block of 1024 threads makes it: each thread its share, then a tree.
fn sum(n: u64, f: impl Fn(u64) -> f32) -> f32 {
    let mut threads = vec![0.0f32; 1024];
    (0..n).for_each(|k| threads[(k % 1024) as usize] += f(k));
    let mut width = 512;
    while width > 0 {
        for i in 0..width {
            threads[i] += threads[i + width];
        }
        width /= 2;
    }
    threads[0]
}

/// What a device would give that loses elements, rounded to the output's type.
fn compute(problem: &Valid, images: &[Option<Image>], loss: Loss) -> Vec<f64> {
    let input = |o: usize| images[o].as_ref().map(Image::dense).unwrap_or_default();
    let dtype = problem.dtypes()[0];
    match problem.signature.op {
        "vector_add" => {
            let n = problem.operands[0].as_ref().map_or(0, TensorDesc::len);
            let add = |(k, (x, y)): (usize, (f64, f64))| if loss.loses(k as u64, n) { 0.0 } else { dtype.round(x + y) };
            input(0).into_iter().zip(input(1)).enumerate().map(add).collect()
        }
        "matmul" => {
            let (a, b) = (input(0), input(1));
            let shape = |o: usize, d: usize| problem.operands[o].as_ref().map_or(0, |t| t.shape[d]);
            let (m, n, k) = (shape(0, 0), shape(1, 1), shape(0, 1));
            let product =
                |r: u64, c: u64, q: u64| if loss.loses(q, k) { 0.0 } else { a[(r * k + q) as usize] as f32 * b[(q * n + c) as usize] as f32 };
            (0..m * n).map(|i| dtype.round(sum(k, |q| product(i / n, i % n, q)).into())).collect()
        }
        op => {
            let x: Vec<f32> = input(0).iter().map(|&x| x as f32).collect();
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let n = x.len() as u64;
            let total = sum(n, |k| if loss.loses(k, n) { 0.0 } else { (x[k as usize] - max).exp() });
            let one = |v: f32| if op == "softmax" { (v - max).exp() / total } else { (v - max) - total.ln() };
            x.iter().map(|&v| dtype.round(one(v).into())).collect()
        }
    }
}

/// The op's example of a shape in a dtype, where it has one.
fn of_dtype(op: &dyn Op, dtype: DType, outer: &[u64], n: u64) -> Option<Problem> {
    let alternatives = std::cell::Cell::new(1);
    let example = |chosen: usize| {
        let mut picks = 0;
        op.example(outer, n, &mut |k| {
            picks += 1;
            if picks == 1 {
                alternatives.set(k);
                chosen.min(k - 1)
            } else {
                0
            }
        })
    };
    let first = example(0)?;
    let is = |p: &Problem| p.operands.iter().flatten().find(|d| d.dtype.is_float()).is_some_and(|d| d.dtype == dtype);
    if is(&first) {
        return Some(first);
    }
    (1..alternatives.get()).filter_map(example).find(is)
}

/// Whether the oracle accepts what a computation with a loss gives. `None`: the op has no such test.
///
/// # Errors
/// None for the ops of this build.
pub fn accepted(op: &dyn Op, dtype: DType, loss: Loss) -> Result<Option<bool>, DescError> {
    let Some(problem) = largest(op, dtype)? else { return Ok(None) };
    if !matches!(problem.signature.op, "vector_add" | "softmax" | "log_softmax" | "matmul") {
        return accepted_of_reference(op, dtype, &problem, loss);
    }
    let images = inputs(op, &problem, Family::Spikes, 11, &Options::default());
    let Some(output) = problem.outputs().next() else { return Ok(None) };
    let values = compute(&problem, &images, loss);
    Ok(Some(accepts(op, &problem, &images, output, &values, &|_| true)))
}

fn accepts(op: &dyn Op, problem: &Valid, images: &[Option<Image>], output: usize, values: &[f64], only: &(dyn Fn(u64) -> bool + Sync)) -> bool {
    let Some(desc) = &problem.operands[output] else { return true };
    let (dtype, shape) = (desc.dtype, desc.shape.clone());
    let sources = images.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect();
    let all: Vec<Range<u64>> = std::iter::once(0..desc.len()).collect();
    let reference = Reference::new(op, problem, sources, output, all.clone());
    let size = dtype.size() as usize;
    let mut bytes = vec![0; values.len() * size];
    values.iter().zip(bytes.chunks_exact_mut(size)).for_each(|(&v, b)| dtype.encode(v, b));
    let out = Output { operand: output, dtype, shape, ranges: all, bytes };
    reference.check(&out, Tolerance::Bound, only).is_none()
}

/// The loss put into the reference itself: the main operand's lost elements hold what counts as nothing. Outputs that sum along a row are judged
/// without the lost elements' own places; those that sum over rows lose rows.
fn accepted_of_reference(op: &dyn Op, dtype: DType, wide: &Valid, loss: Loss) -> Result<Option<bool>, DescError> {
    let tall = of_dtype(op, dtype, &[1 << 14], 64).map(|p| validate(op, p)).transpose()?;
    let mut accepted = true;
    for (problem, over_rows) in std::iter::once((wide, false)).chain(tall.as_ref().map(|p| (p, true))) {
        let images = inputs(op, problem, Family::Spikes, 11, &Options::default());
        // nothing that could be lost
        if images.iter().all(Option::is_none) {
            return Ok(None);
        }
        let Some((main, desc)) = problem.operands.iter().enumerate().find_map(|(i, d)| Some((i, d.as_ref()?))) else { continue };
        let n = desc.shape.last().copied().unwrap_or(1).max(1);
        let rows = desc.len() / n;
        let lost = |i: u64| if over_rows { loss.loses(i / n, rows) } else { loss.loses(i % n, n) };
        for output in problem.outputs() {
            let Some(out) = &problem.operands[output] else { continue };
            // a sum over rows has no rows of its own
            let sums_rows = out.rank() < desc.rank() && out.shape.last() == desc.shape.last();
            if sums_rows != over_rows {
                continue;
            }
            let neutral = op.neutral();
            let sources: Vec<Source<'_>> = images
                .iter()
                .enumerate()
                .map(|(o, image)| match image {
                    Some(image) if o == main => Source::Lazy(Box::new(move |i| if lost(i) { neutral.unwrap_or(0.0) } else { image.get(i) })),
                    Some(image) => image.source(),
                    None => Source::Dense(Vec::new()),
                })
                .collect();
            let all: Vec<Range<u64>> = std::iter::once(0..out.len()).collect();
            let values: Vec<f64> = op.reference(problem, &sources, output, &all).iter().map(|a| out.dtype.round(a.value)).collect();
            let own = |i: u64| out.shape == desc.shape && lost(i) && neutral.is_some();
            accepted &= accepts(op, problem, &images, output, &values, &|i| !own(i));
        }
    }
    Ok(Some(accepted))
}
