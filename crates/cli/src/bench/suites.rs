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
