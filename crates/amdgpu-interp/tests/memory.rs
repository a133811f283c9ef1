//! Loads, stores, atomics, lanes that read one another, and matrix instructions as kernels use them.

#![allow(clippy::precedence, reason = "expected values read as the documents write them")]

mod assembled;
use amdgpu_interp::{Isa, Options};
use assembled::{Source, assemble, execute};

/// One wave; its lanes' words at v1 = lane * 16 of the input; v8 … v11 go out.
fn body(gfx11: bool, text: &str) -> String {
    let (load4, store) = if gfx11 { ("s_load_b128", "global_store_b128") } else { ("s_load_dwordx4", "global_store_dwordx4") };
    format!(
        "{load4} s[4:7], s[0:1], 0x0\n v_lshlrev_b32 v1, 4, v0\n v_mov_b32 v8, 0x11111111\n v_mov_b32 v9, 0x22222222\n v_mov_b32 v10, 0x33333333\n v_mov_b32 v11, 0x44444444\n \
         s_waitcnt lgkmcnt(0)\n {text}\n s_waitcnt vmcnt(0) lgkmcnt(0)\n {store} v1, v[8:11], s[6:7]"
    )
}

const FILL: [u32; 4] = [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444];

fn input() -> Vec<u32> {
    (0..64 * 4).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x8080_80ff).collect()
}

/// `(gfx9, gfx11, what lane l gets, given the input)`
type Case = (&'static str, &'static str, fn(&[u32], usize) -> [u32; 4]);

fn check(cases: &[Case], lds: u32) {
    let input = input();
    for isa in Isa::ALL {
        let gfx11 = isa == Isa::Gfx1100;
        let lanes = if gfx11 { 32 } else { 64 };
        // the bit that asks for the old value has another name on gfx942
        let of = |c: &Case| if gfx11 { c.1.to_owned() } else { c.0.replace(" glc", if isa == Isa::Gfx942 { " sc0" } else { " glc" }) };
        let chosen: Vec<_> = cases.iter().enumerate().filter(|(_, c)| !(if gfx11 { c.1 } else { c.0 }).is_empty()).collect();
        let sources: Vec<Source> = chosen.iter().map(|(i, c)| Source { name: format!("k{i}"), body: body(gfx11, &of(c)), lds }).collect();
        let code = assemble(&sources, isa);
        for (i, c) in chosen {
            let text = if gfx11 { c.1 } else { c.0 };
            let out = execute(&code, &format!("k{i}"), 1, lanes, &input, 256, &Options::default()).unwrap_or_else(|e| panic!("{isa}: {text}: {e}"));
            for lane in 0..lanes as usize {
                assert_eq!(out[lane * 4..lane * 4 + 4], (c.2)(&input, lane), "{isa}: {text}: lane {lane}");
            }
        }
    }
}

fn word(w: &[u32], lane: usize) -> u32 {
    w[lane * 4]
}

fn first(x: u32) -> [u32; 4] {
    [x, FILL[1], FILL[2], FILL[3]]
}

