//! The gradient of cross entropy by the logits.

use crate::ops::cross_entropy::{
    ATTRS, check_common, example_common, indices, labels, one_row, per_row, reference as forward, sample_common, unsupported,
};
use crate::row_total;
use crate::rows::{RowShape, expect, floats, launch, max_lead, or_contiguous, rows_of, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, Buffer, BuildSet, DType, DescError, DeviceCaps, Family, Indices, KernelId, Op, OperandSpec, Param, Plan, Problem, Role,
    RowsView, Rule, Signature, Source, Step, Target, Unsupported, Valid, Variant, Workspace, noise, normal, unit,
};

mod reference;

/// Gradient of [`CrossEntropy`](super::cross_entropy::CrossEntropy) by the logits, from its `lse`. With s = dloss over the sum of the labels'
/// weights and c = dloss over the number of rows that count (dloss itself unless the loss is a mean), e the smoothing, W = sum w:
/// `dx = exp(logits - lse) · (s · ((1 - e) · w_y + e/V · W) + 2 · z_loss · lse · c) - s · e/V · w`, less `s · (1 - e) · w_y` at the label.
/// A row that does not count gives 0. Reads the logits once; `dx` may be written over them.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyBwd;

const SIGNATURE: Signature = Signature {
    op: "cross_entropy_bwd",
    operands: &[
        OperandSpec { name: "logits", role: Role::Input, doc: "[rows, V]" },
        OperandSpec { name: "labels", role: Role::Input, doc: "[rows], i32 or i64" },
        OperandSpec { name: "lse", role: Role::Input, doc: "[rows], of the type of the sums: what the forward gave" },
        OperandSpec { name: "dloss", role: Role::Input, doc: "[1] or [rows], of the type of the sums: the gradient by the loss" },
        OperandSpec { name: "weight", role: Role::OptionalInput, doc: "[V], of the type of the sums: weights of the classes" },
        OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of logits" },
    ],
    attrs: ATTRS,
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("labels", ArgType::Index),
    Param::new("lse", ArgType::Rows),
    Param::new("dloss", ArgType::Rows),
    Param::new("w", ArgType::Rows),
    Param::new("dx", ArgType::Rows),
    Param::new("total", ArgType::Pointer),
    Param::new("weights", ArgType::Pointer),
    Param::new("error", ArgType::Pointer),
    Param::new("space", ArgType::Space),
    Param::new("stretches", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("ignore", ArgType::I64),
    Param::new("smoothing", ArgType::F64),
    Param::new("z", ArgType::F64),
    Param::new("operand", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const TOTAL_PARAMS: &[Param] = &[
    Param::new("labels", ArgType::Index),
    Param::new("w", ArgType::Rows),
    Param::new("out", ArgType::Pointer),
    Param::new("rows", ArgType::I64),
    Param::new("per", ArgType::I64),
    Param::new("n", ArgType::I64),
    Param::new("ignore", ArgType::I64),
    Param::new("out_stride", ArgType::I64),
    Param::new("programs", ArgType::I64),
];

/// Four accesses of a row under way a thread, with smoothing two, as weights may join them; a warp for short rows and small problems.
fn shapes(dtype: DType, smooth: bool) -> [RowShape; 2] {
    let vec = vec_of(dtype);
    [RowShape::new(128, 1, if smooth { 2 } else { 4 }, vec), RowShape::new(32, 4, 2, vec)]
}

/// Of the step that looks at the labels.
const TOTAL: RowShape = RowShape::new(512, 1, 1, 4);
/// Labels that one program of it takes.
const PER: u64 = 1 << 14;

fn id(dtype: DType, shape: RowShape, smooth: bool, target: Target) -> KernelId {
    KernelId { kernel: "cross_entropy_bwd", tag: format!("{dtype}.{}{}", shape.tag(), if smooth { ".smooth" } else { "" }), target }
}

fn total_id(dtype: DType, target: Target) -> KernelId {
    KernelId { kernel: "label_total", tag: format!("{dtype}.{}", TOTAL.tag()), target }
}

fn row_variants(target: Target) -> Vec<Variant> {
    let fields = |dtype: DType, s: RowShape| {
        format!(".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}", s.threads, s.groups, s.chunks, s.vec)
    };
    let mut all = Vec::new();
    for &dtype in floats(target) {
        for (smooth, s) in [false, true].into_iter().flat_map(|smooth| shapes(dtype, smooth).map(|s| (smooth, s))) {
            let set = if dtype == DType::BF16 && s.groups == 1 && !smooth { BuildSet::Ci } else { BuildSet::Full };
            let names = ["CrossEntropyBwd", "CrossEntropyBwdConfig"];
            let config = format!("{}, .smooth = {smooth}", fields(dtype, s));
            all.push(variant(id(dtype, s, smooth, target), s, "ops/cross_entropy_bwd.h", names, config, set));
        }
    }
    for &dtype in row_total::sums(target) {
        let set = if dtype == DType::F32 { BuildSet::Ci } else { BuildSet::Full };
        let names = ["LabelTotal", "LabelTotalConfig"];
        all.push(variant(total_id(dtype, target), TOTAL, "ops/cross_entropy.h", names, fields(dtype, TOTAL), set));
    }
    all
}

/// The steps that find the sum of the labels' weights and the number of rows that count.
fn total_steps(p: &Problem, rows: u64, n: u64, acc: DType, target: Target, workspace: &mut Workspace) -> (Buffer, Vec<Step>) {
    let slices = rows.div_ceil(PER);
    let parts = workspace.push("labels", 2 * slices * acc.size());
    let args = vec![
        ("labels", Arg::Index(labels(p))),
        ("w", Arg::Rows(one_row(p, "weight"))),
        ("out", Arg::Pointer(Some(parts))),
        ("rows", Arg::I64(rows as i64)),
        ("per", Arg::I64(PER as i64)),
        ("n", Arg::I64(n as i64)),
        ("ignore", Arg::I64(p.int("ignore_index"))),
        ("out_stride", Arg::I64(slices as i64)),
        ("programs", Arg::I64(slices as i64)),
    ];
    let mut steps = vec![Step::Launch(launch(total_id(acc, target), TOTAL, slices, 1, args))];
    if slices == 1 {
        return (parts, steps);
    }
    let out = workspace.push("total", 2 * acc.size());
    let x = RowsView { buffer: Some(parts), stride: 1, outer: [0; 3] };
    steps.extend(row_total::steps((x, slices, slices), 2, false, out, acc, target, workspace));
    (out, steps)
}

impl Op for CrossEntropyBwd {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("logits").cloned() else { return Ok(p) };
        Ok(or_contiguous(p, "dx", x.dtype, &x.shape))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let (Some((rows, n, acc)), Some(x), Some(dloss)) = (check_common(p)?, p.operand("logits"), p.operand("dloss")) else { return Ok(()) };
        expect(p, "lse", &[acc], &[rows])?;
        let each = p.choice("reduction") == "none";
        if !(dloss.shape == [1] || each && dloss.shape == [rows]) {
            let expected = if each { format!("[1] or [{rows}]") } else { "[1]".into() };
            return Err(DescError { operand: "dloss", rule: Rule::ShapeMatches, got: dloss.to_string(), expected });
        }
        expect(p, "dloss", &[acc], &dloss.shape)?;
        expect(p, "dx", &[x.dtype], &[rows, n])
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(dx)) = (p.operand("logits"), p.operand("dx")) else { return Ok(Vec::new()) };
        if dx.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(unsupported(p, x.dtype, caps.target));
        }
        let acc = x.dtype.accumulator();
        let Ok((space, views)) = rows_of(p, &["logits", "dx"], false) else { return Ok(Vec::new()) };
        let (rows, n) = (x.shape[0], x.shape[1]);
        let lead = max_lead(dx, &views[1], &space);
        let smooth = p.float("label_smoothing") != 0.0;
        let mut shapes = shapes(x.dtype, smooth);
        // small ones: more blocks, so that every multiprocessor has some; and short rows
        if n < shapes[0].tile() || n * rows < u64::from(caps.units) * 8 * shapes[0].tile() {
            shapes.reverse();
        }
        let plan = |shape: RowShape| {
            let (mut workspace, mut steps) = (Workspace::default(), Vec::new());
            let mut total = None;
            if p.choice("reduction") == "mean" {
                let (buffer, more) = total_steps(p, rows, n, acc, caps.target, &mut workspace);
                total = Some(buffer);
                steps.extend(more);
            }
            let mut weights = None;
            if p.operand("weight").is_some() && smooth {
                let buffer = workspace.push("weights", acc.size());
                weights = Some(buffer);
                steps.extend(row_total::steps((one_row(p, "weight"), n, 0), 1, false, buffer, acc, caps.target, &mut workspace));
            }
            let stretches = (n + lead).div_ceil(shape.tile());
            let programs = rows * stretches;
            let args = vec![
                ("x", Arg::Rows(views[0].clone())),
                ("labels", Arg::Index(labels(p))),
                ("lse", Arg::Rows(per_row(p, "lse", rows))),
                ("dloss", Arg::Rows(per_row(p, "dloss", rows))),
                ("w", Arg::Rows(one_row(p, "weight"))),
                ("dx", Arg::Rows(views[1].clone())),
                ("total", Arg::Pointer(total)),
                ("weights", Arg::Pointer(weights)),
                ("error", Arg::Pointer(Some(Buffer::Error))),
                ("space", Arg::Space(space.clone())),
                ("stretches", Arg::I64(stretches as i64)),
                ("programs", Arg::I64(programs as i64)),
                ("ignore", Arg::I64(p.int("ignore_index"))),
                ("smoothing", Arg::F64(p.float("label_smoothing"))),
                ("z", Arg::F64(p.float("z_loss"))),
                ("operand", Arg::I32(1)),
                ("reserved", Arg::I32(0)),
            ];
            steps.push(Step::Launch(launch(id(x.dtype, shape, smooth, caps.target), shape, programs, 1, args)));
            Plan { tag: shape.tag(), target: caps.target, steps, workspace }
        };
        Ok(shapes.map(plan).into())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        [row_variants(target), row_total::variants(target)].concat()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        match kernel {
            "cross_entropy_bwd" => PARAMS,
            "label_total" => TOTAL_PARAMS,
            "row_total" => row_total::PARAMS,
            _ => &[],
        }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn in_place(&self, _: &Problem, _: usize, input: usize) -> bool {
        input == 0
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_common(SIGNATURE, outer, n, pick);
        let x = p.operand("logits")?.clone();
        let (acc, rows) = (x.dtype.accumulator(), x.shape[0]);
        let losses = if p.choice("reduction") == "none" && pick(2) == 0 { rows } else { 1 };
        let p = or_contiguous(or_contiguous(p, "lse", acc, &[rows]), "dloss", acc, &[losses]);
        Some(or_contiguous(p, "dx", x.dtype, &x.shape))
    }

    fn sample(&self, p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        let bits = noise(seed, i);
        match (p.signature.operands[operand].name, family) {
            ("lse", Family::Nonfinite) if bits.is_multiple_of(64) => Some(f64::NAN),
            // so large that no exponential overflows
            ("lse", _) => Some((p.operand("logits")?.shape[1].max(1) as f64).ln() + 4.0 + unit(seed, i)),
            ("dloss", Family::Extreme) => Some(normal(seed, i) * f64::powi(2.0, (bits % 25) as i32 - 12)),
            _ => sample_common(p, operand, family, seed, i, 4.0),
        }
    }

    fn indices(&self, p: &Problem, operand: usize) -> Option<Indices> {
        indices(p, operand)
    }
}
