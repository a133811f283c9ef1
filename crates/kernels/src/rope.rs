//! What `rope` and its gradient share: one kernel that turns pairs of channels, and one that makes its table of cosines and sines.

use crate::rows::{EXAMPLES, RowShape, expect, floats, launch, max_lead, variant, vec_of};
use warpwave_core::{
    Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, Family, IndexView, Indices, KernelId, Launch, OperandSpec,
    Param, Plan, Problem, Role, RowSpace, RowsView, Rule, Step, Target, TensorDesc, Unsupported, Valid, Variant, Vendor, Workspace, noise, normal,
    unit,
};

pub(crate) const FORWARD: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "[batch, position, head, channel], or without batch" },
    OperandSpec { name: "pos", role: Role::OptionalInput, doc: "i32 or i64 [position] or [batch, position]; offset, offset + 1, ... where left out" },
    OperandSpec { name: "cos", role: Role::OptionalInput, doc: "[rows, rot / 2], of x's dtype or f32: row p holds the cosines of position p" },
    OperandSpec { name: "sin", role: Role::OptionalInput, doc: "the shape and dtype of cos" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
];
pub(crate) const BACKWARD: &[OperandSpec] = &[
    OperandSpec { name: "dy", role: Role::Input, doc: "[batch, position, head, channel], or without batch" },
    FORWARD[1],
    FORWARD[2],
    FORWARD[3],
    OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of dy" },
];
/// Operand numbers.
const X: usize = 0;
const POS: usize = 1;
const COS: usize = 2;
const SIN: usize = 3;
const OUT: usize = 4;

const fn float(name: &'static str, default: f64, doc: &'static str) -> AttrSpec {
    AttrSpec { name, kind: AttrKind::Float { default }, doc }
}
const fn int(name: &'static str, default: i64, min: i64, doc: &'static str) -> AttrSpec {
    AttrSpec { name, kind: AttrKind::Int { default, min, max: 1 << 62 }, doc }
}

