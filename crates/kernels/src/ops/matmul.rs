//! Matrix products with float32 accumulation.

use crate::rows::{self, RowShape, copy, vec_of};
use std::ops::Range;
use warpwave_core::{
    Approx, Arch, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, DType, DescError, DeviceCaps, KernelId, Launch, MatrixView, Op, OperandSpec,
    Param, Plan, Problem, Role, RowSpace, RowsView, Rule, Signature, Source, Step, Target, TensorDesc, TensorMap, Unsupported, Valid, Variant,
    Workspace,
};

mod config;
mod reference;

use config::{Config, TILE_PANEL};

/// `out = alpha · a b + beta · c`, for every index of the leading dimensions. a [.., M, K], b [.., K, N], c and out [.., M, N]; all of one
/// dtype (bf16, f16, f32), any strides (0 repeats), any alignment; float32 accumulation, for f32 in full precision. beta = 0 never reads c;
/// K = 0 gives beta · c. On gfx90a subnormal f16 and bf16 values of a and b count as zeros: its matrix instructions take them so.
#[derive(Clone, Copy, Debug)]
pub struct Matmul;

const SIGNATURE: Signature = Signature {
    op: "matmul",
    operands: &[
        OperandSpec { name: "a", role: Role::Input, doc: "[.., M, K]" },
        OperandSpec { name: "b", role: Role::Input, doc: "[.., K, N]" },
        OperandSpec { name: "c", role: Role::OptionalInput, doc: "[.., M, N]; read only where beta is not 0" },
        OperandSpec { name: "out", role: Role::Output, doc: "[.., M, N]" },
    ],
    attrs: &[
        AttrSpec { name: "alpha", kind: AttrKind::Float { default: 1.0 }, doc: "factor of the product" },
        AttrSpec { name: "beta", kind: AttrKind::Float { default: 0.0 }, doc: "factor of c" },
        AttrSpec { name: "split_k", kind: AttrKind::Int { default: 0, min: 0, max: 1024 }, doc: "slices of K; 0: the plan chooses" },
    ],
};
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const OUT: usize = 3;

const PARAMS: &[Param] = &[
    Param::new("a", ArgType::View),
    Param::new("b", ArgType::View),
    Param::new("out", ArgType::View),
    Param::new("c", ArgType::View),
    Param::new("partial", ArgType::View),
    Param::new("alpha", ArgType::F32),
    Param::new("beta", ArgType::F32),
    Param::new("m", ArgType::I32),
    Param::new("n", ArgType::I32),
    Param::new("k", ArgType::I32),
    Param::new("planes", ArgType::I32),
    Param::new("batches", ArgType::I32),
    Param::new("tiles_m", ArgType::I32),
    Param::new("tiles_n", ArgType::I32),
    Param::new("band", ArgType::I32),
    Param::new("splits", ArgType::I32),
    Param::new("split_k", ArgType::I32),
];

