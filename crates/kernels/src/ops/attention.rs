//! Attention forward, an experiment that holds the tile layer to what attention needs.

use std::ops::Range;
use warpwave_core::{
    Approx, Arch, Arg, ArgType, AttrKind, AttrSpec, Buffer, BuildSet, ColumnView, DType, DescError, DeviceCaps, Fill, KernelId, Launch, MatrixView,
    Op, OperandSpec, Param, Plan, Problem, Role, Rule, Signature, Source, Stage, Step, Target, TensorDesc, TensorMap, Unsupported, Valid, Variant,
    Workspace,
};

mod reference;

/// `out = softmax(scale · q kᵀ) v` and the natural logsumexp of each row. q, out [B, H, Lq, D], k and v [B, Hkv, Lk, D], lse [B, H, Lq] f32;
/// bf16 or f16, unit stride along D, D = 64 or 128. `causal` is aligned bottom-right. A row that sees no key gives 0 and -inf.
#[derive(Clone, Copy, Debug)]
pub struct Attention;

const SIGNATURE: Signature = Signature {
    op: "attention",
    operands: &[
        OperandSpec { name: "q", role: Role::Input, doc: "[B, H, Lq, D]" },
        OperandSpec { name: "k", role: Role::Input, doc: "[B, Hkv, Lk, D]" },
        OperandSpec { name: "v", role: Role::Input, doc: "[B, Hkv, Lk, D]" },
        OperandSpec { name: "out", role: Role::Output, doc: "[B, H, Lq, D]" },
        OperandSpec { name: "lse", role: Role::Output, doc: "[B, H, Lq] f32" },
    ],
    attrs: &[
        AttrSpec { name: "scale", kind: AttrKind::Float { default: 0.0 }, doc: "factor of the scores; 0: 1/sqrt(D)" },
        AttrSpec { name: "causal", kind: AttrKind::Bool { default: false }, doc: "query i sees keys j <= i + Lk - Lq" },
    ],
};

const PARAMS: &[Param] = &[
    Param::new("q", ArgType::View),
    Param::new("k", ArgType::View),
    Param::new("v", ArgType::View),
    Param::new("out", ArgType::View),
    Param::new("lse", ArgType::Column),
    Param::new("scale_log2", ArgType::F32),
    Param::new("queries", ArgType::I32),
    Param::new("keys", ArgType::I32),
    Param::new("planes", ArgType::I32),
    Param::new("batches", ArgType::I32),
    Param::new("heads_per_kv", ArgType::I32),
    Param::new("tiles_q", ArgType::I32),
    Param::new("band", ArgType::I32),
    Param::new("reserved", ArgType::I32),
    Param::new("queue", ArgType::Pointer),
];

const DTYPES: [DType; 2] = [DType::BF16, DType::F16];

