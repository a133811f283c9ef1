//! The step that adds the elements of a few rows, in a fixed order: what a loss over all rows ends with.

use crate::rows::{RowShape, launch, variant};
use warpwave_core::{Arg, ArgType, Buffer, BuildSet, DType, KernelId, Param, RowsView, Step, Target, Variant, Vendor, Workspace};

pub(crate) const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Pointer),
    Param::new("n", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("out_stride", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("count", ArgType::I32),
    Param::new("quotient", ArgType::I32),
];

const SHAPE: RowShape = RowShape::new(512, 1, 4, 4);

/// Elements of a row that one program adds; with more, their sums are added by another step.
const PER: u64 = 1 << 16;

fn id(dtype: DType, target: Target) -> KernelId {
    KernelId { kernel: "row_total", tag: format!("{dtype}.{}", SHAPE.tag()), target }
}

/// The types that sums are kept in on a target.
pub(crate) fn sums(target: Target) -> &'static [DType] {
    if target.vendor() == Vendor::Cpu { &[DType::F32, DType::F64] } else { &[DType::F32] }
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let one = |dtype: &DType| {
        let config = format!(".type = ww::dtype::{dtype}, .threads = {}, .chunks = {}, .vec = {}", SHAPE.threads, SHAPE.chunks, SHAPE.vec);
        let set = if *dtype == DType::F32 { BuildSet::Ci } else { BuildSet::Full };
        variant(id(*dtype, target), SHAPE, "ops/row_total.h", ["RowTotal", "RowTotalConfig"], config, set)
    };
    sums(target).iter().map(one).collect()
}

/// Adds the `n` elements of each of `count` rows of `x`, `pitch` apart (which may be 0 where there is one), to `out`: a sum for each, or with
/// `quotient` one number: row 0 by row 1, and with four rows row 2 by row 3 added to it; 0 for a denominator of 0.
pub(crate) fn steps(
    (mut x, mut n, mut pitch): (RowsView, u64, u64),
    count: u64,
    quotient: bool,
    out: Buffer,
    dtype: DType,
    target: Target,
    space: &mut Workspace,
) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        let slices = n.div_ceil(PER).max(1);
        let last = slices == 1;
        let to = if last { out } else { space.push("sums", count * slices * dtype.size()) };
        let args = vec![
            ("x", Arg::Rows(RowsView { outer: [0, 0, pitch as i64], ..x })),
            ("out", Arg::Pointer(Some(to))),
            ("n", Arg::I64(n as i64)),
            ("per", Arg::I64(PER as i64)),
            ("out_stride", Arg::I64(slices as i64)),
            ("programs", Arg::I64(slices as i64)),
            ("count", Arg::I32(count as i32)),
            ("quotient", Arg::I32((quotient && last).into())),
        ];
        steps.push(Step::Launch(launch(id(dtype, target), SHAPE, slices, 1, args)));
        if last {
            return steps;
        }
        (x, n, pitch) = (RowsView { buffer: Some(to), stride: 1, outer: [0; 3] }, slices, slices);
    }
}