const REDUCE_PARAMS: &[Param] = &[
    Param::new("partial", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("c", ArgType::Rows),
    Param::new("space", ArgType::Space),
    Param::new("slice", ArgType::I64),
    Param::new("stretches", ArgType::I64),
    Param::new("programs", ArgType::I64),
    Param::new("alpha", ArgType::F32),
    Param::new("beta", ArgType::F32),
    Param::new("splits", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

const DTYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];

/// A matrix of a batch, as the plan moves it about.
#[derive(Clone, PartialEq, Debug)]
struct Matrix {
    buffer: Buffer,
    dtype: DType,
    /// Largest power of two that divides the address.
    alignment: u64,
    rows: u64,
    cols: u64,
    row_stride: i64,
    col_stride: i64,
    /// Strides of planes and batches.
    outer: [i64; 2],
}

impl Matrix {
    fn transposed(&self) -> Self {
        Matrix { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self.clone() }
    }

    /// Whether neighbours in a row are neighbours in memory.
    fn has_unit_cols(&self) -> bool {
        self.col_stride == 1 || self.cols == 1
    }

    /// Whether base, rows, planes and batches all start on multiples of 16 bytes; strides of 0, or of 2^40 bytes and more, do not count: copy
    /// engines refuse them.
    fn is_aligned(&self, extents: [u64; 2]) -> bool {
        let size = self.dtype.size();
        let on16 = |n: u64, s: i64| n <= 1 || (s > 0 && (s as u64 * size).is_multiple_of(16) && s as u64 * size < 1 << 40);
        self.has_unit_cols()
            && self.alignment >= 16
            && on16(self.rows, self.row_stride)
            && on16(extents[0], self.outer[0])
            && on16(extents[1], self.outer[1])
    }

    fn view(&self, extents: [u64; 2]) -> MatrixView {
        MatrixView {
            buffer: Some(self.buffer),
            row_stride: self.row_stride,
            plane_stride: self.outer[0],
            batch_stride: self.outer[1],
            rows: self.rows as u32,
            cols: self.cols as u32,
            planes: extents[0] as u32,
            batches: extents[1] as u32,
            aligned: self.is_aligned(extents),
        }
    }

    /// All rows of all planes and batches, for a row op.
    fn as_rows(&self) -> RowsView {
        RowsView { buffer: Some(self.buffer), stride: self.col_stride, outer: [self.outer[1], self.outer[0], self.row_stride] }
    }

    fn map(&self, extents: [u64; 2], boxes: [u32; 2]) -> TensorMap {
        if !self.is_aligned(extents) || self.rows == 0 || self.cols == 0 {
            return TensorMap { buffer: None, dtype: self.dtype, dims: [1; 4], strides: [16; 3], boxes: [1; 4], swizzle128: false };
        }
        let size = self.dtype.size();
        // the pitch of a dimension of extent 1 is never used, but must be a multiple of 16
        let pitch = |n: u64, s: i64| if n <= 1 { 16 } else { s as u64 * size };
        TensorMap {
            buffer: Some(self.buffer),
            dtype: self.dtype,
            dims: [self.cols, self.rows, extents[0], extents[1]],
            strides: [pitch(self.rows, self.row_stride), pitch(extents[0], self.outer[0]), pitch(extents[1], self.outer[1])],
            boxes: [boxes[0], boxes[1], 1, 1],
            swizzle128: true,
        }
    }
}

/// The leading dimensions of all operands as at most two: planes (faster) and batches, with each operand's strides.
fn collapse_batch(descs: &[&TensorDesc]) -> Option<([u64; 2], Vec<[i64; 2]>)> {
    let lead = descs[0].rank() - 2;
    let mut dims: Vec<(u64, Vec<i64>)> = Vec::new();
    for d in (0..lead).rev().filter(|&d| descs[0].shape[d] != 1) {
        let (n, strides) = (descs[0].shape[d], descs.iter().map(|x| x.strides[d]).collect::<Vec<_>>());
        match dims.last_mut() {
            Some((m, inner)) if strides.iter().zip(&*inner).all(|(&o, &i)| i.checked_mul(*m as i64) == Some(o)) => *m *= n,
            _ => dims.push((n, strides)),
        }
    }
    if dims.len() > 2 {
        return None;
    }
    dims.resize(2, (1, vec![0; descs.len()]));
    Some(([dims[0].0, dims[1].0], (0..descs.len()).map(|i| [dims[0].1[i], dims[1].1[i]]).collect()))
}

fn matrix(buffer: Buffer, d: &TensorDesc, outer: [i64; 2]) -> Matrix {
    let r = d.rank();
    Matrix {
        buffer,
        dtype: d.dtype,
        alignment: d.alignment(),
        rows: d.shape[r - 2],
        cols: d.shape[r - 1],
        row_stride: d.strides[r - 2],
        col_stride: d.strides[r - 1],
        outer,
    }
}

/// What a plan is built from: operands oriented so that the output's rows are contiguous where that is possible.
struct Work {
    a: Matrix,
    b: Matrix,
    c: Option<Matrix>,
    out: Matrix,
    extents: [u64; 2],
    alpha: f32,
    beta: f32,
}

/// Builds one plan: steps, and the workspace that they use.
struct Builder<'a> {
    caps: &'a DeviceCaps,
    extents: [u64; 2],
    steps: Vec<Step>,
    workspace: Workspace,
}

impl Builder<'_> {
    /// A fresh matrix of the workspace with rows on 16 bytes.
    fn scratch(&mut self, name: &'static str, like: &Matrix) -> Matrix {
        let size = like.dtype.size();
        let pitch = like.cols.next_multiple_of(16 / size).max(1);
        let plane = pitch * like.rows;
        let bytes = plane * self.extents[0] * self.extents[1] * size;
        let buffer = self.workspace.push(name, bytes);
        let outer = [plane as i64, (plane * self.extents[0]) as i64];
        Matrix { buffer, alignment: 256, row_stride: pitch as i64, col_stride: 1, outer, ..like.clone() }
    }

    fn copy(&mut self, from: &Matrix, to: &Matrix) {
        let space = RowSpace { n: to.cols, outer: [self.extents[1], self.extents[0], to.rows] };
        let lead = if to.is_aligned(self.extents) { 0 } else { 16 / to.dtype.size() - 1 };
        self.steps.push(Step::Launch(copy::step(from.dtype, from.as_rows(), to.as_rows(), space, lead, self.caps.target)));
    }

    /// An operand whose rows a kernel can load, and whether it is stored transposed: as it lies, or copied into the workspace.
    fn operand(&mut self, name: &'static str, m: &Matrix, arch: Arch) -> (Matrix, bool) {
        if m.rows == 0 || m.cols == 0 {
            return (m.clone(), false); // K = 0: nothing is loaded
        }
        let t = m.transposed();
        let usable = |x: &Matrix| x.has_unit_cols() && (arch != Arch::Sm90 || x.is_aligned(self.extents));
        let aligned = |x: &Matrix| x.is_aligned(self.extents);
        // an aligned layout before one that is only contiguous
        for (x, transposed) in [(m, false), (&t, true)] {
            if aligned(x) {
                return (x.clone(), transposed);
            }
        }
        for (x, transposed) in [(m, false), (&t, true)] {
            if usable(x) {
                return (x.clone(), transposed);
            }
        }
        // keeps the orientation in which the source is contiguous: the copy then streams
        let (from, transposed) = if !m.has_unit_cols() && t.has_unit_cols() { (&t, true) } else { (m, false) };
        let to = self.scratch(name, from);
        self.copy(from, &to);
        (to, transposed)
    }
}

