//! Transpose of matrices.

use crate::ops::cast;
use crate::pointwise::layout;
use crate::rows::{EXAMPLES, RowShape, expect, floats, launch, operand, or_contiguous, variant};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, Buffer, BuildSet, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role, RowSpace, RowsView, Rule,
    Signature, Source, Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace, collapse_rows,
};

mod reference;

/// `out[..., c, r] = x[..., r, c]`: the last two dimensions swapped, of any batch, bit for bit: f32, f16, bf16 (f64 on the CPU), any strides under
/// which the dimensions of the batch collapse to two. Not in place.
///
/// Fast where the last dimension of x and that of out have stride 1: square tiles through shared memory, 16 bytes an access on both sides where
/// rows begin on 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Transpose;

const SIGNATURE: Signature = Signature {
    op: "transpose",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., rows, cols]" },
        OperandSpec { name: "out", role: Role::Output, doc: "[..., cols, rows], the dtype of x" },
    ],
    attrs: &[],
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("tiles_m", ArgType::I64),
    Param::new("tiles_n", ArgType::I64),
    Param::new("programs", ArgType::I64),
];

const THREADS: u32 = 256;

/// Sides of the tile for elements of some bytes: rows of 256 bytes for large matrices, of 128 for small ones.
fn sides(bytes: u64) -> [u32; 2] {
    if bytes == 2 { [128, 64] } else { [64, 32] }
}

fn id(bytes: u64, side: u32, target: Target) -> KernelId {
    KernelId { kernel: "transpose", tag: format!("w{bytes}.{side}x{side}"), target }
}

/// x with its last two dimensions as out has them.
fn swapped(p: &Problem) -> Option<Problem> {
    let mut q = p.clone();
    let x = q.operands[p.index("x")?].as_mut()?;
    let rank = x.rank();
    x.shape.swap(rank - 2, rank - 1);
    x.strides.swap(rank - 2, rank - 1);
    Some(q)
}

/// The batch of x and out as two dimensions: extents and strides.
fn batch(x: &TensorDesc, out: &TensorDesc) -> Result<(RowSpace, Vec<RowsView>), DescError> {
    let only_batch = |d: &TensorDesc| {
        let mut d = d.clone();
        d.shape.truncate(d.shape.len() - 2);
        d.strides.truncate(d.shape.len());
        d.shape.push(1);
        d.strides.push(1);
        d
    };
    let (a, b) = (only_batch(x), only_batch(out));
    let refused = |e: Option<DescError>| DescError {
        operand: "x",
        rule: Rule::CollapsesToPlanes,
        got: e.map_or_else(|| format!("x={x} out={out}"), |e| e.got),
        expected: "two dimensions of the batch or fewer, after merging those that one stride describes".into(),
    };
    let (space, views) = collapse_rows(&[operand("x", &a), operand("out", &b)], a.rank() - 1, false).map_err(|e| refused(Some(e)))?;
    if space.outer[0] > 1 { Err(refused(None)) } else { Ok((space, views)) }
}

