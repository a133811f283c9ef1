//! Named lists of problems.

use clap::ValueEnum;

/// A list of problems.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Suite {
    /// Ops that memory limits: vector_add, softmax, copies
    Memory,
    /// Products in bf16, on NVIDIA also by the schedule of sm_80
    Matmul,
    /// Attention forward in bf16
    Attention,
    /// Row ops over widths from 512 to 262144 and their neighbours n + 1 and n + 7, at 256 MB each: is there a cliff?
    Widths,
    /// A second's worth of small problems
    Smoke,
}

/// One row of a suite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) problem: String,
    /// Beside the first plan, the first whose tag ends so.
    pub(crate) also: Option<&'static str>,
}

impl Row {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Row { problem: problem.into(), also: None }
    }
}

const PRODUCTS: [[u64; 3]; 11] = [
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [4096, 14336, 4096],
    [8192, 8192, 1024],
    [2048, 2048, 2048],
    [4095, 4097, 4093],
    [1000, 1000, 1000],
    [512, 1024, 768],
    [128, 28672, 8192],
    [16, 8192, 8192],
    [1, 8192, 8192],
];

const ATTENTION: [[u64; 4]; 3] = [[4, 16, 4096, 128], [1, 16, 16384, 128], [4, 16, 4096, 64]];

/// Problems of a row op with rows of `n` elements, about `bytes` in all.
fn wide(op: &str, n: u64, bytes: u64) -> Option<String> {
    // bytes of an element's way through the op, and the operands as strings of R rows
    let (per, text): (u64, &str) = match op {
        "softmax" => (4, "x=bf16[R,N]"),
        "softmax_bwd" => (6, "y=bf16[R,N] dy=bf16[R,N]"),
        "rms_norm" => (4, "x=bf16[R,N] w=bf16[N]"),
        "rms_norm_bwd" => (6, "x=bf16[R,N] w=bf16[N] dy=bf16[R,N]"),
        "add_rms_norm" => (8, "x=bf16[R,N] residual=bf16[R,N] w=bf16[N]"),
        "layer_norm" => (4, "x=bf16[R,N] gamma=bf16[N] beta=bf16[N]"),
        "layer_norm_bwd" => (6, "x=bf16[R,N] gamma=bf16[N] dy=bf16[R,N]"),
        "silu_mul" => (6, "gate=bf16[R,N] up=bf16[R,N]"),
        "cross_entropy" => (2, "x=bf16[R,N] labels=i64[R] reduction=none"),
        _ => return None,
    };
    let rows = bytes.div_ceil(per * n);
    Some(format!("{op} {}", text.replace("R,", &format!("{rows},")).replace("[R]", &format!("[{rows}]")).replace('N', &n.to_string())))
}

fn product([m, n, k]: [u64; 3]) -> String {
    format!("matmul a=bf16[{m},{k}] b=bf16[{k},{n}]")
}

fn attention([b, h, n, d]: [u64; 4], causal: bool) -> String {
    let t = format!("bf16[{b},{h},{n},{d}]");
    format!("attention q={t} k={t} v={t}{}", if causal { " causal=true" } else { "" })
}

impl Suite {
    pub(crate) fn rows(self) -> Vec<Row> {
        match self {
            Suite::Memory => {
                let mut all = vec![
                    "vector_add x=f32[268435456] y=f32[268435456]".to_owned(),
                    "softmax x=f32[1823,781]".into(),
                    "softmax x=bf16[8192,8192]".into(),
                    "softmax x=bf16[4096,32768]".into(),
                    "softmax x=bf16[512,128256]".into(),
                    "softmax x=bf16[8191,1000]".into(),
                    "softmax x=bf16[8191,1001]".into(),
                ];
                all.extend((0..3).map(|kind| {
                    let y = if kind == 2 { " y=f32[268435456]" } else { "" };
                    format!("roof x=f32[268435456]{y} kind={kind}")
                }));
                all.into_iter().map(Row::new).collect()
            }
            Suite::Matmul => PRODUCTS.into_iter().map(|p| Row { problem: product(p), also: Some(".multistage") }).collect(),
            Suite::Attention => ATTENTION.into_iter().flat_map(|s| [false, true].map(|c| Row::new(attention(s, c)))).collect(),
            Suite::Widths => warpwave_kernels::ops()
                .iter()
                .flat_map(|op| {
                    let widths = (9..=18u32).flat_map(|e| [1u64 << e, 3 << (e - 1)]).filter(|&n| n <= 1 << 18);
                    widths.flat_map(|n| [n, n + 1, n + 7]).filter_map(|n| wide(op.signature().op, n, 256_000_000)).collect::<Vec<_>>()
                })
                .map(Row::new)
                .collect(),
            Suite::Smoke => [
                "vector_add x=f32[1000] y=f32[1000]",
                "softmax x=bf16[7,100]",
                "matmul a=bf16[64,48] b=bf16[48,40]",
                "attention q=bf16[1,2,70,64] k=bf16[1,2,70,64] v=bf16[1,2,70,64] causal=true",
                "roof x=f32[1000]",
            ]
            .into_iter()
            .map(Row::new)
            .collect(),
        }
    }
}