impl Work {
    fn new(p: &Problem) -> Option<Work> {
        let (a, b, out) = (p.operands[A].as_ref()?, p.operands[B].as_ref()?, p.operands[OUT].as_ref()?);
        let beta = p.float("beta") as f32;
        let c = p.operands[C].as_ref().filter(|_| beta != 0.0);
        let mut descs = vec![a, b, out];
        descs.extend(c);
        let (extents, outer) = collapse_batch(&descs)?;
        let mut work = Work {
            a: matrix(Buffer::Operand(A), a, outer[0]),
            b: matrix(Buffer::Operand(B), b, outer[1]),
            out: matrix(Buffer::Operand(OUT), out, outer[2]),
            c: c.map(|c| matrix(Buffer::Operand(C), c, outer[3])),
            extents,
            alpha: p.float("alpha") as f32,
            beta,
        };
        if !work.out.has_unit_cols() && work.out.row_stride == 1 {
            // out^T = b^T a^T
            (work.a, work.b) = (work.b.transposed(), work.a.transposed());
            work.out = work.out.transposed();
            work.c = work.c.map(|c| c.transposed());
        }
        Some(work)
    }

    fn plan(&self, base: Config, split_k: i64, caps: &DeviceCaps) -> Option<Plan> {
        let mut build = Builder { caps, extents: self.extents, steps: Vec::new(), workspace: Workspace::default() };
        let (m, n, k) = (self.out.rows, self.out.cols, self.a.cols);
        let (a, a_t) = build.operand("a", &self.a, base.arch);
        let (b, b_t) = build.operand("b", &self.b, base.arch);
        let config = Config { a_t, b_t, ..base };
        let (tiles_m, tiles_n) = (m.div_ceil(config.block_m.into()), n.div_ceil(config.block_n.into()));
        let matrices = self.extents[0] * self.extents[1];
        let tiles = tiles_m.checked_mul(tiles_n)?.checked_mul(matrices)?;
        let items = k.div_ceil(config.block_k.into());
        let splits = splits(split_k, tiles, items, caps);
        let per_split = items.div_ceil(splits).max(1);
        let splits = items.div_ceil(per_split).max(1);
        let programs = tiles.checked_mul(splits).filter(|&t| t <= i32::MAX as u64)?;
        // slices and a c that rows do not reach are handled by row kernels; the product itself wants contiguous rows
        let direct = splits == 1 && self.out.has_unit_cols() && self.c.as_ref().is_none_or(Matrix::has_unit_cols);
        // the kernel leaves sums in `partial` where it counts two slices or more: a product in one slice gets a second one, empty
        let slices = if direct { 1 } else { splits.max(2) };
        let null =
            MatrixView { buffer: None, row_stride: 0, plane_stride: 0, batch_stride: 0, rows: 0, cols: 0, planes: 0, batches: 0, aligned: false };
        let (out, c, partial) = if direct {
            (self.out.view(self.extents), self.c.as_ref().map_or(null.clone(), |c| c.view(self.extents)), None)
        } else {
            // a plane of the partial sums is (plane, slice)
            let plane = m * n;
            let buffer = build.workspace.push("partial", plane.checked_mul(slices)?.checked_mul(matrices)?.checked_mul(4)?);
            let outer = [plane as i64, (plane * slices * self.extents[0]) as i64];
            let p = Matrix { buffer, alignment: 256, row_stride: n as i64, col_stride: 1, outer, dtype: DType::F32, ..self.out.clone() };
            (null.clone(), null.clone(), Some(p))
        };
        let partial_view = partial.as_ref().map_or(null, |p| p.view([self.extents[0] * slices, self.extents[1]]));
        let args = vec![
            ("a", Arg::View(a.view(self.extents))),
            ("b", Arg::View(b.view(self.extents))),
            ("out", Arg::View(out)),
            ("c", Arg::View(c)),
            ("partial", Arg::View(partial_view)),
            ("alpha", Arg::F32(self.alpha)),
            ("beta", Arg::F32(if self.c.is_some() { self.beta } else { 0.0 })),
            ("m", Arg::I32(m as i32)),
            ("n", Arg::I32(n as i32)),
            ("k", Arg::I32(k as i32)),
            ("planes", Arg::I32(self.extents[0] as i32)),
            ("batches", Arg::I32(self.extents[1] as i32)),
            ("tiles_m", Arg::I32(tiles_m as i32)),
            ("tiles_n", Arg::I32(tiles_n as i32)),
            ("band", Arg::I32(band(&config, k))),
            ("splits", Arg::I32(slices as i32)),
            ("split_k", Arg::I32((per_split * u64::from(config.block_k)).min(i32::MAX as u64) as i32)),
        ];
        let programs = if direct { programs } else { tiles * slices };
        let maps = if config.arch == Arch::Sm90 {
            let store = if direct && config.dtype.size() == 2 {
                self.out.map(self.extents, [TILE_PANEL, 64])
            } else {
                TensorMap { buffer: None, dtype: config.dtype, dims: [1; 4], strides: [16; 3], boxes: [1; 4], swizzle128: false }
            };
            vec![
                // rows of a box are rows of the tile as it is stored
                a.map(self.extents, [TILE_PANEL, if config.a_t { config.block_k } else { config.block_m }]),
                b.map(self.extents, [TILE_PANEL, if config.b_t { config.block_n } else { config.block_k }]),
                store,
            ]
        } else {
            Vec::new()
        };
        let blocks = if config.arch == Arch::Sm90 { programs.min(caps.units.into()) } else { programs };
        build.steps.push(Step::Launch(Launch {
            kernel: config.id(caps.target),
            programs,
            blocks,
            threads: config.threads(),
            cluster: 1,
            shared: config.shared(),
            args,
            maps,
        }));
        if let Some(p) = partial {
            build.steps.push(Step::Launch(self.reduce(&p, slices, caps.target)));
        }
        let split_tag = if splits > 1 { format!(".s{splits}") } else { String::new() };
        Some(Plan { tag: format!("{}{split_tag}", config.tag()), target: caps.target, steps: build.steps, workspace: build.workspace })
    }

