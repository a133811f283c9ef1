//! Cross entropy of rows of logits, and what its gradient shares with it.

use crate::row_total;
use crate::rows::{EXAMPLES, RowShape, expect, floats, launch, or_contiguous, rows_of, variant, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, Family, IndexView, Indices, KernelId, Op, OperandSpec,
    Param, Plan, Problem, Role, RowsView, Rule, Signature, Source, Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace, noise,
    normal, unit,
};

pub(in crate::ops) mod reference;

/// Cross entropy with `lse = log sum exp logits` of a row, y its label, w the weights of the classes (1 without them), e the smoothing:
/// `loss = (1 - e) · w_y · (lse - logits_y) + e/V · sum w · (lse - logits) + z_loss · lse²`.
///
/// logits are f32, f16, bf16 (on the CPU f64), any strides; labels i32 or i64; the others of the type of the sums, f32 (f64 for f64).
/// `reduction`: none gives a loss for each row; sum adds them; mean divides by the sum of the labels' weights (the z-loss by the number of rows
/// that count), and is 0 where no row counts. A row whose label is `ignore_index` does not count: loss 0, lse 0, its logits are not read. Nor does
/// one whose label is out of range, which is reported to the queue. Sums are in an order that the shape fixes.
/// Milakov and Gimelshein, 2018 (one pass); Szegedy et al., 2016 (smoothing); de Brébisson and Vincent, 2016 (z-loss).
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy;

/// Attributes of both ops.
pub(crate) const ATTRS: &[AttrSpec] = &[
    AttrSpec { name: "ignore_index", kind: AttrKind::Int { default: -100, min: i64::MIN, max: i64::MAX }, doc: "label of rows that do not count" },
    AttrSpec { name: "label_smoothing", kind: AttrKind::Float { default: 0.0 }, doc: "share of the target that all classes have, 0 to 1" },
    AttrSpec { name: "z_loss", kind: AttrKind::Float { default: 0.0 }, doc: "factor of the square of lse, 0 or more" },
    AttrSpec {
        name: "reduction",
        kind: AttrKind::Choice { default: "mean", all: &["mean", "sum", "none"] },
        doc: "of the rows' losses: their mean, their sum, or none",
    },
];

const SIGNATURE: Signature = Signature {
    op: "cross_entropy",
    operands: &[
        OperandSpec { name: "logits", role: Role::Input, doc: "[rows, V]" },
        OperandSpec { name: "labels", role: Role::Input, doc: "[rows], i32 or i64" },
        OperandSpec { name: "weight", role: Role::OptionalInput, doc: "[V], of the type of the sums: weights of the classes" },
        OperandSpec { name: "loss", role: Role::Output, doc: "[1], with reduction=none [rows], of the type of the sums" },
        OperandSpec { name: "lse", role: Role::Output, doc: "[rows], of the type of the sums: what the gradient reads" },
    ],
    attrs: ATTRS,
};

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("labels", ArgType::Index),
    Param::new("w", ArgType::Rows),
    Param::new("loss", ArgType::Rows),
    Param::new("lse", ArgType::Rows),
    Param::new("part", ArgType::Pointer),
    Param::new("error", ArgType::Pointer),
    Param::new("space", ArgType::Space),
    Param::new("programs", ArgType::I64),
    Param::new("pitch", ArgType::I64),
    Param::new("ignore", ArgType::I64),
    Param::new("smoothing", ArgType::F64),
    Param::new("z", ArgType::F64),
    Param::new("operand", ArgType::I32),
    Param::new("summands", ArgType::I32),
];