#[test]
fn global_loads() {
    check(
        &[
            ("global_load_dword v8, v1, s[4:5]", "global_load_b32 v8, v1, s[4:5]", |w, l| first(word(w, l))),
            ("global_load_dwordx2 v[8:9], v1, s[4:5] offset:8", "global_load_b64 v[8:9], v1, s[4:5] offset:8", |w, l| {
                [w[l * 4 + 2], w[l * 4 + 3], FILL[2], FILL[3]]
            }),
            ("global_load_dwordx3 v[8:10], v1, s[4:5]", "global_load_b96 v[8:10], v1, s[4:5]", |w, l| {
                [w[l * 4], w[l * 4 + 1], w[l * 4 + 2], FILL[3]]
            }),
            ("global_load_dwordx4 v[8:11], v1, s[4:5]", "global_load_b128 v[8:11], v1, s[4:5]", |w, l| {
                [w[l * 4], w[l * 4 + 1], w[l * 4 + 2], w[l * 4 + 3]]
            }),
            ("global_load_ubyte v8, v1, s[4:5] offset:1", "global_load_u8 v8, v1, s[4:5] offset:1", |w, l| first(word(w, l) >> 8 & 0xff)),
            ("global_load_sbyte v8, v1, s[4:5] offset:1", "global_load_i8 v8, v1, s[4:5] offset:1", |w, l| {
                first((word(w, l) >> 8) as u8 as i8 as u32)
            }),
            ("global_load_ushort v8, v1, s[4:5] offset:2", "global_load_u16 v8, v1, s[4:5] offset:2", |w, l| first(word(w, l) >> 16)),
            ("global_load_sshort v8, v1, s[4:5] offset:2", "global_load_i16 v8, v1, s[4:5] offset:2", |w, l| first((word(w, l) as i32 >> 16) as u32)),
            ("global_load_short_d16 v8, v1, s[4:5]", "global_load_d16_b16 v8, v1, s[4:5]", |w, l| first(0x1111_0000 | word(w, l) & 0xffff)),
            ("global_load_short_d16_hi v8, v1, s[4:5]", "global_load_d16_hi_b16 v8, v1, s[4:5]", |w, l| first(0x1111 | word(w, l) << 16)),
            // addresses of 64 bits
            (
                "v_mov_b32 v3, s5\n v_add_co_u32 v2, vcc, s4, v1\n v_addc_co_u32 v3, vcc, 0, v3, vcc\n global_load_dword v8, v[2:3], off offset:4",
                "v_mov_b32 v3, s5\n v_add_co_u32 v2, vcc_lo, s4, v1\n v_add_co_ci_u32 v3, vcc_lo, 0, v3, vcc_lo\n global_load_b32 v8, v[2:3], off offset:4",
                |w, l| first(w[l * 4 + 1]),
            ),
            (
                "v_mov_b32 v3, s5\n v_add_co_u32 v2, vcc, s4, v1\n v_addc_co_u32 v3, vcc, 0, v3, vcc\n flat_load_dword v8, v[2:3]",
                "v_mov_b32 v3, s5\n v_add_co_u32 v2, vcc_lo, s4, v1\n v_add_co_ci_u32 v3, vcc_lo, 0, v3, vcc_lo\n flat_load_b32 v8, v[2:3]",
                |w, l| first(word(w, l)),
            ),
        ],
        0,
    );
}

#[test]
fn global_stores_and_atomics() {
    check(
        &[
            // written behind the input's own word, read back
            (
                "global_store_byte v1, v8, s[4:5] offset:1\n global_load_dword v8, v1, s[4:5]",
                "global_store_b8 v1, v8, s[4:5] offset:1\n global_load_b32 v8, v1, s[4:5]",
                |w, l| first(word(w, l) & !0xff00 | 0x1100),
            ),
            (
                "global_store_short v1, v8, s[4:5] offset:2\n global_load_dword v8, v1, s[4:5]",
                "global_store_b16 v1, v8, s[4:5] offset:2\n global_load_b32 v8, v1, s[4:5]",
                |w, l| first(word(w, l) & 0xffff | 0x1111_0000),
            ),
            (
                "v_mov_b32 v3, 0x12345678\n global_store_short_d16_hi v1, v3, s[4:5]\n global_load_dword v8, v1, s[4:5]",
                "v_mov_b32 v3, 0x12345678\n global_store_d16_hi_b16 v1, v3, s[4:5]\n global_load_b32 v8, v1, s[4:5]",
                |w, l| first(word(w, l) & 0xffff_0000 | 0x1234),
            ),
            (
                "global_store_dwordx2 v1, v[10:11], s[4:5]\n global_load_dwordx2 v[8:9], v1, s[4:5]",
                "global_store_b64 v1, v[10:11], s[4:5]\n global_load_b64 v[8:9], v1, s[4:5]",
                |_, _| [FILL[2], FILL[3], FILL[2], FILL[3]],
            ),
            // the word from before comes back
            (
                "global_atomic_add v9, v1, v8, s[4:5] glc\n global_load_dword v8, v1, s[4:5]",
                "global_atomic_add_u32 v9, v1, v8, s[4:5] glc\n global_load_b32 v8, v1, s[4:5]",
                |w, l| [word(w, l).wrapping_add(FILL[0]), word(w, l), FILL[2], FILL[3]],
            ),
            (
                "global_atomic_umax v1, v8, s[4:5]\n global_load_dword v8, v1, s[4:5]",
                "global_atomic_max_u32 v1, v8, s[4:5]\n global_load_b32 v8, v1, s[4:5]",
                |w, l| first(word(w, l).max(FILL[0])),
            ),
            (
                "global_atomic_smin v1, v8, s[4:5]\n global_load_dword v8, v1, s[4:5]",
                "global_atomic_min_i32 v1, v8, s[4:5]\n global_load_b32 v8, v1, s[4:5]",
                |w, l| first((word(w, l) as i32).min(FILL[0] as i32) as u32),
            ),
            ("global_atomic_swap v9, v1, v8, s[4:5] glc", "global_atomic_swap_b32 v9, v1, v8, s[4:5] glc", |w, l| {
                [FILL[0], word(w, l), FILL[2], FILL[3]]
            }),
        ],
        0,
    );
}