    /// The step that adds the slices, in order.
    fn reduce(&self, partial: &Matrix, splits: u64, target: Target) -> Launch {
        let shape = reduce_shape();
        let (m, n) = (self.out.rows, self.out.cols);
        let space = RowSpace { n, outer: [self.extents[1], self.extents[0], m] };
        let in_rows =
            RowsView { buffer: Some(partial.buffer), stride: 1, outer: [partial.outer[1], partial.outer[0] * splits as i64, partial.row_stride] };
        let lead = 16 / self.out.dtype.size() - 1;
        let stretches = (n + lead).div_ceil(shape.tile());
        let programs = space.rows() * stretches;
        let none = RowsView { buffer: None, stride: 0, outer: [0; 3] };
        let args = vec![
            ("partial", Arg::Rows(in_rows)),
            ("out", Arg::Rows(self.out.as_rows())),
            ("c", Arg::Rows(self.c.as_ref().map_or(none, Matrix::as_rows))),
            ("space", Arg::Space(space)),
            ("slice", Arg::I64(partial.outer[0])),
            ("stretches", Arg::I64(stretches as i64)),
            ("programs", Arg::I64(programs as i64)),
            ("alpha", Arg::F32(self.alpha)),
            ("beta", Arg::F32(if self.c.is_some() { self.beta } else { 0.0 })),
            ("splits", Arg::I32(splits as i32)),
            ("reserved", Arg::I32(0)),
        ];
        rows::launch(reduce_id(self.out.dtype, target), shape, programs, 1, args)
    }
}

