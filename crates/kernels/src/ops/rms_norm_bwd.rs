//! Gradients of the root mean square normalisation.

use crate::column_sum;
use crate::ops::rms_norm::{ATTRS, check_norm, example_norm, unsupported, weight_kind};
use crate::rows::{RowShape, expect, floats, launch, or_contiguous, rows_of, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, BuildSet, DType, DescError, DeviceCaps, KernelId, Op, OperandSpec, Param, Plan, Problem, Role, RowsView, Signature, Source,
    Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace,
};

mod reference;

/// Gradients of [`RmsNorm`](super::rms_norm::RmsNorm) by x and w from that by its output. With h = x / rms, g = dy · (w + shift):
/// `dx = (g - h · mean(g · h)) / rms`, `dw` = sum over rows of dy · h. Any strides; sums in float32, in an order that the shape fixes; `dx` may be
/// written over `dy` or `x`. Right also where squares of x overflow float32; products of dy with w and h must hold in it. Zhang and Sennrich, 2019.
#[derive(Clone, Copy, Debug)]
pub struct RmsNormBwd;

const SIGNATURE: Signature = Signature {
    op: "rms_norm_bwd",
    operands: &[
        OperandSpec { name: "x", role: Role::Input, doc: "[..., n]" },
        OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of x" },
        OperandSpec { name: "w", role: Role::Input, doc: "[n], of x's dtype or f32" },
        OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
        OperandSpec { name: "dw", role: Role::Output, doc: "[n], of w's dtype" },
    ],
    attrs: ATTRS,
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("w", ArgType::Rows),
    Param::new("dx", ArgType::Rows),
    Param::new("part", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("rows", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("eps", ArgType::F64),
    Param::new("inverse", ArgType::F64),
    Param::new("shift", ArgType::F32),
    Param::new("w_kind", ArgType::I32),
];

/// Shapes, and whether they hold a row. A thread has half as many elements as in the forward: it holds x, dy, w and the sums of dw.
fn shapes(dtype: DType, target: Target) -> Vec<(RowShape, bool)> {
    let vec = vec_of(dtype);
    let per = (8 / vec).max(1);
    let shape = |threads, groups, chunks| RowShape::new(threads, groups, chunks, vec);
    // with eight elements a thread it spilled on sm_100 (nvcc 13.5)
    let again = (RowShape::new(256, 1, 1, vec.min(4)), false);
    if target.vendor() == Vendor::Cpu {
        return vec![(shape(64, 1, per), true), (shape(256, 1, 2 * per), true), again];
    }
    // four chunks of f32 in blocks of 512 spilled on sm_100 (nvcc 13.5)
    let wide = shape(512, 1, if dtype == DType::F32 { 3 } else { 2 });
    vec![(shape(32, 4, 2 * per), true), (shape(128, 1, 2 * per), true), (shape(256, 1, 2 * per), true), (wide, true), again]
}

fn id(dtype: DType, (shape, hold): (RowShape, bool), target: Target) -> KernelId {
    KernelId { kernel: "rms_norm_bwd", tag: format!("{dtype}.{}.{}", shape.tag(), if hold { "hold" } else { "online" }), target }
}

fn row_variants(target: Target) -> Vec<Variant> {
    let one = |dtype: DType, (s, hold): (RowShape, bool)| {
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {hold}",
            s.threads, s.groups, s.chunks, s.vec
        );
        let set = if dtype == DType::BF16 && s.threads == 256 && hold { BuildSet::Ci } else { BuildSet::Full };
        variant(id(dtype, (s, hold), target), s, "ops/rms_norm_bwd.h", ["RmsNormBwd", "RmsNormBwdConfig"], config, set)
    };
    floats(target).iter().flat_map(|&d| shapes(d, target).into_iter().map(move |s| (d, s))).map(|(d, s)| one(d, s)).collect()
}

impl Op for RmsNormBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let (Some(x), Some(w)) = (p.operand("x").cloned(), p.operand("w").cloned()) else { return Ok(p) };
        Ok(or_contiguous(or_contiguous(p, "dx", x.dtype, &x.shape), "dw", w.dtype, &w.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        check_norm(p, &["dy", "dx"], &["w"])?;
        let Some(w) = p.operand("w") else { return Ok(()) };
        expect(p, "dw", &[w.dtype], &w.shape)
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(dw), Some(index)) = (p.operand("x"), p.operand("dw"), p.index("dw")) else { return Ok(Vec::new()) };
        if dw.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(unsupported(p, x.dtype, caps.target));
        }
        let out = RowsView { buffer: Some(warpwave_core::Buffer::Operand(index)), stride: dw.strides[0], outer: [0; 3] };
        if x.is_empty() {
            // a sum of no rows
            let mut workspace = Workspace::default();
            let steps = column_sum::steps(None, 0, dw.len(), out, dw.dtype, caps.target, &mut workspace);
            return Ok(vec![Plan { tag: "no rows".into(), target: caps.target, steps, workspace }]);
        }
        let names = ["x", "dy", "w", "dx"];
        let Ok((space, views)) = rows_of(p, &names, false) else { return Ok(Vec::new()) };
        let per = column_sum::rows_per_part(space.rows(), space.n);
        let parts = space.rows().div_ceil(per);
        let plan = |way: (RowShape, bool)| {
            let mut workspace = Workspace::default();
            let part = workspace.push("part", parts * space.n * x.dtype.accumulator().size());
            let mut args: Vec<_> = names.into_iter().zip(views.iter().cloned().map(Arg::Rows)).collect();
            args.extend([
                ("part", Arg::Rows(RowsView { buffer: Some(part), stride: 1, outer: [0, 0, space.n as i64] })),
                ("space", Arg::Space(space.clone())),
                ("rows", Arg::I64(space.rows() as i64)),
                ("per", Arg::I64(per as i64)),
                ("programs", Arg::I64(parts as i64)),
                ("eps", Arg::F64(p.float("eps"))),
                ("inverse", Arg::F64(1.0 / space.n as f64)),
                ("shift", Arg::F32(p.float("shift") as f32)),
                ("w_kind", Arg::I32(weight_kind(p, "w", x.dtype))),
            ]);
            let id = id(x.dtype, way, caps.target);
            let tag = id.tag.clone();
            let mut steps = vec![Step::Launch(launch(id, way.0, parts, 1, args))];
            steps.extend(column_sum::steps(Some(part), parts, space.n, out.clone(), dw.dtype, caps.target, &mut workspace));
            Plan { tag, target: caps.target, steps, workspace }
        };
        // a row of parts begins anywhere: only where its width is a multiple of 16 bytes do all begin on one
        let lead = 16 / x.dtype.accumulator().size();
        let need = if space.n.is_multiple_of(lead) { space.n } else { space.n + lead - 1 };
        Ok(shapes(x.dtype, caps.target).into_iter().filter(|(s, hold)| !hold || need <= s.tile()).map(plan).collect())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        [row_variants(target), column_sum::variants(target)].concat()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        match kernel {
            "rms_norm_bwd" => PARAMS,
            "column_sum" => column_sum::PARAMS,
            _ => &[],
        }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn in_place(&self, _: &Problem, output: usize, input: usize) -> bool {
        output == 3 && input < 2
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_norm(Problem::new(SIGNATURE), outer, n, &["x", "dy", "dx"], &["w"], pick);
        let dtype = p.operand("w").or(p.operand("x")).map_or(DType::F32, |d| d.dtype);
        let p = ["w", "dw"].into_iter().fold(p, |p, name| p.with(name, TensorDesc::contiguous(dtype, &[n])));
        Some(p.with_attr("shift", [0.0, 1.0][pick(2)].into()))
    }
}