#[test]
fn shared_memory() {
    check(
        &[
            (
                "ds_write_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v8, v1",
                "ds_store_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n ds_load_b32 v8, v1",
                |_, l| first(16 * l as u32),
            ),
            (
                "ds_write_b128 v1, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_read_b64 v[8:9], v1 offset:8",
                "ds_store_b128 v1, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_load_b64 v[8:9], v1 offset:8",
                |_, _| [FILL[2], FILL[3], FILL[2], FILL[3]],
            ),
            (
                "ds_write2_b32 v1, v10, v11 offset1:1\n s_waitcnt lgkmcnt(0)\n ds_read2_b32 v[8:9], v1 offset0:1",
                "ds_store_2addr_b32 v1, v10, v11 offset1:1\n s_waitcnt lgkmcnt(0)\n ds_load_2addr_b32 v[8:9], v1 offset0:1",
                |_, _| [FILL[3], FILL[2], FILL[2], FILL[3]],
            ),
            (
                "ds_write_b64 v1, v[8:9]\n s_waitcnt lgkmcnt(0)\n ds_read_u16 v8, v1 offset:4\n ds_read_i8 v9, v1",
                "ds_store_b64 v1, v[8:9]\n s_waitcnt lgkmcnt(0)\n ds_load_u16 v8, v1 offset:4\n ds_load_i8 v9, v1",
                |_, _| [0x2222, 0x11, FILL[2], FILL[3]],
            ),
            (
                "ds_write_b16 v1, v8\n ds_write_b8 v1, v9 offset:2\n ds_write_b8 v1, v9 offset:3\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v8, v1",
                "",
                |_, _| first(0x2222_1111),
            ),
            (
                "ds_write_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n ds_add_rtn_u32 v9, v1, v8\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v8, v1",
                "ds_store_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n ds_add_rtn_u32 v9, v1, v8\n s_waitcnt lgkmcnt(0)\n ds_load_b32 v8, v1",
                |_, l| [16 * l as u32 + FILL[0], 16 * l as u32, FILL[2], FILL[3]],
            ),
        ],
        1024,
    );
}