fn reduce_shape() -> RowShape {
    RowShape::new(128, 1, 1, vec_of(DType::F32))
}

fn reduce_id(dtype: DType, target: Target) -> KernelId {
    KernelId { kernel: "matmul_reduce", tag: format!("{dtype}.{}", reduce_shape().tag()), target }
}

/// Slices of k: as many as asked for, or so many that a small grid fills the device with at least four items each.
fn splits(asked: i64, tiles: u64, items: u64, caps: &DeviceCaps) -> u64 {
    if asked > 0 {
        return (asked as u64).min(items.max(1));
    }
    let units = u64::from(caps.units);
    if caps.target.arch() == Arch::Host || tiles * 2 > units { 1 } else { (units / tiles.max(1)).min(items / 4).clamp(1, 32) }
}

/// Rows of tiles that are walked together, so that a wave of blocks shares operands in the L2.
fn band(_: &Config, k: u64) -> i32 {
    if k > 8192 { 4 } else { 8 }
}

impl Op for Matmul {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        let (Some(a), Some(b), None) = (problem.operand("a"), problem.operand("b"), problem.operand("out")) else {
            return Ok(problem);
        };
        for (operand, d) in [("a", a), ("b", b)] {
            if d.rank() < 2 {
                return Err(DescError { operand, rule: Rule::RankAtLeast, got: d.to_string(), expected: "two dimensions or more".into() });
            }
        }
        let mut shape = a.shape.clone();
        shape[a.rank() - 1] = b.shape[b.rank() - 1];
        let out = TensorDesc::contiguous(a.dtype, &shape);
        Ok(problem.with("out", out))
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let (Some(a), Some(b), Some(out)) = (p.operand("a"), p.operand("b"), p.operand("out")) else {
            return Ok(());
        };
        let err = |operand, rule, got: String, expected: String| Err(DescError { operand, rule, got, expected });
        if !DTYPES.contains(&a.dtype) {
            return err("a", Rule::DTypeSupported, a.dtype.to_string(), "bf16, f16 or f32".into());
        }
        if p.float("beta") != 0.0 && p.operand("c").is_none() {
            return err("c", Rule::Present, "nothing".into(), "a matrix, since beta is not 0".into());
        }
        for name in ["alpha", "beta"] {
            if (p.float(name) as f32).is_infinite() && p.float(name).is_finite() {
                return err(if name == "alpha" { "alpha" } else { "beta" }, Rule::ValueInRange, format!("{:e}", p.float(name)), "a float32".into());
            }
        }
        if a.rank() < 2 {
            return err("a", Rule::RankAtLeast, a.to_string(), "two dimensions or more".into());
        }
        let lead = a.rank() - 2;
        for (name, d) in [("b", Some(b)), ("c", p.operand("c")), ("out", Some(out))] {
            let Some(d) = d else { continue };
            if d.dtype != a.dtype {
                return err(name, Rule::SameDType, d.dtype.to_string(), a.dtype.to_string());
            }
            if d.rank() != a.rank() || d.shape[..lead] != a.shape[..lead] {
                return err(name, Rule::ShapeMatches, d.to_string(), format!("the leading dimensions of {a}; stride 0 repeats a matrix"));
            }
        }
        if b.shape[lead] != a.shape[lead + 1] {
            return err("b", Rule::ShapeMatches, format!("K = {}", b.shape[lead]), format!("K = {} of a", a.shape[lead + 1]));
        }
        for (name, d) in [("c", p.operand("c")), ("out", Some(out))] {
            if let Some(d) = d
                && d.shape[lead..] != [a.shape[lead], b.shape[lead + 1]]
            {
                return err(name, Rule::ShapeMatches, d.to_string(), format!("[.., {}, {}]", a.shape[lead], b.shape[lead + 1]));
            }
        }
        let limit = i32::MAX as u64 - 512; // room for a tile behind the last one
        for (name, d) in [("a", a), ("b", b)] {
            if let Some(&n) = d.shape.iter().find(|&&n| n > limit) {
                return err(name, Rule::ExtentInRange, n.to_string(), format!("at most {limit}"));
            }
        }
        let mut descs = vec![a, b, out];
        descs.extend(p.operand("c").filter(|_| p.float("beta") != 0.0));
        match collapse_batch(&descs) {
            None => err(
                "a",
                Rule::CollapsesToPlanes,
                a.to_string(),
                "two leading dimensions or fewer, after merging those that one stride describes".into(),
            ),
            Some((extents, _)) if extents.iter().any(|&n| n > limit) => {
                err("a", Rule::ExtentInRange, format!("{extents:?} matrices"), format!("at most {limit}"))
            }
            Some(_) => Ok(()),
        }
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        if p.operand("out").is_some_and(TensorDesc::is_empty) {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        let Some(work) = Work::new(p) else {
            return Ok(Vec::new());
        };
        let mut configs = config::configs(caps.target, work.a.dtype);
        configs.retain(|c| c.shared() <= caps.shared_memory);
        let (m, n) = (work.out.rows, work.out.cols);
        let matrices = work.extents[0] * work.extents[1];
        // stable: configs of equal cost stay in the order of the table
        configs.sort_by_key(|c| c.cost(m, n, matrices, caps.units));
        let plans: Vec<Plan> = configs.into_iter().filter_map(|c| work.plan(c, p.int("split_k"), caps)).collect();
        if plans.is_empty() {
            return Err(Unsupported { op: "matmul", target: caps.target, what: format!("no variant computes {}", **p) });
        }
        Ok(plans)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        let mut all: Vec<Variant> = copy::variants(target);
        for dtype in DTYPES {
            let shape = reduce_shape();
            let config = format!(".out = ww::dtype::{dtype}, .threads = {}, .chunks = {}, .vec = {}", shape.threads, shape.chunks, shape.vec);
            let set = if dtype == DType::BF16 { BuildSet::Ci } else { BuildSet::Full };
            let names = ["MatmulReduce", "MatmulReduceConfig"];
            all.push(rows::variant(reduce_id(dtype, target), shape, "ops/matmul_reduce.h", names, config, set));
            for (i, base) in config::configs(target, dtype).into_iter().enumerate() {
                for (a_t, b_t) in [(false, false), (false, true), (true, false), (true, true)] {
                    let c = Config { a_t, b_t, ..base };
                    let ci = dtype != DType::F16 && i == 0 && !a_t && !b_t;
                    all.push(c.variant(target, if ci { BuildSet::Ci } else { BuildSet::Full }));
                }
            }
        }
        all
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        match kernel {
            "matmul" => PARAMS,
            "matmul_reduce" => REDUCE_PARAMS,
            "copy" => copy::PARAMS,
            _ => &[],
        }
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], _: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, ranges)
    }

    fn multiplies_matrices(&self) -> bool {
        true
    }

    fn exact(&self, p: &Problem) -> bool {
        let exact = |x: f64| [0.0, 0.5, 1.0, 2.0, 4.0].contains(&x.abs());
        exact(p.float("alpha")) && exact(p.float("beta"))
    }

    fn flops(&self, p: &Problem) -> u64 {
        let (Some(a), Some(out)) = (p.operand("a"), p.operand("out")) else {
            return 0;
        };
        2 * out.len() * a.shape.last().copied().unwrap_or(0)
    }
}