impl Op for Transpose {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("x").filter(|x| x.rank() >= 2).cloned() else { return Ok(p) };
        let mut shape = x.shape;
        let rank = shape.len();
        shape.swap(rank - 2, rank - 1);
        Ok(or_contiguous(p, "out", x.dtype, &shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Ok(()) };
        let rank = x.rank();
        if rank < 2 {
            return Err(DescError { operand: "x", rule: Rule::RankAtLeast, got: x.to_string(), expected: "two dimensions or more".into() });
        }
        let mut shape = x.shape.clone();
        shape.swap(rank - 2, rank - 1);
        expect(p, "x", floats(Target::Host32), &x.shape)?;
        expect(p, "out", &[x.dtype], &shape)?;
        batch(x, out).map(|_| ())
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(out)) = (p.operand("x"), p.operand("out")) else { return Ok(Vec::new()) };
        if out.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(Unsupported { op: "transpose", target: caps.target, what: format!("no kernel for {}", x.dtype) });
        }
        let (Ok((planes, views)), bytes, rank) = (batch(x, out), x.dtype.size(), x.rank()) else { return Ok(Vec::new()) };
        let (rows, cols) = (x.shape[rank - 2], x.shape[rank - 1]);
        let view = |i: usize, d: &TensorDesc| RowsView {
            buffer: Some(Buffer::Operand(i)),
            stride: d.strides[rank - 1],
            outer: [views[i].outer[1], views[i].outer[2], d.strides[rank - 2]],
        };
        let space = RowSpace { n: cols, outer: [planes.outer[1], planes.outer[2], rows] };
        let count = planes.rows();
        let tiled = |side: u32| {
            let [tiles_m, tiles_n] = [rows, cols].map(|n| n.div_ceil(side.into()));
            // tiles of a plane are numbered in 32 bits
            let programs = tiles_m.checked_mul(tiles_n).filter(|&n| n < 1 << 31)?.checked_mul(count)?;
            let args = vec![
                ("x", Arg::Rows(view(0, x))),
                ("out", Arg::Rows(view(1, out))),
                ("space", Arg::Space(space.clone())),
                ("tiles_m", Arg::I64(tiles_m as i64)),
                ("tiles_n", Arg::I64(tiles_n as i64)),
                ("programs", Arg::I64(programs as i64)),
            ];
            let step = launch(id(bytes, side, caps.target), RowShape::new(THREADS, 1, 1, 1), programs, 1, args);
            Some(Plan { tag: format!("{side}x{side}"), target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() })
        };
        let mut sides: Vec<u32> = variant_sides(bytes, caps.target);
        let large = u64::from(sides[0]);
        // few tiles leave multiprocessors idle at the end
        if rows.div_ceil(large) * cols.div_ceil(large) * count < u64::from(caps.units) * 12 {
            sides.reverse();
        }
        let mut plans: Vec<Plan> = sides.into_iter().filter_map(tiled).collect();
        let by_rows = swapped(p).and_then(|q| layout(&q, &["x", "out"], "out", false).ok());
        if let Some(by_rows) = by_rows {
            let tiles_fit = x.strides[rank - 1] == 1 && out.strides[rank - 1] == 1 && rows.min(cols) >= 16;
            let at = if tiles_fit { plans.len() } else { 0 };
            plans.splice(at..at, cast::by_rows(p, caps, x.dtype, out.dtype, by_rows)?);
        }
        Ok(plans)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        let mut all = cast::Cast.variants(target);
        for bytes in [2, 4, 8] {
            for side in variant_sides(bytes, target) {
                let config = format!(".bytes = {bytes}, .threads = {THREADS}, .side = {side}");
                let set = if bytes == 2 && side == 64 { BuildSet::Ci } else { BuildSet::Full };
                let names = ["Transpose", "TransposeConfig"];
                all.push(variant(id(bytes, side, target), RowShape::new(THREADS, 1, 1, 1), "ops/transpose.h", names, config, set));
            }
        }
        all
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        if kernel == "transpose" { PARAMS } else { &[] }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let dtype = EXAMPLES[pick(EXAMPLES.len())];
        let mut shape = [if outer.is_empty() { &[1][..] } else { outer }, &[n]].concat();
        let rank = shape.len();
        if pick(2) == 1 {
            shape.swap(rank - 2, rank - 1);
        }
        let x = TensorDesc::contiguous(dtype, &shape);
        shape.swap(rank - 2, rank - 1);
        Some(Problem::new(SIGNATURE).with("x", x).with("out", TensorDesc::contiguous(dtype, &shape)))
    }

    fn exact(&self, _: &Problem) -> bool {
        true
    }
}

/// The sides that a target has kernels of: one on the host, whose float64 it alone has.
fn variant_sides(bytes: u64, target: Target) -> Vec<u32> {
    match (target.vendor() == Vendor::Cpu, bytes) {
        (true, _) => vec![64],
        (false, 8) => Vec::new(),
        (false, _) => sides(bytes).into(),
    }
}