pub(crate) const ATTRS: &[AttrSpec] = &[
    AttrSpec {
        name: "style",
        kind: AttrKind::Choice { default: "neox", all: &["neox", "interleaved", "neox_proportional"] },
        doc: "pairs of channels: (i, i + rot/2), (2i, 2i + 1), or (i, i + channels/2)",
    },
    int("rot", 0, 0, "channels that turn, an even number; 0: all"),
    int("offset", 0, i64::MIN / 2, "the first position, where pos is left out"),
    float("base", 1e4, "frequency i is base^(-2i / rot), or base^(-2i / channels) in the proportional style"),
    AttrSpec { name: "scaling", kind: AttrKind::Choice { default: "none", all: &["none", "linear", "llama3", "yarn"] }, doc: "of frequencies" },
    float("factor", 1.0, "by which scaling divides"),
    int("original", 8192, 1, "llama3, yarn: length of the context that the model was trained on"),
    float("low", 1.0, "llama3: turns in that context up to which a frequency is divided"),
    float("high", 4.0, "llama3: turns from which on it is kept"),
    float("beta_fast", 32.0, "yarn: turns from which on it is kept"),
    float("beta_slow", 1.0, "yarn: turns up to which it is divided"),
    float("mscale", 0.0, "factor of cosines and sines; 0: 0.1 ln(factor) + 1 for yarn, 1 otherwise"),
];

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("cos", ArgType::Rows),
    Param::new("sin", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("pos", ArgType::Index),
    Param::new("error", ArgType::Pointer),
    Param::new("first", ArgType::I64),
    Param::new("limit", ArgType::I64),
    Param::new("batch_rows", ArgType::I64),
    Param::new("half", ArgType::I64),
    Param::new("apart", ArgType::I64),
    Param::new("slices", ArgType::I64),
    Param::new("tiles", ArgType::I64),
    Param::new("parts", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("backward", ArgType::I32),
    Param::new("gathered", ArgType::I32),
    Param::new("by_position", ArgType::I32),
    Param::new("operand", ArgType::I32),
];

const TABLE_PARAMS: &[Param] = &[
    Param::new("cos", ArgType::Rows),
    Param::new("sin", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("sines", ArgType::Rows),
    Param::new("pos", ArgType::Index),
    Param::new("error", ArgType::Pointer),
    Param::new("first", ArgType::I64),
    Param::new("limit", ArgType::I64),
    Param::new("n", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("step", ArgType::F64),
    Param::new("inverse_factor", ArgType::F64),
    Param::new("per_turn", ArgType::F64),
    Param::new("per_index", ArgType::F64),
    Param::new("shift", ArgType::F64),
    Param::new("scale", ArgType::F64),
    Param::new("kind", ArgType::I32),
    Param::new("operand", ArgType::I32),
];

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    match kernel {
        "rope" => PARAMS,
        "rope_table" => TABLE_PARAMS,
        _ => &[],
    }
}

/// Extents of x.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    pub(crate) batch: u64,
    pub(crate) positions: u64,
    pub(crate) heads: u64,
    pub(crate) channels: u64,
}

pub(crate) fn extents(x: &TensorDesc) -> Extents {
    match x.shape[..] {
        [positions, heads, channels] => Extents { batch: 1, positions, heads, channels },
        [batch, positions, heads, channels] => Extents { batch, positions, heads, channels },
        _ => Extents { batch: 0, positions: 0, heads: 0, channels: 0 },
    }
}

/// Channels that turn.
fn rot(p: &Problem, channels: u64) -> u64 {
    if p.int("rot") == 0 { channels } else { p.int("rot") as u64 }
}

fn err(operand: &'static str, rule: Rule, got: impl ToString, expected: impl ToString) -> Result<(), DescError> {
    Err(DescError { operand, rule, got: got.to_string(), expected: expected.to_string() })
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    let (x_name, out_name) = (p.signature.operands[X].name, p.signature.operands[OUT].name);
    let Some(x) = &p.operands[X] else { return Ok(()) };
    expect(p, x_name, floats(Target::Host32), &x.shape)?;
    if !(3..=4).contains(&x.rank()) {
        return err(x_name, Rule::RankInRange, x, "three or four dimensions");
    }
    expect(p, out_name, &[x.dtype], &x.shape)?;
    let e = extents(x);
    let rot = rot(p, e.channels);
    if !rot.is_multiple_of(2) || rot > e.channels || (p.choice("style") == "neox_proportional" && !e.channels.is_multiple_of(2)) {
        return err("rot", Rule::ValueInRange, rot, format!("an even number up to {}", e.channels));
    }
    if let Some(pos) = &p.operands[POS] {
        let each = pos.rank() == 2 && x.rank() == 4;
        let shape = if each { vec![e.batch, e.positions] } else { vec![e.positions] };
        expect(p, "pos", &[DType::I32, DType::I64], &shape)?;
        if pos_stride(pos).is_none() {
            return err("pos", Rule::CollapsesToRows, pos, "one stride");
        }
        if p.int("offset") != 0 {
            return err("offset", Rule::ValueInRange, p.int("offset"), "0, as pos is given");
        }
    }
    if p.operands[COS].is_some() != p.operands[SIN].is_some() {
        return err("cos", Rule::Present, "one of cos and sin", "both or none");
    }
    let scaling = p.choice("scaling");
    for (spec, value) in p.signature.attrs.iter().zip(&p.attrs) {
        let of: &[&str] = match spec.name {
            "factor" => &["linear", "llama3", "yarn"],
            "original" => &["llama3", "yarn"],
            "low" | "high" => &["llama3"],
            "beta_fast" | "beta_slow" => &["yarn"],
            "base" | "scaling" | "mscale" if p.operands[COS].is_some() => &[],
            _ => continue,
        };
        if !of.contains(&scaling) && value.to_string() != spec.kind.default().to_string() {
            return err(spec.name, Rule::ValueInRange, value, format!("{}, as nothing uses it", spec.kind.default()));
        }
    }
    for name in ["base", "factor", "low", "high", "beta_fast", "beta_slow"] {
        let value = p.float(name);
        if !(value.is_finite() && value > 0.0 && (name != "base" || (1.0..=1e300).contains(&value))) {
            return err(name, Rule::ValueInRange, value, if name == "base" { "1 to 1e300" } else { "a positive number" });
        }
    }
    if p.float("high") <= p.float("low") {
        return err("high", Rule::ValueInRange, p.float("high"), "more than low");
    }
    if scaling == "yarn" && p.float("base") <= 1.0 {
        return err("base", Rule::ValueInRange, p.float("base"), "more than 1 for yarn");
    }
    if !p.float("mscale").is_finite() {
        return err("mscale", Rule::ValueInRange, p.float("mscale"), "a finite number");
    }
    if let Some(cos) = &p.operands[COS] {
        let rows = cos.shape.first().copied().unwrap_or(0);
        let dtypes: &[DType] = if x.dtype == DType::F64 { &[DType::F64] } else { &[x.dtype, DType::F32] };
        expect(p, "cos", dtypes, &[rows.max(1), rot / 2])?;
        expect(p, "sin", &[cos.dtype], &cos.shape)?;
        let (first, end) = (p.int("offset"), p.int("offset").saturating_add(e.positions as i64));
        if p.operands[POS].is_none() && (first < 0 || end > rows as i64) {
            return err("offset", Rule::ValueInRange, first, format!("positions {first} to {end} within {rows} rows of cos"));
        }
    }
    Ok(())
}

/// Elements between neighbouring positions, where one number says it.
fn pos_stride(pos: &TensorDesc) -> Option<i64> {
    let dims: Vec<(u64, i64)> = pos.shape.iter().copied().zip(pos.strides.iter().copied()).filter(|d| d.0 != 1).collect();
    match dims[..] {
        [] => Some(1),
        [(_, s)] => Some(s),
        [(_, outer), (n, inner)] => (inner.checked_mul(n as i64) == Some(outer)).then_some(inner),
        _ => None,
    }
}

/// What tiles a row, narrow tiles first: of halves, or of the whole row where neighbours turn.
fn shapes(dtype: DType, pairs: bool, dense: bool, target: Target) -> Vec<RowShape> {
    let vec = vec_of(dtype);
    let tiles: &[u32] = if target.vendor() == Vendor::Cpu || !dense { &[64] } else { &[32, 64, 128] };
    let shape = |&tile: &u32| {
        let runs = if pairs { 2 * tile } else { tile } / vec;
        // groups of several waves do not share a block on gfx1100
        let threads = runs.min(32);
        RowShape::new(threads, 256 / threads, runs / threads, vec)
    };
    tiles.iter().map(shape).collect()
}

const TABLE: RowShape = RowShape::new(32, 4, 1, 2);

fn flag(pairs: bool) -> &'static str {
    if pairs { ".pairs" } else { "" }
}
fn id(dtype: DType, shape: RowShape, pairs: bool, dense: bool, target: Target) -> KernelId {
    KernelId { kernel: "rope", tag: format!("{dtype}.{}{}{}", shape.tag(), flag(pairs), if dense { "" } else { ".any" }), target }
}
fn table_id(dtype: DType, pairs: bool, target: Target) -> KernelId {
    KernelId { kernel: "rope_table", tag: format!("{dtype}.{}{}", TABLE.tag(), flag(pairs)), target }
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let mut all = Vec::new();
    let config = |dtype: DType, s: RowShape, pairs: bool| {
        let RowShape { threads, groups, chunks, vec } = s;
        format!(".type = ww::dtype::{dtype}, .threads = {threads}, .groups = {groups}, .chunks = {chunks}, .vec = {vec}, .pairs = {pairs}")
    };
    for pairs in [false, true] {
        for &dtype in floats(target) {
            for dense in [true, false] {
                for s in shapes(dtype, pairs, dense, target) {
                    let common = dtype == DType::BF16 && !pairs && dense && s.threads == 8;
                    let set = if common { BuildSet::Ci } else { BuildSet::Full };
                    let fields = format!("{}, .dense = {dense}", config(dtype, s, pairs));
                    all.push(variant(id(dtype, s, pairs, dense, target), s, "ops/rope.h", ["Rope", "RopeConfig"], fields, set));
                }
            }
            if dtype.accumulator() == dtype {
                let set = if dtype == DType::F32 && !pairs { BuildSet::Ci } else { BuildSet::Full };
                let names = ["RopeTable", "RopeTableConfig"];
                all.push(variant(table_id(dtype, pairs, target), TABLE, "ops/rope_table.h", names, config(dtype, TABLE, pairs), set));
            }
        }
    }
    all
}

