//! What row ops share: shapes of blocks, launches, the `copy` kernel.

use warpwave_core::{
    Arg, ArgType, Buffer, BuildSet, DType, DescError, DeviceCaps, KernelId, Launch, Param, Problem, RowOperand, RowSpace, RowsView, Rule, Target,
    TensorDesc, Variant, Vendor, collapse_rows,
};

/// `ww::RowShape`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowShape {
    pub(crate) threads: u32,
    pub(crate) groups: u32,
    pub(crate) chunks: u32,
    pub(crate) vec: u32,
}

impl RowShape {
    pub(crate) const fn new(threads: u32, groups: u32, chunks: u32, vec: u32) -> Self {
        RowShape { threads, groups, chunks, vec }
    }
    /// Elements of a tile.
    pub(crate) const fn tile(self) -> u64 {
        (self.threads * self.chunks * self.vec) as u64
    }
    /// Threads of a block.
    pub(crate) const fn block(self) -> u32 {
        self.threads * self.groups
    }
    /// `256x4x8`, with `g8` where a block holds several groups.
    pub(crate) fn tag(self) -> String {
        let groups = if self.groups > 1 { format!("g{}", self.groups) } else { String::new() };
        format!("{}x{}x{}{groups}", self.threads, self.chunks, self.vec)
    }
}

/// Elements of 16 bytes.
pub(crate) const fn vec_of(dtype: DType) -> u32 {
    (16 / dtype.size()) as u32
}

/// How many elements before a row's first one its tiling may begin: none where every row starts on 16 bytes.
pub(crate) fn max_lead(desc: &TensorDesc, view: &RowsView, space: &RowSpace) -> u64 {
    let size = desc.dtype.size();
    let aligned = desc.alignment() >= 16 && view.outer.iter().zip(space.outer).all(|(&s, n)| n <= 1 || (s as u64 * size).is_multiple_of(16));
    if view.stride != 1 || aligned { 0 } else { 16 / size - 1 }
}

/// Whether rows have stride 1 and each begins at one distance from a multiple of 16 bytes in all operands: what an op with a ring asks for.
pub(crate) fn lie_alike(descs: &[&TensorDesc], views: &[RowsView], space: &RowSpace) -> bool {
    let (first, rest) = (descs[0], &descs[1..]);
    // modulo 2^64: only the remainder by 16 counts
    let apart = |a: i64, b: i64| (a.wrapping_sub(b) as u64).wrapping_mul(first.dtype.size());
    let alike = |d: &TensorDesc, v: &RowsView| {
        let outer = space.outer.iter().zip(v.outer.iter().zip(views[0].outer)).all(|(&n, (&a, b))| n <= 1 || apart(a, b).is_multiple_of(16));
        d.dtype == first.dtype && apart(d.offset as i64, first.offset as i64).is_multiple_of(16) && outer
    };
    views.iter().all(|v| v.stride == 1) && rest.iter().zip(&views[1..]).all(|(d, v)| alike(d, v))
}

/// A launch of a row kernel.
pub(crate) fn launch(kernel: KernelId, shape: RowShape, programs: u64, cluster: u32, args: Vec<(&'static str, Arg)>) -> Launch {
    let mut blocks = programs.div_ceil(shape.groups.into()) * u64::from(cluster);
    if kernel.target.vendor() == Vendor::Hip {
        // a dispatch counts its threads in 32 bits; a block walks on by the size of the grid
        blocks = blocks.min(u64::from(u32::MAX / shape.block()));
    }
    Launch { kernel, programs, blocks, threads: shape.block(), cluster, shared: 0, args, maps: Vec::new() }
}

/// What a variant of a row kernel has in common with every other.
pub(crate) fn variant(id: KernelId, shape: RowShape, header: &'static str, names: [&'static str; 2], config: String, set: BuildSet) -> Variant {
    let arch = id.target.arch();
    Variant { id, arch, header, template: names[0], config_type: names[1], config, threads: shape.block(), shared: 0, set }
}

pub(crate) fn operand<'a>(name: &'static str, desc: &'a TensorDesc) -> RowOperand<'a> {
    RowOperand { name, desc }
}

/// The element types that row ops compute in on a target: float64 is the host's.
pub(crate) fn floats(target: Target) -> &'static [DType] {
    if target.vendor() == Vendor::Cpu { &[DType::F32, DType::F16, DType::BF16, DType::F64] } else { &[DType::F32, DType::F16, DType::BF16] }
}

/// The dtypes of examples, the host's float64 last.
pub(crate) const EXAMPLES: [DType; 4] = [DType::BF16, DType::F32, DType::F16, DType::F64];