/// Shapes, for rows of any length: a row is read once, so that none need be held. Four accesses of a row under way a thread; with smoothing two, as
/// weights may join them (one on AMD, where two spilled scalar registers: gfx942, clang 19).
fn shapes(dtype: DType, smooth: bool, target: Target) -> Vec<RowShape> {
    let chunks = match (smooth, target.vendor()) {
        // ptxas orders more loads ahead there: four took 164 registers (nvcc 13.5)
        (false, _) if target == Target::Sm100 => 2,
        (false, _) => 4,
        (true, Vendor::Hip) => 1,
        (true, _) => 2,
    };
    let vec = vec_of(dtype);
    if target.vendor() == Vendor::Cpu {
        return vec![RowShape::new(64, 1, 1, vec), RowShape::new(256, 1, chunks, vec)];
    }
    let wide = if target == Target::Sm90a && !smooth { 512 } else { 256 };
    vec![RowShape::new(32, 4, chunks, vec), RowShape::new(128, 1, chunks, vec), RowShape::new(wide, 1, chunks, vec)]
}

fn id(dtype: DType, shape: RowShape, smooth: bool, target: Target) -> KernelId {
    KernelId { kernel: "cross_entropy", tag: format!("{dtype}.{}{}", shape.tag(), if smooth { ".smooth" } else { "" }), target }
}

fn row_variants(target: Target) -> Vec<Variant> {
    let one = |dtype: DType, s: RowShape, smooth: bool| {
        // left to itself ptxas took 96 registers, not 64; on sm_80 and sm_100 it spills where 64 are to do (nvcc 13.5)
        let unit = if target == Target::Sm90a && !smooth { 1024 } else { 512 };
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .smooth = {smooth}, .unit = {unit}",
            s.threads, s.groups, s.chunks, s.vec
        );
        let set = if dtype == DType::BF16 && s.threads >= 256 && !smooth { BuildSet::Ci } else { BuildSet::Full };
        variant(id(dtype, s, smooth, target), s, "ops/cross_entropy.h", ["CrossEntropy", "CrossEntropyConfig"], config, set)
    };
    let mut all = Vec::new();
    for &dtype in floats(target) {
        for smooth in [false, true] {
            all.extend(shapes(dtype, smooth, target).into_iter().map(|s| one(dtype, s, smooth)));
        }
    }
    all
}

/// What both ops ask of logits, labels, weight and the attributes. Gives rows and V.
pub(crate) fn check_common(p: &Problem) -> Result<Option<(u64, u64, DType)>, DescError> {
    let Some(x) = p.operand("logits") else { return Ok(None) };
    expect(p, "logits", floats(Target::Host32), &x.shape)?;
    let [rows, n] = x.shape[..] else {
        return Err(DescError { operand: "logits", rule: Rule::ShapeMatches, got: x.to_string(), expected: "[rows, V]".into() });
    };
    let acc = x.dtype.accumulator();
    expect(p, "labels", &[DType::I64, DType::I32], &[rows])?;
    expect(p, "weight", &[acc], &[n])?;
    let out_of_range =
        |operand, x: f64, expected: &str| Err(DescError { operand, rule: Rule::ValueInRange, got: x.to_string(), expected: expected.into() });
    let (e, z) = (p.float("label_smoothing"), p.float("z_loss"));
    if !(0.0..=1.0).contains(&e) {
        return out_of_range("label_smoothing", e, "0 to 1");
    }
    if !(z >= 0.0 && z.is_finite()) {
        return out_of_range("z_loss", z, "0 or more");
    }
    Ok(Some((rows, n, acc)))
}

/// Labels as a kernel sees them.
pub(crate) fn labels(p: &Problem) -> IndexView {
    let buffer = p.index("labels").map(Buffer::Operand);
    let (stride, wide) = p.operand("labels").map_or((1, true), |d| (d.strides[0], d.dtype == DType::I64));
    IndexView { buffer, stride, wide }
}

/// A vector of one element for each row; the same one for all where it has one element and `rows` are more. Null where it is not given.
pub(crate) fn per_row(p: &Problem, name: &str, rows: u64) -> RowsView {
    let Some(d) = p.operand(name) else { return RowsView { buffer: None, stride: 1, outer: [0; 3] } };
    let step = if d.shape[0] == rows { d.strides[0] } else { 0 };
    RowsView { buffer: p.index(name).map(Buffer::Operand), stride: 1, outer: [0, 0, step] }
}