/// Factors of `b` in `ops/rope_table.h`: per turn, per index, shift.
fn blend(p: &Problem, rot: u64) -> [f64; 3] {
    let original = p.int("original") as f64;
    match p.choice("scaling") {
        "none" => [0.0, 0.0, 1.0],
        "linear" => [0.0; 3],
        "llama3" => {
            let (low, high) = (p.float("low"), p.float("high"));
            [original / (high - low), 0.0, -low / (high - low)]
        }
        _ => {
            // the index of the frequency that makes so many turns in a context
            let index = |turns: f64| rot as f64 * (original / (turns * std::f64::consts::TAU)).ln() / (2.0 * p.float("base").ln());
            let first = index(p.float("beta_fast")).floor().max(0.0);
            let last = index(p.float("beta_slow")).ceil().min(rot as f64 - 1.0);
            let width = if first == last { 0.001 } else { last - first };
            [0.0, -1.0 / width, 1.0 + first / width]
        }
    }
}

/// Factor of cosines and sines.
fn mscale(p: &Problem) -> f64 {
    match p.float("mscale") {
        0.0 if p.choice("scaling") == "yarn" => 0.1 * p.float("factor").max(1.0).ln() + 1.0,
        0.0 => 1.0,
        m => m,
    }
}

fn none() -> RowsView {
    RowsView { buffer: None, stride: 1, outer: [0; 3] }
}

