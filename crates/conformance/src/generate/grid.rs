//! Grids: the sizes at which tiles, vectors and warps end.

use warpwave_core::{AttrValue, DType, Op, Problem, Target, TensorDesc, Valid, noise, validate};

/// How much of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Problems with operands of more elements are left out.
    pub most: u64,
    /// Every layout and dtype at every size, instead of one after the other.
    pub full: bool,
}

const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
/// M, N and K: a prime number of values, so that a Latin square lets each pair of them meet.
const MATMUL: [u64; 19] = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 129, 255, 257, 1000];

/// Elements of the tiles of a row op, read from its configs.
fn tiles(op: &dyn Op, target: Target) -> Vec<u64> {
    let field = |config: &str, name: &str| -> Option<u64> {
        let rest = &config[config.find(&format!(".{name} = "))? + name.len() + 4..];
        rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
    };
    op.variants(target).iter().filter_map(|v| Some(field(&v.config, "threads")? * field(&v.config, "chunks")? * field(&v.config, "vec")?)).collect()
}

/// Sorted sizes that cross every tile edge and power of two up to `most`.
fn widths(op: &dyn Op, target: Target, most: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..=130).collect();
    let edges = (7..=20).map(|e| 1u64 << e).chain(tiles(op, target)).chain(tiles(op, target).into_iter().map(|t| 2 * t));
    all.extend(edges.flat_map(|t| [t - 1, t, t + 1]));
    all.extend([150, 781, 1003, 1027, 2000, 4100, 65537, 98_432, 128_256, 1_000_003]);
    all.retain(|&n| n <= most);
    all.sort_unstable();
    all.dedup();
    all
}

/// A row pitch and an offset: none, unaligned, aligned.
fn padded(dtype: DType, shape: &[u64], i: usize) -> TensorDesc {
    let r = shape.len();
    let mut d = TensorDesc::contiguous(dtype, shape).with_offset([0, 1, 3, 8][i % 4]);
    if r >= 2 {
        let vec = 16 / dtype.size();
        let pitch = match i % 3 {
            0 => shape[r - 1],
            1 => shape[r - 1] + 1,
            _ => shape[r - 1].next_multiple_of(vec),
        };
        d.strides[r - 2] = pitch.max(1) as i64;
    }
    d
}

/// The grid of an op for the variants of a target; empty for an op that has none.
pub fn grid(op: &dyn Op, target: Target, size: Grid) -> Vec<Valid> {
    let signature = op.signature();
    let mut all = Vec::new();
    match signature.op {
        "vector_add" => {
            for (i, n) in widths(op, target, size.most).into_iter().enumerate() {
                for (j, dtype) in DTYPES.into_iter().enumerate().filter(|(j, _)| size.full || (i + j) % 3 == 0 || n > 1000) {
                    let mut p = Problem::new(signature);
                    for (o, spec) in signature.operands.iter().enumerate() {
                        let offset = if (i + j) % 2 == 0 { 0 } else { [0, 1, 3, 5][(i + o) % 4] };
                        p = p.with(spec.name, TensorDesc::contiguous(dtype, &[n]).with_offset(offset));
                    }
                    all.push(p);
                }
            }
        }
        "softmax" | "log_softmax" => {
            for (i, n) in widths(op, target, size.most).into_iter().enumerate() {
                for (j, dtype) in DTYPES.into_iter().enumerate().filter(|(j, _)| size.full || (i + j) % 3 == 0) {
                    let rows = if n > 1 << 15 { 2 } else { 3 + (i as u64 % 8) };
                    let layouts = if size.full { 0..3 } else { i..i + 1 };
                    for l in layouts {
                        let p = Problem::new(signature).with("x", padded(dtype, &[rows, n], l)).with("out", padded(dtype, &[rows, n], l / 3 + j));
                        all.push(p);
                    }
                }
            }
        }
        "matmul" => {
            for i in 0..MATMUL.len() * MATMUL.len() {
                let (x, y) = (i / MATMUL.len(), i % MATMUL.len());
                let (m, n, k) = (MATMUL[x], MATMUL[y], MATMUL[(x + y) % MATMUL.len()]);
                if m.max(n) * k.max(1) > size.most || m * n > size.most {
                    continue;
                }
                for t in if size.full { 0..4 } else { i % 4..i % 4 + 1 } {
                    for dtype in DTYPES[..3].iter().copied().enumerate().filter(|(j, _)| size.full || (x + 2 * y + j) % 3 == 0).map(|d| d.1) {
                        let matrix = |r: u64, c: u64, transposed: bool, i: usize| {
                            if transposed {
                                let mut d = padded(dtype, &[c, r], i);
                                d.shape.swap(0, 1);
                                d.strides.swap(0, 1);
                                d
                            } else {
                                padded(dtype, &[r, c], i)
                            }
                        };
                        let mut p = Problem::new(signature)
                            .with("a", matrix(m, k, t & 1 == 1, i + t))
                            .with("b", matrix(k, n, t & 2 == 2, i / 2 + t))
                            .with("out", matrix(m, n, i % 11 == 10, i / 3));
                        if i % 5 == 4 {
                            p = p
                                .with("c", matrix(m, n, i % 2 == 1, i))
                                .with_attr("beta", AttrValue::Float(2.0))
                                .with_attr("alpha", AttrValue::Float(-0.5));
                        }
                        if i % 7 == 6 {
                            p = p.with_attr("split_k", AttrValue::Int(1 + (i as i64 / 7) % 4));
                        }
                        all.push(p);
                    }
                }
            }
        }
        _ => {
            for (i, n) in widths(op, target, size.most).into_iter().enumerate() {
                // the short widths in turns, a different third for each op
                if !size.full && n <= 128 && !(i + signature.op.len()).is_multiple_of(3) {
                    continue;
                }
                for variation in 0..if size.full { 6 } else { 1 } {
                    let rows = if n > 1 << 15 { 2 } else { 3 + (i as u64 % 8) };
                    let mut picks = 0;
                    let mut pick = |k: usize| {
                        picks += 1;
                        if picks == 1 { (i + variation) % k } else { (noise((i + variation) as u64, picks) % k as u64) as usize }
                    };
                    let Some(mut p) = op.example(&[rows], n, &mut pick) else { break };
                    let plain = p.clone();
                    for (o, d) in p.operands.iter_mut().enumerate() {
                        if let Some(d) = d.as_mut().filter(|_| i % 4 != 3) {
                            *d = padded(d.dtype, &d.shape, i / 2 + o * (i % 2) + variation);
                        }
                    }
                    // an op that wants contiguous operands gets them
                    all.push(if validate(op, p.clone()).is_ok() { p } else { plain });
                }
            }
        }
    }
    all.into_iter().filter_map(|p| validate(op, p).ok()).collect()
}