/// A vector that is one row; null where it is not given.
pub(crate) fn one_row(p: &Problem, name: &str) -> RowsView {
    let Some(d) = p.operand(name) else { return RowsView { buffer: None, stride: 1, outer: [0; 3] } };
    RowsView { buffer: p.index(name).map(Buffer::Operand), stride: d.strides[0], outer: [0; 3] }
}

/// No kernel for a dtype on a target.
pub(crate) fn unsupported(p: &Problem, dtype: DType, target: Target) -> Unsupported {
    Unsupported { op: p.signature.op, target, what: format!("no kernel for {dtype}") }
}

/// Attributes of examples.
pub(crate) fn example_common(op: Signature, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let dtype = EXAMPLES[pick(EXAMPLES.len())];
    let rows = outer.iter().product();
    let t = |dtype: DType, shape: &[u64]| TensorDesc::contiguous(dtype, shape);
    let mut p = Problem::new(op).with("logits", t(dtype, &[rows, n])).with("labels", t([DType::I64, DType::I32][pick(2)], &[rows]));
    if pick(2) == 1 {
        p = p.with("weight", t(dtype.accumulator(), &[n]));
    }
    p = p.with_attr("reduction", ["mean", "none", "sum"][pick(3)].into());
    p = p.with_attr("ignore_index", [-100, 0, 5][pick(3)].into());
    p = p.with_attr("label_smoothing", [0.0, 0.1, 1.0][pick(3)].into());
    p.with_attr("z_loss", [0.0, 1e-2][pick(2)].into())
}

/// Indices of both ops.
pub(crate) fn indices(p: &Problem, operand: usize) -> Option<Indices> {
    let count = *p.operand("logits")?.shape.last()?;
    (operand == 1).then(|| Indices { count, skip: Some(p.int("ignore_index")) })
}

/// Data of logits, labels and weight. `most`: logits are no larger than so much under [`Family::Extreme`].
pub(crate) fn sample_common(p: &Problem, operand: usize, family: Family, seed: u64, i: u64, most: f64) -> Option<f64> {
    let x = p.operand("logits")?;
    let n = if x.strides.get(1) == Some(&0) { 1 } else { *x.shape.last()? };
    let (bits, k) = (noise(seed, i), i % n.max(1));
    match (p.signature.operands[operand].name, family) {
        ("labels", Family::Hostile) => None,
        ("labels", _) => {
            let classes = *x.shape.last()?;
            // a benchmark's data are normal: there every row counts
            let counts = classes > 0 && (family == Family::Normal || !bits.is_multiple_of(8));
            Some(if counts { ((bits >> 8) % classes) as f64 } else { p.int("ignore_index") as f64 })
        }
        ("logits", Family::Extreme) => {
            let far: f64 = if x.dtype == DType::F16 { 6e4 } else { 1e15 };
            let v = match bits % 8 {
                0 => far * (2.0 * unit(seed, i) - 1.0),
                1 => 1e-30 * (2.0 * unit(seed, i) - 1.0),
                2 => 1e4 * (2.0 * unit(seed, i) - 1.0),
                _ => normal(seed, i),
            };
            Some(if v > most { -v } else { v })
        }
        // the last element is as large as all others together, an edge still shows
        ("logits", Family::Spikes) => {
            let height = (n.max(1) as f64).ln() + 1.0;
            Some(if k + 1 == n {
                height - 1.0
            } else if k & (k + 1) == 0 {
                height - 5.0 + unit(seed, i)
            } else {
                normal(seed, i)
            })
        }
        ("weight", Family::Nonfinite) if bits.is_multiple_of(256) => Some(f64::NAN),
        ("weight", _) => Some(if bits.is_multiple_of(16) { 0.0 } else { 0.25 + unit(seed, i) }),
        _ => None,
    }
}

