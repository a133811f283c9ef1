//! How fast it is. `cargo run --release -p warpwave-amdgpu-interp --example speed`

#![allow(clippy::precedence, reason = "expected values read as the documents write them")]

#[path = "../tests/assembled/mod.rs"]
mod assembled;
use amdgpu_interp::{Isa, Launch, Memory, Options, run};
use assembled::{Source, assemble};
use std::time::Instant;

/// A loop around some instructions, on one core; prints wave-instructions and multiply-adds a second.
fn measure(isa: Isa, name: &str, body: &str, times: u32) {
    let text = format!(
        "v_mov_b32 v8, 1.0\n v_mov_b32 v9, 2.0\n v_mov_b32 v10, 0\n v_mov_b32 v11, 0\n s_mov_b32 s8, {times}\n1:\n {body}\n s_sub_u32 s8, s8, 1\n s_cmp_lg_u32 s8, 0\n s_cbranch_scc1 1b"
    );
    let code = assemble(&[Source { name: "k".into(), body: text, lds: 0 }], isa);
    let memory = Memory::new(1 << 20);
    let start = Instant::now();
    let options = Options { parallel: false, ..Options::default() };
    let block = if isa == Isa::Gfx1100 { 32 } else { 64 };
    let counts = run(
        code.kernel("k").unwrap(),
        &code,
        &Launch { grid: [1, 1, 1], block: [block, 1, 1], dynamic_lds: 0, kernarg: &[0; 16] },
        &memory,
        &options,
    )
    .unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let (instructions, macs) = (counts.instructions as f64 / seconds / 1e6, counts.matrix_macs as f64 / seconds / 1e9);
    println!("{isa} {name}: {instructions:.1} M wave-instructions/s, {macs:.2} GMAC/s");
}

fn main() {
    let rows = "v_fma_f32 v10, v8, v9, v10\n v_add_f32 v11, v10, v8\n v_mul_f32 v12, v11, v9\n v_max_f32 v13, v12, v10\n v_lshlrev_b32 v14, 2, v0\n v_and_b32 v15, v14, v0\n \
                v_cndmask_b32 v16, v10, v11, vcc\n v_mov_b32 v17, v16\n v_xor_b32 v18, v17, v15\n v_exp_f32 v19, v9\n s_and_b32 s9, s8, 7\n s_lshl_b32 s10, s9, 2";
    for isa in Isa::ALL {
        let rows = if isa == Isa::Gfx1100 { rows.replace("vcc", "vcc_lo") } else { rows.to_owned() };
        measure(isa, "row mix", &rows, 100_000);
    }
    let zero: String = (20..64).map(|r| format!("v_mov_b32 v{r}, 0\n")).collect();
    measure(Isa::Gfx942, "mfma 16x16x16", &format!("{zero}{}", "v_mfma_f32_16x16x16_f16 v[40:43], v[20:21], v[22:23], v[40:43]\n".repeat(200)), 300);
    measure(Isa::Gfx942, "mfma 32x32x8", &format!("{zero}{}", "v_mfma_f32_32x32x8_f16 v[40:55], v[20:21], v[22:23], v[40:55]\n".repeat(200)), 300);
    measure(Isa::Gfx1100, "wmma 16x16x16", &format!("{zero}{}", "v_wmma_f32_16x16x16_f16 v[40:47], v[20:27], v[28:35], v[40:47]\n".repeat(200)), 300);
}
