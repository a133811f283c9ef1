//! Problems from a source of bytes: ragged shapes, odd offsets, strides of every kind.

use arbitrary::{Result, Unstructured};
use warpwave_core::{AttrValue, DType, Op, Problem, Role, TensorDesc, Valid, validate};

/// Around the sizes of warps, tiles and vectors, and some primes.
const EXTENTS: [u64; 32] =
    [1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 47, 48, 49, 61, 63, 64, 65, 95, 97, 127, 128, 129, 191, 193, 251, 255, 256, 257];
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

fn extent(u: &mut Unstructured<'_>, most: u64) -> Result<u64> {
    Ok(match u.int_in_range(0..=31u8)? {
        0 => 0,
        1..=4 => 1,
        5..=20 => (*u.choose(&EXTENTS)?).min(most),
        _ => u.int_in_range(1..=most.max(1))?,
    })
}

/// Some way to lay out a tensor: contiguous, padded, permuted, stretched, for inputs repeated; at an odd offset or none.
fn layout(u: &mut Unstructured<'_>, dtype: DType, shape: &[u64], role: Role) -> Result<TensorDesc> {
    let mut desc = TensorDesc::contiguous(dtype, shape);
    let rank = shape.len();
    let kind = u.int_in_range(0..=9u8)?;
    if rank > 0 && kind >= 3 {
        // from the fastest dimension on, in some order, with some padding
        let mut order: Vec<usize> = (0..rank).rev().collect();
        if matches!(kind, 5 | 6) && rank > 1 {
            let a = u.int_in_range(0..=rank - 1)?;
            order.swap(0, a);
        }
        let mut pitch = if kind == 7 { u.int_in_range(1..=3)? } else { 1i64 };
        for &d in &order {
            desc.strides[d] = pitch;
            let pad = match kind {
                3 | 6 => u.int_in_range(0..=9)?,
                4 => (-pitch * shape[d].max(1) as i64).rem_euclid((16 / dtype.size()) as i64),
                _ => 0,
            };
            pitch = pitch * shape[d].max(1) as i64 + pad;
        }
        if kind >= 8 && role != Role::Output {
            desc.strides[u.int_in_range(0..=rank - 1)?] = 0;
        }
    }
    if u.ratio(1, 2)? {
        desc.offset = u.int_in_range(0..=17)?;
    }
    Ok(desc)
}

/// A problem of `op` with about `most` elements in its largest operand at most; `None` for an op that has no generator.
///
/// # Errors
/// The bytes ran out.
pub fn problem(op: &dyn Op, u: &mut Unstructured<'_>, most: u64) -> Result<Option<Valid>> {
    let signature = op.signature();
    let mut p = Problem::new(signature);
    // float64 is the host's, and not for products
    let dtype = *u.choose(if signature.op == "matmul" { &DTYPES[..3] } else { &DTYPES })?;
    match signature.op {
        "vector_add" | "softmax" | "log_softmax" => {
            let rank = u.int_in_range(1..=4usize)?;
            let mut left = most;
            let mut shape = Vec::new();
            for _ in 0..rank {
                let n = extent(u, left.max(1))?;
                left /= n.max(1);
                shape.push(n);
            }
            if u.ratio(1, 2)? {
                shape.reverse();
            }
            if signature.op != "vector_add" {
                let axis = if u.ratio(1, 4)? { u.int_in_range(-(rank as i64)..=rank as i64 - 1)? } else { -1 };
                p = p.with_attr("axis", AttrValue::Int(axis));
                // the host walks a whole tile for each row: many rows of few elements would take all the time
                let axis = axis.rem_euclid(rank as i64) as usize;
                let mut left = (most / 64).max(16);
                for (_, n) in shape.iter_mut().enumerate().filter(|(d, _)| *d != axis) {
                    *n = (*n).min(left);
                    left = (left / (*n).max(1)).max(1);
                }
            }
            for spec in signature.operands {
                p = p.with(spec.name, layout(u, dtype, &shape, spec.role)?);
            }
        }
        "matmul" => {
            let side = (most as f64).sqrt() as u64;
            let (m, n) = (extent(u, side)?, extent(u, side)?);
            let k = extent(u, (most / m.max(n).max(1)).min(4 * side))?;
            let lead: Vec<u64> = match u.int_in_range(0..=5u8)? {
                0 => vec![u.int_in_range(0..=3)?],
                1 => vec![u.int_in_range(1..=2)?, u.int_in_range(1..=3)?],
                _ => Vec::new(),
            };
            let shape = |r: u64, c: u64| lead.iter().copied().chain([r, c]).collect::<Vec<_>>();
            for (name, s) in [("a", shape(m, k)), ("b", shape(k, n)), ("out", shape(m, n))] {
                let role = if name == "out" { Role::Output } else { Role::Input };
                p = p.with(name, layout(u, dtype, &s, role)?);
            }
            const FACTORS: [f64; 6] = [1.0, 2.0, -1.0, 0.5, 0.0, 0.37];
            if u.ratio(1, 3)? {
                p = p.with_attr("alpha", AttrValue::Float(*u.choose(&FACTORS)?));
            }
            if u.ratio(1, 3)? {
                p = p.with("c", layout(u, dtype, &shape(m, n), Role::Input)?).with_attr("beta", AttrValue::Float(*u.choose(&FACTORS)?));
            }
            if u.ratio(1, 4)? {
                p = p.with_attr("split_k", AttrValue::Int(u.int_in_range(0..=7)?));
            }
        }
        _ => {
            let n = extent(u, most)?;
            // many rows of few elements would take all the time of a host that walks whole tiles
            let mut left = (most / n.max(1)).min((most / 64).max(16));
            let mut outer = Vec::new();
            for _ in 0..u.int_in_range(0..=3usize)? {
                let d = extent(u, left.max(1))?;
                left /= d.max(1);
                outer.push(d);
            }
            let mut failed = None;
            let mut pick = |k: usize| {
                u.int_in_range(0..=k.max(1) - 1).unwrap_or_else(|e| {
                    failed = Some(e);
                    0
                })
            };
            let example = op.example(&outer, n, &mut pick);
            if let Some(e) = failed {
                return Err(e);
            }
            let Some(example) = example else { return Ok(None) };
            p = example;
            for (spec, d) in signature.operands.iter().zip(&mut p.operands) {
                if let Some(d) = d {
                    *d = layout(u, d.dtype, &d.shape, spec.role)?;
                }
            }
        }
    }
    Ok(legalise(op, p))
}

/// The problem itself if it is valid, otherwise with all operands contiguous.
fn legalise(op: &dyn Op, p: Problem) -> Option<Valid> {
    validate(op, p.clone()).ok().or_else(|| {
        let mut p = p;
        for d in p.operands.iter_mut().flatten() {
            *d = TensorDesc::contiguous(d.dtype, &d.shape).with_offset(d.offset);
        }
        validate(op, p).ok()
    })
}