/// Rows as several operands see them: the last dimension within, the others without. An operand of fewer dimensions than the first is the same in
/// each row; one that is not given is a null view.
///
/// # Errors
/// More outer dimensions than three.
pub(crate) fn rows_of(p: &Problem, names: &[&'static str], flatten: bool) -> Result<(RowSpace, Vec<RowsView>), DescError> {
    let none = RowsView { buffer: None, stride: 1, outer: [0; 3] };
    let Some(first) = names.first().and_then(|n| p.operand(n)) else {
        return Ok((RowSpace { n: 0, outer: [0; 3] }, vec![none; names.len()]));
    };
    let given: Vec<(usize, &'static str, TensorDesc)> = names
        .iter()
        .enumerate()
        .filter_map(|(i, name)| {
            let mut d = p.operand(name)?.clone();
            while d.rank() < first.rank() {
                d.shape.insert(0, first.shape[first.rank() - d.rank() - 1]);
                d.strides.insert(0, 0);
            }
            Some((i, *name, d))
        })
        .collect();
    let operands: Vec<RowOperand<'_>> = given.iter().map(|(_, name, desc)| RowOperand { name, desc }).collect();
    let (space, found) = collapse_rows(&operands, first.rank().saturating_sub(1), flatten)?;
    let mut views = vec![none; names.len()];
    for ((i, name, _), view) in given.iter().zip(found) {
        views[*i] = RowsView { buffer: p.index(name).map(Buffer::Operand), ..view };
    }
    Ok((space, views))
}

/// Checks that an operand, where it is given, is of one of some dtypes and has a shape.
///
/// # Errors
/// It has not.
pub(crate) fn expect(p: &Problem, name: &'static str, dtypes: &[DType], shape: &[u64]) -> Result<(), DescError> {
    let Some(d) = p.operand(name) else { return Ok(()) };
    let list = |all: &[DType]| all.iter().map(|d| d.name()).collect::<Vec<_>>().join(" or ");
    if !dtypes.contains(&d.dtype) {
        return Err(DescError { operand: name, rule: Rule::DTypeSupported, got: d.dtype.to_string(), expected: list(dtypes) });
    }
    if d.shape != shape {
        return Err(DescError { operand: name, rule: Rule::ShapeMatches, got: d.to_string(), expected: format!("{shape:?}") });
    }
    Ok(())
}

/// Gives an operand that is left out the layout that the op would allocate.
pub(crate) fn or_contiguous(p: Problem, name: &str, dtype: DType, shape: &[u64]) -> Problem {
    if p.operand(name).is_some() { p } else { p.with(name, TensorDesc::contiguous(dtype, shape)) }
}

/// A way to cut a reduction along rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reducing {
    pub(crate) shape: RowShape,
    /// The row stays in registers; otherwise it is read again.
    pub(crate) hold: bool,
    /// Several blocks may share a row.
    span: bool,
}

/// How a reduction along rows is cut: rows that a group holds in registers, narrow ones first, the last of them for clusters, too; and for longer
/// ones a shape that reads its row again. `per_thread`: how many elements of 16 bits a thread holds, 16 or 32; 16 of larger ones. A thread with 64
/// registers leaves room for 1024 on a multiprocessor: enough rows under way to fill the memory bus.
pub(crate) fn reducing(dtype: DType, per_thread: u32, target: Target) -> Vec<Reducing> {
    let vec = vec_of(dtype);
    let per = (8 / vec).max(1); // as many elements a thread for 4-byte types as for 2-byte ones
    let hold = |threads, groups, chunks| Reducing { shape: RowShape::new(threads, groups, chunks, vec), hold: true, span: false };
    // a wider tile of layer_norm spilled scalar registers on gfx942 (clang 19)
    let again = Reducing { hold: false, ..hold(256, 1, if target.vendor() == Vendor::Hip { per } else { 2 * per }) };
    if target.vendor() == Vendor::Cpu {
        return vec![hold(64, 1, per), hold(256, 1, 4 * per), again];
    }
    // 32 spilled on sm_100 (nvcc 13.5)
    let per_thread = if target == Target::Sm100 { 16 } else { per_thread };
    let chunks = if dtype == DType::F32 { 4 } else { per_thread / vec };
    let blocks: &[u32] = match (dtype, chunks * vec) {
        (_, 32) => &[128, 256, 512],
        (DType::F32, _) => &[128, 256, 512],
        _ => &[128, 256, 384, 512],
    };
    let mut all = vec![hold(32, 4, chunks)];
    all.extend(blocks.iter().map(|&threads| hold(threads, 1, chunks)));
    // with more elements a thread, clusters spilled
    all.push(Reducing { span: target.vendor() == Vendor::Cuda, ..hold(1024, 1, if dtype == DType::F32 { 4 } else { 16 / vec }) });
    all.push(again);
    all
}

/// The variants of an op over [`reducing`]'s shapes. `config` gives the config struct's other fields.
pub(crate) fn reducing_variants(
    kernel: &'static str,
    header: &'static str,
    names: [&'static str; 2],
    (flag, config): (&str, &str),
    per_thread: u32,
    target: Target,
) -> Vec<Variant> {
    let one = |dtype: DType, c: Reducing| {
        let s = c.shape;
        let fields = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {}, .span = {}{config}",
            s.threads, s.groups, s.chunks, s.vec, c.hold, c.span
        );
        let set = if dtype == DType::BF16 && s.threads == 256 { BuildSet::Ci } else { BuildSet::Full };
        variant(c.id(kernel, dtype, flag, target), s, header, names, fields, set)
    };
    floats(target).iter().flat_map(|&d| reducing(d, per_thread, target).into_iter().map(move |c| (d, c))).map(|(d, c)| one(d, c)).collect()
}

impl Reducing {
    fn id(self, kernel: &'static str, dtype: DType, flag: &str, target: Target) -> KernelId {
        KernelId { kernel, tag: format!("{dtype}.{}.{}{flag}", self.shape.tag(), if self.hold { "hold" } else { "online" }), target }
    }

    /// How many blocks share a row of `need` elements; `None` where that is not possible.
    fn cluster(self, need: u64, caps: &DeviceCaps) -> Option<u32> {
        let blocks = if self.hold { need.div_ceil(self.shape.tile()).next_power_of_two() } else { 1 };
        (blocks == 1 || self.span && blocks <= u64::from(caps.max_cluster)).then_some(blocks as u32)
    }
}

/// A launch for each way that is legal for rows of `need` elements and the plan's tag, best first: one group by itself, the narrowest that holds a
/// row; a cluster; a row that is read again.
pub(crate) fn reducing_launches(
    kernel: &'static str,
    (dtype, flag): (DType, &str),
    per_thread: u32,
    (rows, need): (u64, u64),
    args: &[(&'static str, Arg)],
    caps: &DeviceCaps,
) -> Vec<(Launch, String)> {
    let way = |c: Reducing| {
        let cluster = c.cluster(need, caps)?;
        let id = c.id(kernel, dtype, flag, caps.target);
        let tag = if cluster > 1 { format!("{}.c{cluster}", id.tag) } else { id.tag.clone() };
        Some((launch(id, c.shape, rows, cluster, args.to_vec()), tag))
    };
    reducing(dtype, per_thread, caps.target).into_iter().filter_map(way).collect()
}

pub(crate) mod copy {
    //! The step that changes a layout.
    use super::*;

    pub(crate) const PARAMS: &[Param] = &[
        Param::new("x", ArgType::Rows),
        Param::new("out", ArgType::Rows),
        Param::new("space", ArgType::Space),
        Param::new("stretches", ArgType::I64),
        Param::new("programs", ArgType::I64),
    ];

    fn shape(dtype: DType, n: u64) -> RowShape {
        if n <= 64 * u64::from(vec_of(dtype)) { RowShape::new(32, 8, 2, vec_of(dtype)) } else { RowShape::new(32, 4, 4, vec_of(dtype)) }
    }

    fn id(dtype: DType, shape: RowShape, target: Target) -> KernelId {
        KernelId { kernel: "copy", tag: format!("{dtype}.{}", shape.tag()), target }
    }

    pub(crate) fn variants(target: Target) -> Vec<Variant> {
        let mut all = Vec::new();
        for &dtype in floats(target) {
            for (n, set) in [(1, BuildSet::Full), (u64::MAX, BuildSet::Ci)] {
                let s = shape(dtype, n);
                let config =
                    format!(".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}", s.threads, s.groups, s.chunks, s.vec);
                let set = if dtype == DType::BF16 { set } else { BuildSet::Full };
                all.push(variant(id(dtype, s, target), s, "ops/copy.h", ["Copy", "CopyConfig"], config, set));
            }
        }
        all
    }

    /// Copies `x` to `out`, two views of one space. `lead` bounds the misalignment of `out`'s rows, in elements.
    pub(crate) fn step(dtype: DType, x: RowsView, out: RowsView, space: RowSpace, lead: u64, target: Target) -> Launch {
        let shape = shape(dtype, space.n);
        let stretches = (space.n + lead).div_ceil(shape.tile());
        let programs = space.rows() * stretches;
        let args = vec![
            ("x", Arg::Rows(x)),
            ("out", Arg::Rows(out)),
            ("space", Arg::Space(space)),
            ("stretches", Arg::I64(stretches as i64)),
            ("programs", Arg::I64(programs as i64)),
        ];
        launch(id(dtype, shape, target), shape, programs, 1, args)
    }
}
