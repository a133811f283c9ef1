//! The error bounds themselves are tested: a result computed in float32 on the host passes, and one that lacks the last element, the last tile
//! or one lane's share does not, at the largest size of the suite.

use crate::exec::{Image, Options, Output};
use crate::generate::{Family, inputs};
use crate::oracle::{Reference, Tolerance};
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
        _ => return Ok(None),
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

/// Whether the oracle accepts what a computation with a loss gives. `None`: the op has no such test.
///
/// # Errors
/// None for the ops of this build.
pub fn accepted(op: &dyn Op, dtype: DType, loss: Loss) -> Result<Option<bool>, DescError> {
    let Some(problem) = largest(op, dtype)? else { return Ok(None) };
    let images = inputs(&problem, Family::Spikes, 11, &Options::default());
    let Some(output) = problem.outputs().next() else { return Ok(None) };
    let shape = problem.operands[output].as_ref().map_or(Vec::new(), |d| d.shape.clone());
    let len: u64 = shape.iter().product();
    let sources = images.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect();
    let all: Vec<_> = std::iter::once(0..len).collect();
    let reference = Reference::new(op, &problem, sources, output, all.clone());
    let size = dtype.size() as usize;
    let values = compute(&problem, &images, loss);
    let mut bytes = vec![0; values.len() * size];
    values.iter().zip(bytes.chunks_exact_mut(size)).for_each(|(&v, b)| dtype.encode(v, b));
    let out = Output { operand: output, dtype, shape, ranges: all, bytes };
    Ok(Some(reference.check(&out, Tolerance::Bound, &|_| true).is_none()))
}
