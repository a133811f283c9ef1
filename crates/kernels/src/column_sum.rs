//! The steps that add rows of partial sums, in order: what the gradient of a weight ends with.

use crate::rows::{RowShape, floats, launch, variant};
use warpwave_core::{Arg, ArgType, Buffer, BuildSet, DType, KernelId, Param, RowSpace, RowsView, Step, Target, Variant, Workspace};

pub(crate) const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("rows", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("stretches", ArgType::I64),
    Param::new("programs", ArgType::I64),
];

/// A lane for each column: the rows are few, so the columns must fill the device.
const SHAPE: RowShape = RowShape::new(32, 2, 1, 1);

/// Rows that one program adds; with more, their sums are added by another step.
const PER: u64 = 256;

fn id(out: DType, target: Target) -> KernelId {
    KernelId { kernel: "column_sum", tag: format!("{out}.{}", SHAPE.tag()), target }
}

/// One kernel for each dtype of a sum that is written.
pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let one = |out: DType| {
        let config = format!(
            ".out = ww::dtype::{out}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}",
            SHAPE.threads, SHAPE.groups, SHAPE.chunks, SHAPE.vec
        );
        // the float32 one adds parts for every dtype
        let set = if matches!(out, DType::BF16 | DType::F32) { BuildSet::Ci } else { BuildSet::Full };
        variant(id(out, target), SHAPE, "ops/column_sum.h", ["ColumnSum", "ColumnSumConfig"], config, set)
    };
    floats(target).iter().copied().map(one).collect()
}

/// Sums the columns of `rows` × `n` values in the accumulator of `dtype` (none where rows = 0) into `out`.
pub(crate) fn steps(mut x: Option<Buffer>, mut rows: u64, n: u64, out: RowsView, dtype: DType, target: Target, space: &mut Workspace) -> Vec<Step> {
    let acc = dtype.accumulator();
    let mut steps = Vec::new();
    loop {
        let last = rows <= PER;
        let slices = if last { 1 } else { rows.div_ceil(PER) };
        let (to, to_dtype) = if last {
            (out.clone(), dtype)
        } else {
            let buffer = space.push("sums", slices * n * acc.size());
            (RowsView { buffer: Some(buffer), stride: 1, outer: [0, 0, n as i64] }, acc)
        };
        let next = to.buffer;
        let stretches = n.div_ceil(SHAPE.tile());
        let programs = slices * stretches;
        let args = vec![
            ("x", Arg::Rows(RowsView { buffer: x, stride: 1, outer: [0, 0, n as i64] })),
            ("out", Arg::Rows(to)),
            ("space", Arg::Space(RowSpace { n, outer: [1, 1, slices] })),
            ("rows", Arg::I64(rows as i64)),
            ("per", Arg::I64(PER as i64)),
            ("stretches", Arg::I64(stretches as i64)),
            ("programs", Arg::I64(programs as i64)),
        ];
        steps.push(Step::Launch(launch(id(to_dtype, target), SHAPE, programs, 1, args)));
        if last {
            return steps;
        }
        (x, rows) = (next, slices);
    }
}