impl Op for CrossEntropy {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, p: Problem) -> Result<Problem, DescError> {
        let Some(x) = p.operand("logits").cloned() else { return Ok(p) };
        let (acc, rows) = (x.dtype.accumulator(), x.shape.first().copied().unwrap_or(1));
        let losses = if p.choice("reduction") == "none" { rows } else { 1 };
        Ok(or_contiguous(or_contiguous(p, "loss", acc, &[losses]), "lse", acc, &[rows]))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let Some((rows, _, acc)) = check_common(p)? else { return Ok(()) };
        expect(p, "loss", &[acc], &[if p.choice("reduction") == "none" { rows } else { 1 }])?;
        expect(p, "lse", &[acc], &[rows])
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let (Some(x), Some(loss), Some(index)) = (p.operand("logits"), p.operand("loss"), p.index("loss")) else { return Ok(Vec::new()) };
        if loss.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        if !floats(caps.target).contains(&x.dtype) {
            return Err(unsupported(p, x.dtype, caps.target));
        }
        let acc = x.dtype.accumulator();
        let Ok((space, views)) = rows_of(p, &["logits"], false) else { return Ok(Vec::new()) };
        let rows = x.shape[0];
        let weighted = p.operand("weight").is_some();
        let summands: u64 = match p.choice("reduction") {
            "none" => 0,
            "sum" => 1,
            _ if weighted => 4,
            _ => 2,
        };
        let smooth = p.float("label_smoothing") != 0.0;
        let plan = |shape: RowShape| {
            let mut workspace = Workspace::default();
            let pitch = rows.next_multiple_of(4);
            let part = (summands > 0 && rows > 0).then(|| workspace.push("part", summands * pitch * acc.size()));
            let mut steps = Vec::new();
            let id = id(x.dtype, shape, smooth, caps.target);
            let tag = id.tag.clone();
            if rows > 0 {
                let args = vec![
                    ("x", Arg::Rows(views[0].clone())),
                    ("labels", Arg::Index(labels(p))),
                    ("w", Arg::Rows(one_row(p, "weight"))),
                    ("loss", Arg::Rows(per_row(p, "loss", rows))),
                    ("lse", Arg::Rows(per_row(p, "lse", rows))),
                    ("part", Arg::Pointer(part)),
                    ("error", Arg::Pointer(Some(Buffer::Error))),
                    ("space", Arg::Space(space.clone())),
                    ("programs", Arg::I64(rows as i64)),
                    ("pitch", Arg::I64(pitch as i64)),
                    ("ignore", Arg::I64(p.int("ignore_index"))),
                    ("smoothing", Arg::F64(p.float("label_smoothing"))),
                    ("z", Arg::F64(p.float("z_loss"))),
                    ("operand", Arg::I32(1)),
                    ("summands", Arg::I32(summands as i32)),
                ];
                steps.push(Step::Launch(launch(id, shape, rows, 1, args)));
            }
            if summands > 0 {
                let x = RowsView { buffer: part, stride: 1, outer: [0; 3] };
                let out = Buffer::Operand(index);
                steps.extend(row_total::steps((x, rows, pitch), summands, summands > 1, out, acc, caps.target, &mut workspace));
            }
            Plan { tag, target: caps.target, steps, workspace }
        };
        let mut all = shapes(x.dtype, smooth, caps.target);
        // the narrowest that walks a row in a few turns, and then wider ones
        let first = all.iter().position(|s| space.n <= 4 * s.tile()).unwrap_or(all.len() - 1);
        all.rotate_left(first);
        Ok(all.into_iter().map(plan).collect())
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        [row_variants(target), row_total::variants(target)].concat()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        match kernel {
            "cross_entropy" => PARAMS,
            "row_total" => row_total::PARAMS,
            _ => &[],
        }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        let p = example_common(SIGNATURE, outer, n, pick);
        self.infer(p).ok()
    }

    fn sample(&self, p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
        sample_common(p, operand, family, seed, i, f64::INFINITY)
    }

    fn indices(&self, p: &Problem, operand: usize) -> Option<Indices> {
        indices(p, operand)
    }

    fn neutral(&self) -> Option<f64> {
        Some(f64::NEG_INFINITY)
    }
}