/// Rows of a table: the second dimension within.
fn table_view(p: &Problem, operand: usize) -> RowsView {
    let of = |d: &TensorDesc| RowsView { buffer: Some(Buffer::Operand(operand)), stride: d.strides[1], outer: [0, 0, d.strides[0]] };
    p.operands[operand].as_ref().map_or(none(), of)
}

fn pos_view(p: &Problem) -> IndexView {
    let pos = p.operands[POS].as_ref();
    IndexView {
        buffer: pos.map(|_| Buffer::Operand(POS)),
        stride: pos.and_then(pos_stride).unwrap_or(1),
        wide: pos.is_some_and(|d| d.dtype == DType::I64),
    }
}

/// The step that makes the table of `rows` positions: two rows of `half` values, or one of twice as many where `pairs`.
fn table_step(p: &Problem, x: &TensorDesc, rows: u64, half: u64, pairs: bool, target: Target, space: &mut Workspace) -> (Launch, [RowsView; 2]) {
    let acc = x.dtype.accumulator();
    let pitch = (if pairs { 2 * half } else { half }).next_multiple_of(16 / acc.size());
    let mut slice = |name| RowsView { buffer: Some(space.push(name, rows * pitch * acc.size())), stride: 1, outer: [0, 0, pitch as i64] };
    let views = [slice("cos"), if pairs { none() } else { slice("sin") }];
    let e = extents(x);
    let rot = rot(p, e.channels);
    let turning = if p.choice("style") == "neox_proportional" { e.channels } else { rot };
    let [per_turn, per_index, shift] = blend(p, rot);
    let kind = match p.operands[COS].as_ref().map(|d| d.dtype) {
        Some(DType::F16) => 2,
        Some(DType::BF16) => 3,
        Some(DType::F32) => 1,
        _ => 0,
    };
    let args = vec![
        ("cos", Arg::Rows(table_view(p, COS))),
        ("sin", Arg::Rows(table_view(p, SIN))),
        ("out", Arg::Rows(views[0].clone())),
        ("sines", Arg::Rows(views[1].clone())),
        ("pos", Arg::Index(pos_view(p))),
        ("error", Arg::Pointer(Some(Buffer::Error))),
        ("first", Arg::I64(p.int("offset"))),
        ("limit", Arg::I64(p.operands[COS].as_ref().map_or(0, |d| d.shape[0] as i64))),
        ("n", Arg::I64(half as i64)),
        ("programs", Arg::I64(rows as i64)),
        ("step", Arg::F64(-2.0 * p.float("base").log2() / turning as f64)),
        ("inverse_factor", Arg::F64(1.0 / p.float("factor"))),
        ("per_turn", Arg::F64(per_turn)),
        ("per_index", Arg::F64(per_index)),
        ("shift", Arg::F64(shift)),
        ("scale", Arg::F64(mscale(p))),
        ("kind", Arg::I32(kind)),
        ("operand", Arg::I32(POS as i32)),
    ];
    (launch(table_id(acc, pairs, target), TABLE, rows, 1, args), views)
}