#[test]
fn lanes_read_one_another() {
    check(
        &[
            ("ds_swizzle_b32 v8, v1 offset:swizzle(SWAP,16)", "ds_swizzle_b32 v8, v1 offset:swizzle(SWAP,16)", |_, l| first(16 * (l as u32 ^ 16))),
            (
                "v_xor_b32 v3, 5, v0\n v_lshlrev_b32 v3, 2, v3\n ds_bpermute_b32 v8, v3, v1",
                "v_xor_b32 v3, 5, v0\n v_lshlrev_b32 v3, 2, v3\n ds_bpermute_b32 v8, v3, v1",
                |_, l| first(16 * (l as u32 ^ 5)),
            ),
            (
                "v_xor_b32 v3, 6, v0\n v_lshlrev_b32 v3, 2, v3\n ds_permute_b32 v8, v3, v1",
                "v_xor_b32 v3, 6, v0\n v_lshlrev_b32 v3, 2, v3\n ds_permute_b32 v8, v3, v1",
                |_, l| first(16 * (l as u32 ^ 6)),
            ),
            (
                "v_mov_b32_dpp v8, v1 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf",
                "v_mov_b32_dpp v8, v1 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf",
                |_, l| first(16 * (l as u32 ^ 2)),
            ),
            ("v_mov_b32_dpp v8, v1 row_shr:1 row_mask:0xf bank_mask:0xf", "v_mov_b32_dpp v8, v1 row_shr:1 row_mask:0xf bank_mask:0xf", |_, l| {
                first(if l % 16 == 0 { FILL[0] } else { 16 * (l as u32 - 1) })
            }),
            (
                "v_mov_b32_dpp v8, v1 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:0",
                "v_mov_b32_dpp v8, v1 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:1",
                |_, l| first(if l % 16 >= 14 { 0 } else { 16 * (l as u32 + 2) }),
            ),
            ("v_mov_b32_dpp v8, v1 row_ror:3 row_mask:0xf bank_mask:0xf", "v_mov_b32_dpp v8, v1 row_ror:3 row_mask:0xf bank_mask:0xf", |_, l| {
                first(16 * (l as u32 / 16 * 16 + (l as u32 + 13) % 16))
            }),
            ("v_mov_b32_dpp v8, v1 row_mirror row_mask:0xf bank_mask:0xf", "v_mov_b32_dpp v8, v1 row_mirror row_mask:0xf bank_mask:0xf", |_, l| {
                first(16 * (l as u32 ^ 15))
            }),
            (
                "v_mov_b32_dpp v8, v1 row_half_mirror row_mask:0xf bank_mask:0x5",
                "v_mov_b32_dpp v8, v1 row_half_mirror row_mask:0xf bank_mask:0x5",
                |_, l| first(if l / 4 % 2 == 0 { 16 * (l as u32 ^ 7) } else { FILL[0] }),
            ),
            ("v_mov_b32_dpp v8, v1 row_bcast:15 row_mask:0xa bank_mask:0xf", "", |_, l| {
                first(if l / 16 % 2 == 1 { 16 * (l as u32 / 16 * 16 - 1) } else { FILL[0] })
            }),
            ("", "v_mov_b32_dpp v8, v1 row_xmask:9 row_mask:0xf bank_mask:0xf", |_, l| first(16 * (l as u32 ^ 9))),
            ("", "v_mov_b32_dpp v8, v1 row_share:4 row_mask:0xf bank_mask:0xf", |_, l| first(16 * (l as u32 / 16 * 16 + 4))),
            ("", "v_mov_b32_dpp v8, v1 dpp8:[7,6,5,4,3,2,1,0]", |_, l| first(16 * (l as u32 ^ 7))),
            ("v_readlane_b32 s8, v1, 9\n s_nop 4\n v_mov_b32 v8, s8", "v_readlane_b32 s8, v1, 9\n v_mov_b32 v8, s8", |_, _| first(144)),
            ("v_writelane_b32 v8, 7, 3", "v_writelane_b32 v8, 7, 3", |_, l| first(if l == 3 { 7 } else { FILL[0] })),
            ("v_mbcnt_lo_u32_b32 v8, -1, 0\n v_mbcnt_hi_u32_b32 v8, -1, v8", "v_mbcnt_lo_u32_b32 v8, -1, 0", |_, l| first(l as u32)),
            ("v_accvgpr_write_b32 a1, v1\n s_nop 1\n v_accvgpr_mov_b32 a2, a1\n s_nop 1\n v_accvgpr_read_b32 v8, a2", "", |_, l| {
                first(16 * l as u32)
            }),
            (
                "v_nop\n s_setprio 1\n s_sleep 1\n v_mov_b32 v8, v1",
                "v_nop\n s_clause 0x0\n s_delay_alu instid0(VALU_DEP_1)\n v_mov_b32 v8, v1",
                |_, l| first(16 * l as u32),
            ),
        ],
        0,
    );
}

