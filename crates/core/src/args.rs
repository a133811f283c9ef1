//! The argument block of a kernel: the fields of the template's `Params`, in order, laid out as C does.

use crate::Target;

/// A piece of device memory that a step names: an operand of the problem, or a slice of the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Buffer {
    /// Operand number, in the order of the op's signature.
    Operand(usize),
    /// Slice number of the plan's workspace.
    Workspace(usize),
    /// The queue's error word, 4 bytes: a kernel that meets an index out of range stores the operand's number + 1 there.
    Error,
}

/// `ww::view`: a matrix operand. Strides in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of ww::view, in order")]
pub struct MatrixView {
    /// `None`: a null pointer, for an operand that is not given.
    pub buffer: Option<Buffer>,
    pub row_stride: i64,
    pub plane_stride: i64,
    pub batch_stride: i64,
    pub rows: u32,
    pub cols: u32,
    pub planes: u32,
    pub batches: u32,
    /// Base and pitches are multiples of 16 bytes.
    pub aligned: bool,
}

/// `ww::column_view`: one value for each row of a matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of ww::column_view, in order")]
pub struct ColumnView {
    pub buffer: Option<Buffer>,
    pub plane_stride: i64,
    pub batch_stride: i64,
    pub rows: u32,
}

/// `ww::rows_view`: an operand of a row op. Strides in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of ww::rows_view, in order")]
pub struct RowsView {
    pub buffer: Option<Buffer>,
    pub stride: i64,
    pub outer: [i64; 3],
}

/// `ww::index_view`: indices in device memory. The stride in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of ww::index_view, in order")]
pub struct IndexView {
    pub buffer: Option<Buffer>,
    pub stride: i64,
    /// 64 bits, not 32.
    pub wide: bool,
}

/// `ww::row_space`: width and outer extents that the operands of a row op share.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields of ww::row_space, in order")]
pub struct RowSpace {
    pub n: u64,
    pub outer: [u64; 3],
}

impl RowSpace {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.outer.iter().product()
    }
}

/// The value of one field.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "named after the C++ types")]
pub enum Arg {
    View(MatrixView),
    Column(ColumnView),
    Rows(RowsView),
    Space(RowSpace),
    Index(IndexView),
    Pointer(Option<Buffer>),
    I64(i64),
    I32(i32),
    F32(f32),
    F64(f64),
}

/// The type of one field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named after the C++ types")]
pub enum ArgType {
    View,
    Column,
    Rows,
    Space,
    Index,
    Pointer,
    I64,
    I32,
    F32,
    F64,
}

impl ArgType {
    /// Bytes of the C++ type.
    pub const fn size(self) -> usize {
        match self {
            ArgType::View => 56,
            ArgType::Column => 32,
            ArgType::Rows => 40,
            ArgType::Space => 32,
            ArgType::Index => 24,
            ArgType::Pointer | ArgType::I64 | ArgType::F64 => 8,
            ArgType::I32 | ArgType::F32 => 4,
        }
    }
    /// Alignment of the C++ type, in bytes.
    pub const fn align(self) -> usize {
        match self {
            ArgType::I32 | ArgType::F32 => 4,
            _ => 8,
        }
    }
}

/// One field of a `Params` struct: its C++ name and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// C++ name.
    pub name: &'static str,
    /// C++ type.
    pub ty: ArgType,
}

impl Param {
    /// A field.
    pub const fn new(name: &'static str, ty: ArgType) -> Self {
        Param { name, ty }
    }
}

/// Offset of each field and the size of the struct, by the rules of C. The generated translation units assert the same on their side.
pub fn layout(params: &[Param]) -> (Vec<usize>, usize) {
    let mut at = 0usize;
    let mut align = 1;
    let offsets = params
        .iter()
        .map(|p| {
            at = at.next_multiple_of(p.ty.align());
            align = align.max(p.ty.align());
            let here = at;
            at += p.ty.size();
            here
        })
        .collect();
    (offsets, at.next_multiple_of(align))
}

/// Arguments that do not fit the parameters they are for: a fault of a plan, never of a caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("argument {index} of {kernel}: {what}")]
#[allow(missing_docs, reason = "the message names them")]
pub struct EncodeError {
    pub kernel: String,
    pub index: usize,
    pub what: String,
}

impl Arg {
    /// The type of the field that this value fits.
    pub const fn ty(&self) -> ArgType {
        match self {
            Arg::View(_) => ArgType::View,
            Arg::Column(_) => ArgType::Column,
            Arg::Rows(_) => ArgType::Rows,
            Arg::Space(_) => ArgType::Space,
            Arg::Index(_) => ArgType::Index,
            Arg::Pointer(_) => ArgType::Pointer,
            Arg::I64(_) => ArgType::I64,
            Arg::I32(_) => ArgType::I32,
            Arg::F32(_) => ArgType::F32,
            Arg::F64(_) => ArgType::F64,
        }
    }

    /// The buffer that the field points into.
    pub const fn buffer(&self) -> Option<Buffer> {
        match self {
            Arg::View(MatrixView { buffer, .. })
            | Arg::Column(ColumnView { buffer, .. })
            | Arg::Rows(RowsView { buffer, .. })
            | Arg::Index(IndexView { buffer, .. })
            | Arg::Pointer(buffer) => *buffer,
            _ => None,
        }
    }
}

/// The bytes of an argument block; `address` gives the device address of a buffer.
pub fn encode(args: &[Arg], address: &dyn Fn(Buffer) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut align = 1;
    for arg in args {
        let ty = arg.ty();
        align = align.max(ty.align());
        out.resize(out.len().next_multiple_of(ty.align()), 0);
        let p = |b: &Option<Buffer>| b.map_or(0, address).to_le_bytes();
        match arg {
            Arg::View(v) => {
                out.extend(p(&v.buffer));
                for s in [v.row_stride, v.plane_stride, v.batch_stride] {
                    out.extend(s.to_le_bytes());
                }
                for n in [v.rows, v.cols, v.planes, v.batches, u32::from(v.aligned), 0] {
                    out.extend(n.to_le_bytes());
                }
            }
            Arg::Column(v) => {
                out.extend(p(&v.buffer));
                out.extend(v.plane_stride.to_le_bytes());
                out.extend(v.batch_stride.to_le_bytes());
                out.extend(v.rows.to_le_bytes());
                out.extend(0u32.to_le_bytes());
            }
            Arg::Rows(v) => {
                out.extend(p(&v.buffer));
                out.extend(v.stride.to_le_bytes());
                for s in v.outer {
                    out.extend(s.to_le_bytes());
                }
            }
            Arg::Space(s) => {
                out.extend(s.n.to_le_bytes());
                for n in s.outer {
                    out.extend(n.to_le_bytes());
                }
            }
            Arg::Index(v) => {
                out.extend(p(&v.buffer));
                out.extend(v.stride.to_le_bytes());
                out.extend(u64::from(v.wide).to_le_bytes());
            }
            Arg::Pointer(b) => out.extend(p(b)),
            Arg::I64(x) => out.extend(x.to_le_bytes()),
            Arg::I32(x) => out.extend(x.to_le_bytes()),
            Arg::F32(x) => out.extend(x.to_le_bytes()),
            Arg::F64(x) => out.extend(x.to_le_bytes()),
        }
    }
    out.resize(out.len().next_multiple_of(align), 0);
    out
}

impl Target {
    /// Where the tensor maps begin behind an argument block of `bytes` bytes; `None` where the target has none.
    pub fn maps_offset(self, bytes: usize) -> Option<usize> {
        (self == Target::Sm90a).then(|| bytes.next_multiple_of(64))
    }
}
