//! Data families.

use crate::exec::{Image, Options, distinct};
use warpwave_core::{DType, Family, Indices, Op, Problem, Role, noise, normal, unit};

/// Whether data of a family make the result on a problem the reference rounded once.
pub fn is_exact(family: Family, op: &dyn Op, problem: &Problem) -> bool {
    family == Family::Exact && op.exact(problem)
}

/// The dimension that a softmax runs along.
fn axis(p: &Problem) -> Option<usize> {
    let rank = p.operand("x")?.rank() as i64;
    let axis = p.int("axis");
    usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&a| (a as i64) < rank)
}

/// Whether position `k` of `n` is the first, the last, or beside an edge of some tile.
fn is_edge(k: u64, n: u64) -> bool {
    k + 1 == n || k & (k + 1) == 0 || k & k.wrapping_sub(1) == 0
}

/// The unit of tiny values; of float64 one whose reciprocal the reference still holds.
fn smallest(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-120 } else { dtype.min_subnormal() }
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        // the reference, in float64 itself, must not overflow
        DType::F64 => 1e150,
        DType::F32 => f32::MAX.into(),
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::I64 | DType::I32 => i32::MAX.into(),
    }
}

fn sign(bits: u64) -> f64 {
    if bits & 1 == 0 { 1.0 } else { -1.0 }
}

/// One input of a problem, as the data families see it.
struct Operand<'a> {
    op: &'a str,
    name: &'a str,
    dtype: DType,
    /// Extent of the dimension that is summed over, and elements between neighbours along it.
    n: u64,
    step: u64,
    seed: u64,
}

impl Operand<'_> {
    /// An index: one of the operand's, or by turns one out of range; those of the largest magnitude last.
    fn index(&self, family: Family, indices: Option<Indices>, i: u64) -> f64 {
        let bits = noise(self.seed, i);
        let Some(Indices { count, .. }) = indices else { return (bits % 17) as f64 };
        let n = count as f64;
        let (lo, hi) = if self.dtype == DType::I64 { (i64::MIN as f64, i64::MAX as f64) } else { (i32::MIN.into(), i32::MAX.into()) };
        match bits >> 32 & 15 {
            k @ 0..=5 if family == Family::Hostile => [-1.0, n - 1.0, n, n + 1.0, lo, hi][k as usize],
            _ => (bits % count.max(1)) as f64,
        }
    }

    fn value(&self, family: Family, indices: Option<Indices>, i: u64) -> f64 {
        if !self.dtype.is_float() {
            return self.index(family, indices, i);
        }
        let k = i / self.step % self.n.max(1);
        let bits = noise(self.seed, i);
        let (softmax, matmul) = (self.op.ends_with("softmax"), self.op == "matmul");
        match family {
            Family::Exact => self.exact(i, k, bits),
            Family::Normal | Family::Hostile => normal(self.seed, i) * if softmax { 3.0 } else { 1.0 },
            Family::Uniform => 2.0 * unit(self.seed, i) - 1.0,
            Family::Extreme if matmul => {
                let reach: i32 = if self.dtype == DType::F16 { 6 } else { 40 };
                normal(self.seed, i) * f64::powi(2.0, (bits % (2 * reach as u64 + 1)) as i32 - reach)
            }
            Family::Extreme => match bits % 8 {
                0 => sign(bits >> 8) * largest(self.dtype),
                1 => sign(bits >> 8) * largest(self.dtype) * unit(self.seed, i),
                2 => sign(bits >> 8) * smallest(self.dtype) * (bits >> 10 & 0xff) as f64,
                3 => sign(bits >> 8) * 1e4 * unit(self.seed, i),
                _ => normal(self.seed, i),
            },
            Family::Subnormal if matmul => {
                // a's smallest values times small integers: exact for f16, far from underflow of the sum for the others
                let unit = if self.name == "b" {
                    1.0
                } else if self.dtype == DType::F16 {
                    smallest(self.dtype)
                } else {
                    f64::powi(2.0, -100)
                };
                unit * ((bits % 9) as f64 - 4.0)
            }
            Family::Subnormal => {
                let reach = if self.dtype == DType::F32 { 1 << 25 } else { 1 << 12 };
                sign(bits >> 40) * smallest(self.dtype) * (bits % reach) as f64
            }
            Family::Spikes if softmax => {
                let base = normal(self.seed, i);
                let height = (self.n as f64).ln() + 1.0;
                // the last element is as large as all others together, an edge still shows in bf16
                if k + 1 == self.n {
                    height - 1.0
                } else if is_edge(k, self.n) {
                    height - 5.0 + unit(self.seed, i)
                } else {
                    base
                }
            }
            Family::Spikes => {
                let base = 2.0 * unit(self.seed, i) - 1.0;
                if is_edge(k, self.n) { if self.name == "b" { 1.0 + (bits % 2) as f64 } else { 48.0 + (bits % 16) as f64 } } else { base }
            }
            Family::Nonfinite => match bits >> 8 & 0xff {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 | 3 => f64::NEG_INFINITY,
                _ => normal(self.seed, i),
            },
        }
    }

    fn exact(&self, i: u64, k: u64, bits: u64) -> f64 {
        match self.op {
            "vector_add" => {
                let reach: u64 = if self.dtype == DType::BF16 { 64 } else { 512 };
                ((bits % (2 * reach + 1)) as f64 - reach as f64) / 8.0
            }
            "softmax" | "log_softmax" => {
                // 1 at one place of each row, 0 elsewhere
                let row = i / (self.step * self.n.max(1)) * self.step + i % self.step;
                let hot = noise(self.seed, row) % self.n.max(1);
                if k == hot {
                    0.0
                } else if row.is_multiple_of(2) {
                    f64::NEG_INFINITY
                } else {
                    -1024.0
                }
            }
            "matmul" if self.name == "c" => (bits % 17) as f64 - 8.0,
            "matmul" => {
                let reach = ((f64::from(1 << 22) / self.n.max(1) as f64).sqrt() as u64).clamp(1, 8);
                (bits % (2 * reach + 1)) as f64 - reach as f64
            }
            _ => (bits % 5) as f64 - 2.0,
        }
    }
}

/// The inputs of a problem: one image for each input that is given.
pub fn inputs(op: &dyn Op, problem: &Problem, family: Family, seed: u64, options: &Options) -> Vec<Option<Image>> {
    let own = op;
    let op = problem.signature.op;
    let softmax_axis = axis(problem);
    problem
        .operands
        .iter()
        .enumerate()
        .map(|(o, desc)| {
            let spec = &problem.signature.operands[o];
            let desc = desc.as_ref().filter(|_| spec.role != Role::Output)?;
            // c is read only where beta is not 0: then NaN must change nothing
            if op == "matmul" && spec.name == "c" && problem.float("beta") == 0.0 {
                return Some(Image::new(desc, options, Some(f64::NAN)));
            }
            let shape = distinct(desc).shape;
            let along = match (op, spec.name) {
                ("matmul", "b") => desc.rank().checked_sub(2),
                ("softmax" | "log_softmax", _) => softmax_axis,
                _ => desc.rank().checked_sub(1),
            };
            let (n, step) = along.map_or((1, 1), |a| (shape[a], shape[a + 1..].iter().product::<u64>().max(1)));
            let operand = Operand { op, name: spec.name, dtype: desc.dtype, n, step, seed: seed.wrapping_mul(8).wrapping_add(o as u64) };
            let indices = own.indices(problem, o);
            let value = |i| own.sample(problem, o, family, operand.seed, i).unwrap_or_else(|| operand.value(family, indices, i));
            Some(Image::filled(desc, options, &value))
        })
        .collect()
}