/// The factor of the scores.
fn scale(p: &Problem) -> f64 {
    let d = p.operand("q").and_then(|q| q.shape.last().copied()).unwrap_or(1);
    if p.float("scale") == 0.0 { 1.0 / (d as f64).sqrt() } else { p.float("scale") }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Config {
    dtype: DType,
    arch: Arch,
    dim: u32,
    block_kv: u32,
    groups: u32,
    group_rows: u32,
    stages: u32,
    causal: bool,
}

fn configs(target: Target) -> Vec<Config> {
    let arch = target.arch();
    let mut all = Vec::new();
    for dtype in DTYPES {
        for dim in [64, 128] {
            for causal in [false, true] {
                let stages = match arch {
                    // one slot of keys and of values: two do not fit 64 KiB beside the queries
                    Arch::Gfx9 | Arch::Gfx11 if dim == 128 => 1,
                    _ => 2,
                };
                let (block_kv, groups, group_rows) = match arch {
                    Arch::Host => (32, 2, 32),
                    // three groups hide the latencies of the softmax best; the registers left set the keys
                    Arch::Sm90 => (if dim == 64 { 128 } else { 80 }, 3, 64),
                    Arch::Sm80 => (64, 1, 128),
                    Arch::Gfx9 => (64, 1, 64),
                    // 128 rows: fewer registers than 64 (clang 19: 214 and 256)
                    Arch::Gfx11 => (64, 1, if dim == 128 { 128 } else { 64 }),
                };
                all.push(Config { dtype, arch, dim, block_kv, groups, group_rows, stages, causal });
            }
        }
    }
    all
}

impl Config {
    fn id(&self, target: Target) -> KernelId {
        let causal = if self.causal { ".causal" } else { "" };
        let tag = format!("{}.d{}.{}x{}x{}{causal}", self.dtype, self.dim, self.groups, self.group_rows, self.block_kv);
        KernelId { kernel: "attention", tag, target }
    }

    fn threads(&self) -> u32 {
        match self.arch {
            Arch::Sm90 => 128 * (self.groups + 1),
            // one warp or wave for each 16 rows
            Arch::Sm80 | Arch::Gfx11 => self.group_rows / 16 * 32,
            Arch::Gfx9 | Arch::Host => 256,
        }
    }

    fn shared(&self) -> u32 {
        let (q, kv) = (self.groups * self.group_rows * self.dim * 2, self.block_kv * self.dim * 2);
        match self.arch {
            Arch::Host => 0,
            Arch::Sm90 => q + 2 * self.stages * kv + self.groups * 64 * 64 * 2 + 8 * 2 * (1 + 2 * self.stages) + 48,
            _ => q + 2 * self.stages * kv,
        }
    }
}

impl Op for Attention {
    fn signature(&self) -> Signature {
        SIGNATURE
    }

    fn stage(&self) -> Stage {
        Stage::Experimental
    }

    fn infer(&self, problem: Problem) -> Result<Problem, DescError> {
        let Some(q) = problem.operand("q").cloned() else {
            return Ok(problem);
        };
        let mut problem = problem;
        if problem.operand("out").is_none() {
            problem = problem.with("out", TensorDesc::contiguous(q.dtype, &q.shape));
        }
        if problem.operand("lse").is_none() {
            problem = problem.with("lse", TensorDesc::contiguous(DType::F32, &q.shape[..q.rank().saturating_sub(1)]));
        }
        Ok(problem)
    }

    fn check(&self, p: &Problem) -> Result<(), DescError> {
        let [Some(q), Some(k), Some(v), Some(out), Some(lse)] = &p.operands[..] else {
            return Ok(());
        };
        let err = |operand, rule, got: String, expected: String| Err(DescError { operand, rule, got, expected });
        if !DTYPES.contains(&q.dtype) {
            return err("q", Rule::DTypeSupported, q.dtype.to_string(), "bf16 or f16".into());
        }
        for (name, d) in [("q", q), ("k", k), ("v", v), ("out", out)] {
            if d.rank() != 4 {
                return err(name, Rule::RankInRange, d.to_string(), "four dimensions".into());
            }
            if d.dtype != q.dtype {
                return err(name, Rule::SameDType, d.dtype.to_string(), q.dtype.to_string());
            }
            if d.strides[3] != 1 && d.shape[3] > 1 {
                return err(name, Rule::ValueInRange, d.to_string(), "unit stride along the last dimension".into());
            }
            if let Some(&n) = d.shape.iter().find(|&&n| n > i32::MAX as u64 / 2) {
                return err(name, Rule::ExtentInRange, n.to_string(), format!("at most {}", i32::MAX / 2));
            }
        }
        if out.shape != q.shape {
            return err("out", Rule::SameShape, out.to_string(), q.to_string());
        }
        if v.shape != k.shape {
            return err("v", Rule::SameShape, v.to_string(), k.to_string());
        }
        if k.shape[0] != q.shape[0] || k.shape[3] != q.shape[3] {
            return err("k", Rule::ShapeMatches, k.to_string(), format!("B and D of {q}"));
        }
        if k.shape[1] == 0 || !q.shape[1].is_multiple_of(k.shape[1]) {
            return err("k", Rule::ShapeMatches, format!("{} heads", k.shape[1]), format!("a divisor of {} query heads", q.shape[1]));
        }
        if lse.dtype != DType::F32 || lse.shape != q.shape[..3] || (lse.shape[2] > 1 && lse.strides[2] != 1) {
            return err("lse", Rule::ShapeMatches, lse.to_string(), format!("f32, the first three dimensions of {q}, unit stride along the last"));
        }
        Ok(())
    }

    fn plans(&self, p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
        let [Some(q), Some(k), Some(v), Some(out), Some(lse)] = &p.operands[..] else {
            return Ok(Vec::new());
        };
        if lse.is_empty() {
            return Ok(vec![Plan::empty(caps.target)]);
        }
        let unsupported = |what: String| Unsupported { op: "attention", target: caps.target, what };
        let view = |i: usize, d: &TensorDesc| {
            let on16 = |j: usize| d.shape[j] <= 1 || (d.strides[j] > 0 && (d.strides[j] as u64 * d.dtype.size()).is_multiple_of(16));
            MatrixView {
                buffer: Some(Buffer::Operand(i)),
                row_stride: d.strides[2],
                plane_stride: d.strides[1],
                batch_stride: d.strides[0],
                rows: d.shape[2] as u32,
                cols: d.shape[3] as u32,
                planes: d.shape[1] as u32,
                batches: d.shape[0] as u32,
                aligned: d.alignment() >= 16 && (0..3).all(on16),
            }
        };
        let views = [view(0, q), view(1, k), view(2, v), view(3, out)];
        let causal = p.flag("causal");
        let plans = configs(caps.target)
            .into_iter()
            .filter(|c| c.dtype == q.dtype && u64::from(c.dim) == q.shape[3] && c.causal == causal && c.shared() <= caps.shared_memory)
            .filter(|c| c.arch != Arch::Sm90 || views[..3].iter().all(|v| v.aligned))
            .map(|c| {
                let block_q = c.groups * c.group_rows;
                let tiles_q = q.shape[2].div_ceil(block_q.into());
                let tiles = tiles_q * q.shape[0] * q.shape[1];
                let mut workspace = Workspace::default();
                let mut steps = Vec::new();
                let queue = (causal && c.arch == Arch::Sm90).then(|| workspace.push("queue", 4));
                if let Some(buffer) = queue {
                    steps.push(Step::Fill(Fill { buffer, bytes: 4, value: 0 }));
                }
                let map = |i: usize, rows: u32| {
                    let v = &views[i];
                    let pitch = |n: u32, s: i64| if n <= 1 { 16 } else { s as u64 * 2 };
                    TensorMap {
                        buffer: v.aligned.then_some(Buffer::Operand(i)),
                        dtype: c.dtype,
                        dims: [v.cols.into(), v.rows.into(), v.planes.into(), v.batches.into()],
                        strides: [pitch(v.rows, v.row_stride), pitch(v.planes, v.plane_stride), pitch(v.batches, v.batch_stride)],
                        boxes: [64, rows, 1, 1],
                        swizzle128: true,
                    }
                };
                let maps = if c.arch == Arch::Sm90 { vec![map(0, block_q), map(1, c.block_kv), map(2, c.block_kv), map(3, 64)] } else { Vec::new() };
                let lse_view = ColumnView {
                    buffer: Some(Buffer::Operand(4)),
                    plane_stride: lse.strides[1],
                    batch_stride: lse.strides[0],
                    rows: lse.shape[2] as u32,
                };
                let args = vec![
                    ("q", Arg::View(views[0].clone())),
                    ("k", Arg::View(views[1].clone())),
                    ("v", Arg::View(views[2].clone())),
                    ("out", Arg::View(views[3].clone())),
                    ("lse", Arg::Column(lse_view)),
                    ("scale_log2", Arg::F32((scale(p) * std::f64::consts::LOG2_E) as f32)),
                    ("queries", Arg::I32(q.shape[2] as i32)),
                    ("keys", Arg::I32(k.shape[2] as i32)),
                    ("planes", Arg::I32(q.shape[1] as i32)),
                    ("batches", Arg::I32(q.shape[0] as i32)),
                    ("heads_per_kv", Arg::I32((q.shape[1] / k.shape[1]) as i32)),
                    ("tiles_q", Arg::I32(tiles_q as i32)),
                    ("band", Arg::I32(16)),
                    ("reserved", Arg::I32(0)),
                    ("queue", Arg::Pointer(queue)),
                ];
                steps.push(Step::Launch(Launch {
                    kernel: c.id(caps.target),
                    programs: tiles,
                    blocks: if c.arch == Arch::Sm90 { tiles.min(caps.units.into()) } else { tiles },
                    threads: c.threads(),
                    cluster: 1,
                    shared: c.shared(),
                    args,
                    maps,
                }));
                Plan { tag: c.id(caps.target).tag, target: caps.target, steps, workspace }
            })
            .collect::<Vec<_>>();
        if plans.is_empty() {
            return Err(unsupported(format!("D = {} in this layout", q.shape[3])));
        }
        Ok(plans)
    }

    fn variants(&self, target: Target) -> Vec<Variant> {
        configs(target)
            .into_iter()
            .map(|c| Variant {
                id: c.id(target),
                arch: c.arch,
                header: "ops/attention.h",
                template: "Attention",
                config_type: "AttentionConfig",
                config: format!(
                    ".type = ww::dtype::{}, .dim = {}, .block_kv = {}, .groups = {}, .group_rows = {}, .stages = {}, .causal = {}, .overlap = {}",
                    c.dtype,
                    c.dim,
                    c.block_kv,
                    c.groups,
                    c.group_rows,
                    c.stages,
                    c.causal,
                    !matches!(c.arch, Arch::Gfx9 | Arch::Gfx11)
                ),
                threads: c.threads(),
                shared: c.shared(),
                set: if c.dtype == DType::BF16 && c.dim == 128 && !c.causal { BuildSet::Ci } else { BuildSet::Full },
            })
            .collect()
    }

    fn params(&self, kernel: &str) -> &'static [Param] {
        if kernel == "attention" { PARAMS } else { &[] }
    }

    fn multiplies_matrices(&self) -> bool {
        true
    }

    fn reference(&self, p: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx> {
        reference::reference(p, inputs, output, ranges)
    }

    fn flops(&self, p: &Problem) -> u64 {
        let (Some(q), Some(k)) = (p.operand("q"), p.operand("k")) else {
            return 0;
        };
        let all = 4 * q.len() * k.shape.get(2).copied().unwrap_or(0);
        if p.flag("causal") { all / 2 } else { all }
    }
}