pub(crate) fn plans(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Some(out)) = (&p.operands[X], &p.operands[OUT]) else { return Ok(Vec::new()) };
    if out.is_empty() {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if !floats(caps.target).contains(&x.dtype) {
        return Err(Unsupported { op: p.signature.op, target: caps.target, what: format!("no kernel for {}", x.dtype) });
    }
    let e = extents(x);
    let pairs = p.choice("style") == "interleaved";
    let half = rot(p, e.channels) / 2;
    let apart = if p.choice("style") == "neox_proportional" { e.channels / 2 } else { half };
    let space = RowSpace { n: e.channels, outer: [e.batch, e.positions, e.heads] };
    let view = |d: &TensorDesc, operand| {
        let [.., l, h, c] = d.strides[..] else { return none() };
        RowsView { buffer: Some(Buffer::Operand(operand)), stride: c, outer: [if d.rank() == 4 { d.strides[0] } else { 0 }, l, h] }
    };
    let (from, to) = (view(x, X), view(out, OUT));
    let mut workspace = Workspace::default();
    let mut steps = Vec::new();
    let acc = x.dtype.accumulator();
    let given = p.operands[COS]
        .as_ref()
        .filter(|d| !pairs && d.dtype == acc && d.strides[1] == 1 && p.operands[SIN].as_ref().is_some_and(|d| d.strides[1] == 1));
    let each = p.operands[POS].as_ref().is_some_and(|d| d.rank() == 2);
    let (tables, limit, first, pos) = match given {
        Some(cos) => ([table_view(p, COS), table_view(p, SIN)], cos.shape[0], p.int("offset"), pos_view(p)),
        None => {
            let rows = if each { e.batch * e.positions } else { e.positions };
            let (step, views) = table_step(p, x, rows, half, pairs, caps.target, &mut workspace);
            steps.push(Step::Launch(step));
            // positions that the step reports pass unturned: the table is asked by row, pos only whether it is within the given one
            match &p.operands[COS] {
                Some(cos) => (views, cos.shape[0], p.int("offset"), pos_view(p)),
                None => (views, rows, 0, IndexView { buffer: None, stride: 1, wide: false }),
            }
        }
    };
    let alike = e.heads == 1 || (to.outer[2] as u64).wrapping_mul(x.dtype.size()).is_multiple_of(16);
    let by_position = e.positions > 1 && e.heads > 1 && to.outer[1] < to.outer[2];
    let lead = max_lead(out, &to, &space);
    // the longest run of channels that a tile has a part of, turning or not
    let (turning, still) = if pairs { (2 * half, e.channels - 2 * half) } else { (half, (apart - half).max(e.channels - apart - half)) };
    let on_16 = |d: &TensorDesc, v: &RowsView, dtype: DType| {
        let outer = space.outer.iter().zip(v.outer).all(|(&n, s)| n <= 1 || (s as u64).wrapping_mul(dtype.size()).is_multiple_of(16));
        v.stride == 1 && d.alignment() >= 16 && outer
    };
    let spans = [half, apart, e.channels].iter().all(|&n| (if pairs { 2 * n } else { n } * x.dtype.size()).is_multiple_of(16));
    let table = |d: &TensorDesc| d.alignment() >= 16 && (d.strides[0] as u64).wrapping_mul(acc.size()).is_multiple_of(16);
    let tables_on_16 = given.is_none() || [COS, SIN].iter().all(|&i| p.operands[i].as_ref().is_some_and(table));
    let dense = spans && tables_on_16 && on_16(x, &from, x.dtype) && on_16(out, &to, x.dtype);
    // the narrowest tile that holds a row, then the others; at last what takes any layout
    let mut all = if dense { shapes(x.dtype, pairs, true, caps.target) } else { Vec::new() };
    let fits = all.iter().position(|s| s.tile() >= turning + lead).unwrap_or(all.len().saturating_sub(1));
    all.rotate_left(fits);
    let all = all.into_iter().map(|s| (s, true)).chain(shapes(x.dtype, pairs, false, caps.target).into_iter().map(|s| (s, false)));
    let plan = |(shape, dense): (RowShape, bool)| {
        // a row of the table serves as many heads as leave two programs for each thread of the device
        let enough = |per: &u64| e.batch * e.positions * e.heads.div_ceil(*per) * u64::from(shape.threads) >= u64::from(caps.units) * 4096;
        let per = if alike { [8, 4, 2].into_iter().find(enough).unwrap_or(1) } else { 1 };
        let slices = e.heads.div_ceil(per);
        let tiles = (turning + lead).div_ceil(shape.tile());
        let parts = tiles + if still == 0 { 0 } else { (still + lead).div_ceil(shape.tile()) };
        let programs = e.batch * e.positions * slices * parts;
        let args = vec![
            ("x", Arg::Rows(from.clone())),
            ("out", Arg::Rows(to.clone())),
            ("cos", Arg::Rows(tables[0].clone())),
            ("sin", Arg::Rows(tables[1].clone())),
            ("space", Arg::Space(space.clone())),
            ("pos", Arg::Index(pos.clone())),
            ("error", Arg::Pointer(Some(Buffer::Error))),
            ("first", Arg::I64(first)),
            ("limit", Arg::I64(limit as i64)),
            ("batch_rows", Arg::I64(if each { e.positions as i64 } else { 0 })),
            ("half", Arg::I64(half as i64)),
            ("apart", Arg::I64(apart as i64)),
            ("slices", Arg::I64(slices as i64)),
            ("tiles", Arg::I64(tiles as i64)),
            ("parts", Arg::I64(parts as i64)),
            ("programs", Arg::I64(programs as i64)),
            ("backward", Arg::I32(i32::from(p.signature.op == "rope_bwd"))),
            ("gathered", Arg::I32(i32::from(given.is_none()))),
            ("by_position", Arg::I32(i32::from(by_position))),
            ("operand", Arg::I32(POS as i32)),
        ];
        let mut steps = steps.clone();
        steps.push(Step::Launch(launch(id(x.dtype, shape, pairs, dense, caps.target), shape, programs, 1, args)));
        let tag = format!("{}{}", shape.tag(), if dense { "" } else { ".any" });
        Plan { tag, target: caps.target, steps, workspace: workspace.clone() }
    };
    Ok(all.map(plan).collect())
}