/// A times B where A is 1 in one place: a row of B comes out, in the lanes and registers that the published tables give.
#[test]
fn matrix_instructions() {
    for (isa, text, from_lane) in [
        // A[i][k]: lane i + 16 (k / 4), element k % 4; D[i][j]: lane j + 16 (i / 4), register i % 4
        (Isa::Gfx90a, "v_mfma_f32_16x16x16f16 v[8:11], v[4:5], v[6:7], 0", 2 + 16),
        (Isa::Gfx942, "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], 0", 2 + 16),
    ] {
        // A = 1 at row 2, k 4 (half 0 of v4 in lane 18); B[4][j] = j + 1 in lanes 16 + j
        let text = format!(
            "v_mov_b32 v4, 0\n v_mov_b32 v5, 0\n v_mov_b32 v7, 0\n s_mov_b32 s8, 0x3c00\n v_writelane_b32 v4, s8, {from_lane}\n v_and_b32 v3, 15, v0\n v_add_u32 v3, 1, v3\n v_cvt_f32_u32 v3, v3\n v_cvt_f16_f32 v6, v3\n s_nop 7\n {text}\n s_nop 15"
        );
        let code = assemble(&[Source { name: "k".into(), body: body(false, &text), lds: 0 }], isa);
        let out = execute(&code, "k", 1, 64, &input(), 256, &Options::default()).unwrap();
        for lane in 0..64 {
            let want: [f32; 4] = std::array::from_fn(|r| if lane < 16 && r == 2 { lane as f32 + 1.0 } else { 0.0 });
            let got: [f32; 4] = std::array::from_fn(|r| f32::from_bits(out[lane * 4 + r]));
            assert_eq!(got, want, "{isa}: lane {lane}");
        }
    }
    // B's lanes beyond 16 hold the same again
    let text = "
        v_mov_b32 v20, 0\n v_mov_b32 v21, 0\n v_mov_b32 v22, 0\n v_mov_b32 v23, 0\n v_mov_b32 v24, 0\n v_mov_b32 v25, 0\n v_mov_b32 v26, 0\n v_mov_b32 v27, 0
        v_and_b32 v3, 15, v0\n v_add_nc_u32 v2, 1, v3\n v_cvt_f32_u32 v2, v2\n v_cvt_f16_f32 v2, v2\n v_and_b32 v2, 0xffff, v2
        v_cmp_eq_u32 vcc_lo, 5, v3\n v_cndmask_b32 v22, 0, 0x3c00, vcc_lo
        v_mov_b32 v30, 0\n v_mov_b32 v31, 0\n v_mov_b32 v32, v2\n v_mov_b32 v33, 0\n v_mov_b32 v34, 0\n v_mov_b32 v35, 0\n v_mov_b32 v36, 0\n v_mov_b32 v37, 0
        v_wmma_f32_16x16x16_f16 v[40:47], v[20:27], v[30:37], 0
        v_mov_b32 v8, v40\n v_mov_b32 v9, v41\n v_mov_b32 v10, v42\n v_mov_b32 v11, v43";
    let code = assemble(&[Source { name: "k".into(), body: body(true, text), lds: 0 }], Isa::Gfx1100);
    let out = execute(&code, "k", 1, 32, &input(), 128, &Options::default()).unwrap();
    for lane in 0..32 {
        // row 5 of D: register 2 of the lanes from 16 on
        let want: [f32; 4] = std::array::from_fn(|r| if lane >= 16 && r == 2 { (lane - 16) as f32 + 1.0 } else { 0.0 });
        assert_eq!(std::array::from_fn::<f32, 4, _>(|r| f32::from_bits(out[lane * 4 + r])), want, "lane {lane}");
    }
}