pub(crate) fn in_place(output: usize, input: usize) -> bool {
    (output, input) == (OUT, X)
}

pub(crate) fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let dtype = EXAMPLES[pick(EXAMPLES.len())];
    let shape = match outer {
        [] => vec![1, 1, n],
        [a] if pick(2) == 0 => vec![*a, 1, n],
        [a] => vec![1, *a, n],
        more => [more, &[n]].concat(),
    };
    let (x, out) = (p.signature.operands[X].name, p.signature.operands[OUT].name);
    let mut p = p.with(x, TensorDesc::contiguous(dtype, &shape)).with(out, TensorDesc::contiguous(dtype, &shape));
    let style = ["neox", "interleaved", "neox_proportional"][pick(3)];
    let even = n & !1;
    let rot = match pick(3) {
        1 if n >= 4 => (n / 2) & !1,
        _ => even,
    };
    p = p.with_attr("style", style.into()).with_attr("rot", (if rot == n { 0 } else { rot as i64 }).into());
    let positions = shape[shape.len() - 3];
    match pick(4) {
        1 => p = p.with("pos", TensorDesc::contiguous(DType::I64, &[positions])),
        2 if shape.len() == 4 => p = p.with("pos", TensorDesc::contiguous(DType::I32, &shape[..2])),
        3 => p = p.with_attr("offset", 11.into()),
        _ => {}
    }
    match pick(5) {
        1 => p = p.with_attr("scaling", "linear".into()).with_attr("factor", 4.0.into()),
        2 => p = p.with_attr("scaling", "llama3".into()).with_attr("factor", 8.0.into()).with_attr("base", 5e5.into()),
        3 => p = p.with_attr("scaling", "yarn".into()).with_attr("factor", 4.0.into()).with_attr("original", 4096.into()),
        4 => {
            let kind = if dtype == DType::F64 || pick(2) == 1 { dtype } else { DType::F32 };
            let table = TensorDesc::contiguous(kind, &[positions + 11, rot / 2]);
            p = p.with("cos", table.clone()).with("sin", table);
        }
        _ => {}
    }
    p
}

/// Positions are rows of a table, where one is given.
pub(crate) fn indices(p: &Problem, operand: usize) -> Option<Indices> {
    let cos = p.operands[COS].as_ref()?;
    (operand == POS).then(|| Indices { count: cos.shape[0], skip: None })
}

/// Positions within the table, cosines and sines within [-1, 1].
pub(crate) fn sample(p: &Problem, operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
    match operand {
        POS if family == Family::Hostile => None,
        POS => {
            let n = noise(seed, i);
            Some(match (&p.operands[COS], family) {
                (Some(cos), _) => (n % cos.shape[0].max(1)) as f64,
                (None, Family::Extreme) => (n % (1 << 24)) as f64,
                (None, _) => (n % 9000) as f64 - 100.0,
            })
        }
        COS | SIN => Some(2.0 * unit(seed, i) - 1.0),
        // a factor above 1 lets a product overflow where the difference of two does not
        X if family == Family::Extreme && mscale(p) > 1.0 => Some(normal(seed, i)),
        _ => None,
    }
}
