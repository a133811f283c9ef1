//! Every instruction that the interpreter accepts, assembled by llvm-mc-19 and run on edge values; what is expected is written here, from the ISA
//! documents, without the interpreter's own functions.

#![allow(clippy::precedence, reason = "expected values read as the documents write them")]

mod assembled;
use amdgpu_interp::{Isa, Options};
use assembled::{Source, assemble, execute};
use std::collections::BTreeSet;

/// Four words in; two words and a bit (carry, comparison, scc) out.
type Want = Box<dyn Fn([u32; 4]) -> [u32; 3]>;

/// An instruction on v4 … v7 (or s8 … s11) into v8, v9 (s12, s13), as gfx9 and gfx11 spell it; empty where they lack it.
struct Case {
    gfx9: String,
    gfx11: String,
    want: Want,
    /// Results may differ by so many units in the last place of float32: instructions that approximate.
    ulps: u32,
}

const FILL: [u32; 2] = [0x1111_1111, 0x2222_2222];

/// Zeros, ones, extremes, subnormals, infinities, NaN, halves, then noise.
fn words() -> Vec<[u32; 4]> {
    const EDGES: [u32; 24] = [
        0,
        1,
        2,
        31,
        32,
        63,
        0xffff,
        0x10000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x3f80_0000,
        0xbf80_0000,
        0x4000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x0000_7000,
        0x0080_0000,
        0x7f7f_ffff,
        0x3f7f_ffff,
        0x4b00_0001,
        0x3c00_3c01,
        0xfbff_0400,
    ];
    let mut all: Vec<[u32; 4]> = Vec::new();
    for (i, &a) in EDGES.iter().enumerate() {
        for (j, &b) in EDGES.iter().enumerate() {
            all.push([a, b, EDGES[(i * 7 + j * 3) % 24], EDGES[(i + j * 5) % 24]]);
        }
    }
    let mut x = 0x2545_f491_4f6c_dd1du64;
    while all.len() < 1024 {
        all.push(std::array::from_fn(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 16) as u32
        }));
    }
    all
}

fn f(x: u32) -> f32 {
    f32::from_bits(x)
}

fn case(gfx9: &str, gfx11: &str, want: impl Fn([u32; 4]) -> [u32; 3] + 'static) -> Case {
    Case { gfx9: gfx9.into(), gfx11: gfx11.into(), want: Box::new(want), ulps: 0 }
}

/// `name d, a`, `name d, a, b`, `name d, a, b, c` on 32 bits.
fn plain(names: &str, n: usize, want: impl Fn(u32, u32, u32) -> u32 + 'static) -> Case {
    let (gfx9, gfx11) = names.split_once('|').unwrap_or((names, names));
    let operands = ["v8, v4", "v8, v4, v5", "v8, v4, v5, v6"][n - 1];
    let text = |name: &str| if name.is_empty() { String::new() } else { format!("{name} {operands}") };
    case(&text(gfx9), &text(gfx11), move |[a, b, c, _]| [want(a, b, c), FILL[1], 0])
}

fn floats(names: &str, n: usize, ulps: u32, want: impl Fn(f32, f32, f32) -> f32 + 'static) -> Case {
    Case { ulps, ..plain(names, n, move |a, b, c| want(f(a), f(b), f(c)).to_bits()) }
}

/// On 64 bits: sources v[4:5] and v[6:7].
fn wide(names: &str, operands: &str, want: impl Fn(u64, u64) -> u64 + 'static) -> Case {
    let (gfx9, gfx11) = names.split_once('|').unwrap_or((names, names));
    let text = |name: &str| if name.is_empty() { String::new() } else { format!("{name} {operands}") };
    case(&text(gfx9), &text(gfx11), move |w| {
        let r = want(pair(w, 0), pair(w, 2));
        [r as u32, (r >> 32) as u32, 0]
    })
}

fn pair(w: [u32; 4], i: usize) -> u64 {
    u64::from(w[i]) | u64::from(w[i + 1]) << 32
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn total(x: u32) -> i64 {
    let x = x as i32;
    if x < 0 { i64::from(i32::MIN) - i64::from(x) } else { x.into() }
}

/// maximumNumber and minimumNumber, -0 below +0.
fn pick(a: u32, b: u32, less: bool) -> u32 {
    let (x, y) = (f(a), f(b));
    let signalling = |x: u32| f(x).is_nan() && x & 0x40_0000 == 0;
    if signalling(a) || signalling(b) || (x.is_nan() && y.is_nan()) {
        return 0x7fc0_0000;
    }
    if x.is_nan() {
        return b;
    }
    if y.is_nan() {
        return a;
    }
    let key = |x: u32| if x as i32 >= 0 { i64::from(x) } else { -1 - i64::from(x & 0x7fff_ffff) };
    if (key(a) < key(b)) == less { a } else { b }
}

fn vector_cases() -> Vec<Case> {
    let mut all = vec![
        plain("v_mov_b32", 1, |a, _, _| a),
        plain("v_not_b32", 1, |a, _, _| !a),
        plain("v_bfrev_b32", 1, |a, _, _| (0..32).fold(0, |r, i| r | (a >> i & 1) << (31 - i))),
        plain("v_ffbh_u32|v_clz_i32_u32", 1, |a, _, _| (0..32).find(|i| a >> (31 - i) & 1 == 1).unwrap_or(u32::MAX)),
        plain("v_ffbl_b32|v_ctz_i32_b32", 1, |a, _, _| (0..32).find(|i| a >> i & 1 == 1).unwrap_or(u32::MAX)),
        plain("v_ffbh_i32|v_cls_i32", 1, |a, _, _| (1..32).find(|i| a >> (31 - i) & 1 != a >> 31).unwrap_or(u32::MAX)),
        plain("v_cvt_f32_i32", 1, |a, _, _| (a as i32 as f32).to_bits()),
        plain("v_cvt_f32_u32", 1, |a, _, _| (a as f32).to_bits()),
        plain("v_cvt_u32_f32", 1, |a, _, _| f(a) as u32),
        plain("v_cvt_i32_f32", 1, |a, _, _| f(a) as i32 as u32),
        plain("v_cvt_f32_ubyte0", 1, |a, _, _| f32::from(a as u8).to_bits()),
        plain("v_cvt_f32_ubyte1", 1, |a, _, _| f32::from((a >> 8) as u8).to_bits()),
        plain("v_cvt_f32_ubyte2", 1, |a, _, _| f32::from((a >> 16) as u8).to_bits()),
        plain("v_cvt_f32_ubyte3", 1, |a, _, _| f32::from((a >> 24) as u8).to_bits()),
        plain("v_cvt_f32_f16", 1, |a, _, _| half::f16::from_bits(a as u16).to_f32().to_bits()),
        // gfx9 clears the upper half, gfx11 keeps it
        case("v_cvt_f16_f32 v8, v4", "", |w| [half::f16::from_f32(f(w[0])).to_bits().into(), FILL[1], 0]),
        case("", "v_cvt_f16_f32 v8, v4", |w| [0x1111_0000 | u32::from(half::f16::from_f32(f(w[0])).to_bits()), FILL[1], 0]),
        plain("v_cvt_f16_i16|", 1, |a, _, _| half::f16::from_f64(f64::from(a as i16)).to_bits().into()),
        plain("v_cvt_f16_u16|", 1, |a, _, _| half::f16::from_f64(f64::from(a as u16)).to_bits().into()),
        plain("v_cvt_i16_f16|", 1, |a, _, _| u32::from(half::f16::from_bits(a as u16).to_f64() as i16 as u16)),
        plain("v_cvt_u16_f16|", 1, |a, _, _| u32::from(half::f16::from_bits(a as u16).to_f64() as u16)),
        plain("v_cvt_pkrtz_f16_f32|v_cvt_pk_rtz_f16_f32", 2, |a, b, _| {
            let cut = |x: u32| {
                // the float16 of the same sign that is nearest to 0 from the exact value
                let h = half::f16::from_f64(f64::from(f(x)));
                if f(x).is_finite() && h.to_f32().abs() > f(x).abs() { h.to_bits() - 1 } else { h.to_bits() }
            };
            u32::from(cut(a)) | u32::from(cut(b)) << 16
        }),
        plain("v_pack_b32_f16", 2, |a, b, _| a & 0xffff | b << 16),
        floats("v_trunc_f32", 1, 0, |a, _, _| a.trunc()),
        floats("v_floor_f32", 1, 0, |a, _, _| a.floor()),
        floats("v_ceil_f32", 1, 0, |a, _, _| a.ceil()),
        floats("v_rndne_f32", 1, 0, |a, _, _| a.round_ties_even()),
        floats("v_fract_f32", 1, 0, |a, _, _| (a - a.floor()).min(0.999_999_94)),
        floats("v_rcp_f32", 1, 1, |a, _, _| flushed(1.0 / flushed(a))),
        floats("v_rcp_iflag_f32", 1, 1, |a, _, _| flushed(1.0 / flushed(a))),
        floats("v_rsq_f32", 1, 1, |a, _, _| (1.0 / f64::from(flushed(a)).sqrt()) as f32),
        floats("v_sqrt_f32", 1, 1, |a, _, _| flushed(a).sqrt()),
        floats("v_exp_f32", 1, 1, |a, _, _| flushed(f64::from(flushed(a)).exp2() as f32)),
        floats("v_log_f32", 1, 1, |a, _, _| f64::from(flushed(a)).log2() as f32),
        floats("v_sin_f32", 1, 1, |a, _, _| flushed((f64::from(flushed(a)) % 1.0 * std::f64::consts::TAU).sin() as f32)),
        floats("v_cos_f32", 1, 1, |a, _, _| (f64::from(flushed(a)) % 1.0 * std::f64::consts::TAU).cos() as f32),
        floats("v_frexp_mant_f32", 1, 0, |a, _, _| {
            if a == 0.0 || !a.is_finite() {
                return a;
            }
            let mut m = f64::from(a);
            while m.abs() >= 1.0 {
                m /= 2.0;
            }
            while m.abs() < 0.5 {
                m *= 2.0;
            }
            m as f32
        }),
        plain("v_frexp_exp_i32_f32", 1, |a, _, _| {
            let x = f64::from(f(a)).abs();
            if x == 0.0 || !x.is_finite() { 0 } else { (x.log2().floor() as i32 + 1) as u32 }
        }),
        plain("v_ldexp_f32", 2, |a, b, _| {
            let n = (b as i32).clamp(-400, 400);
            ((f64::from(f(a)) * 2f64.powi(n)) as f32).to_bits()
        }),
        floats("v_add_f32", 2, 0, |a, b, _| a + b),
        floats("v_sub_f32", 2, 0, |a, b, _| a - b),
        floats("v_subrev_f32", 2, 0, |a, b, _| b - a),
        floats("v_mul_f32", 2, 0, |a, b, _| a * b),
        plain("v_max_f32", 2, |a, b, _| pick(a, b, false)),
        plain("v_min_f32", 2, |a, b, _| pick(a, b, true)),
        plain("v_max3_f32", 3, |a, b, c| pick(pick(a, b, false), c, false)),
        plain("v_min3_f32", 3, |a, b, c| pick(pick(a, b, true), c, true)),
        plain("v_med3_f32", 3, |a, b, c| {
            if [a, b, c].iter().any(|&x| f(x).is_nan()) {
                return pick(pick(a, b, true), c, true);
            }
            let mut all = [a, b, c];
            all.sort_by_key(|&x| if x as i32 >= 0 { i64::from(x) } else { -1 - i64::from(x & 0x7fff_ffff) });
            all[1]
        }),
        floats("v_fma_f32", 3, 0, f32::mul_add),
        case("v_fmac_f32 v8, v4, v5", "v_fmac_f32 v8, v4, v5", |w| [f(w[0]).mul_add(f(w[1]), f(FILL[0])).to_bits(), FILL[1], 0]),
        case("v_mac_f32 v8, v4, v5", "", |w| [flushed(flushed(flushed(f(w[0])) * flushed(f(w[1]))) + f(FILL[0])).to_bits(), FILL[1], 0]),
        case("v_mad_f32 v8, v4, v5, -v6", "", |w| [flushed(flushed(flushed(f(w[0])) * flushed(f(w[1]))) - flushed(f(w[2]))).to_bits(), FILL[1], 0]),
        case("v_madmk_f32 v8, v4, 0x40400000, v5", "", |w| [flushed(flushed(flushed(f(w[0])) * 3.0) + flushed(f(w[1]))).to_bits(), FILL[1], 0]),
        case("v_madak_f32 v8, v4, v5, 0x40400000", "", |w| [flushed(flushed(flushed(f(w[0])) * flushed(f(w[1]))) + 3.0).to_bits(), FILL[1], 0]),
        case("v_fmaak_f32 v8, v4, v5, 0x40400000", "v_fmaak_f32 v8, v4, v5, 0x40400000", |w| [f(w[0]).mul_add(f(w[1]), 3.0).to_bits(), FILL[1], 0]),
        case("v_fmamk_f32 v8, v4, 0x40400000, v5", "v_fmamk_f32 v8, v4, 0x40400000, v5", |w| [f(w[0]).mul_add(3.0, f(w[1])).to_bits(), FILL[1], 0]),
        case("v_fma_f32 v8, -v4, |v5|, -|v6|", "v_fma_f32 v8, -v4, |v5|, -|v6|", |w| {
            [(-f(w[0])).mul_add(f(w[1]).abs(), -f(w[2]).abs()).to_bits(), FILL[1], 0]
        }),
        case("v_add_f32 v8, v4, v5 clamp", "v_add_f32 v8, v4, v5 clamp", |w| {
            let x = f(w[0]) + f(w[1]);
            [if x.is_nan() || x <= 0.0 { 0 } else { x.min(1.0).to_bits() }, FILL[1], 0]
        }),
        case("v_add_f32 v8, 0.5, v5", "v_add_f32 v8, 0.5, v5", |w| [(0.5 + f(w[1])).to_bits(), FILL[1], 0]),
        case("v_add_u32 v8, -16, v5", "v_add_nc_u32 v8, -16, v5", |w| [w[1].wrapping_sub(16), FILL[1], 0]),
        // a half of a register as float16, the other sources as float32
        case(
            "v_fma_mix_f32 v8, v4, -v5, v6 op_sel:[0,1,0] op_sel_hi:[0,1,0]",
            "v_fma_mix_f32 v8, v4, -v5, v6 op_sel:[0,1,0] op_sel_hi:[0,1,0]",
            |w| [f(w[0]).mul_add(-half::f16::from_bits((w[1] >> 16) as u16).to_f32(), f(w[2])).to_bits(), FILL[1], 0],
        ),
        case("v_fma_mixlo_f16 v8, v4, v5, v6", "v_fma_mixlo_f16 v8, v4, v5, v6", |w| {
            [FILL[0] & 0xffff_0000 | u32::from(half::f16::from_f32(f(w[0]).mul_add(f(w[1]), f(w[2]))).to_bits()), FILL[1], 0]
        }),
        case("v_fma_mixhi_f16 v8, v4, v5, v6", "v_fma_mixhi_f16 v8, v4, v5, v6", |w| {
            [FILL[0] & 0xffff | u32::from(half::f16::from_f32(f(w[0]).mul_add(f(w[1]), f(w[2]))).to_bits()) << 16, FILL[1], 0]
        }),
        case("v_pk_fma_f32 v[8:9], v[4:5], v[6:7], v[4:5] op_sel:[0,1,0] op_sel_hi:[1,0,0]", "", |w| {
            [f(w[0]).mul_add(f(w[3]), f(w[0])).to_bits(), f(w[1]).mul_add(f(w[2]), f(w[0])).to_bits(), 0]
        }),
        case("v_pk_mul_f32 v[8:9], v[4:5], v[6:7]", "", |w| [(f(w[0]) * f(w[2])).to_bits(), (f(w[1]) * f(w[3])).to_bits(), 0]),
        case("v_pk_add_f32 v[8:9], v[4:5], v[6:7] neg_lo:[0,1] neg_hi:[0,1]", "", |w| {
            [(f(w[0]) - f(w[2])).to_bits(), (f(w[1]) - f(w[3])).to_bits(), 0]
        }),
        case("v_pk_mul_f32 v[8:9], v[4:5], 0.5 op_sel_hi:[1,0]", "", |w| [(f(w[0]) * 0.5).to_bits(), (f(w[1]) * 0.5).to_bits(), 0]),
        case("v_pk_mov_b32 v[8:9], v[4:5], v[6:7] op_sel:[1,0]", "", |w| [w[1], w[2], 0]),
        plain("v_add_u32|v_add_nc_u32", 2, |a, b, _| a.wrapping_add(b)),
        plain("v_sub_u32|v_sub_nc_u32", 2, |a, b, _| a.wrapping_sub(b)),
        plain("v_subrev_u32|v_subrev_nc_u32", 2, |a, b, _| b.wrapping_sub(a)),
        plain("v_and_b32", 2, |a, b, _| a & b),
        plain("v_or_b32", 2, |a, b, _| a | b),
        plain("v_xor_b32", 2, |a, b, _| a ^ b),
        plain("v_xnor_b32", 2, |a, b, _| !(a ^ b)),
        plain("v_lshlrev_b32", 2, |a, b, _| b.wrapping_shl(a)),
        plain("v_lshrrev_b32", 2, |a, b, _| b.wrapping_shr(a)),
        plain("v_ashrrev_i32", 2, |a, b, _| (b as i32).wrapping_shr(a) as u32),
        plain("v_min_i32", 2, |a, b, _| std::cmp::min(a as i32, b as i32) as u32),
        plain("v_max_i32", 2, |a, b, _| std::cmp::max(a as i32, b as i32) as u32),
        plain("v_min_u32", 2, |a, b, _| std::cmp::min(a, b)),
        plain("v_max_u32", 2, |a, b, _| std::cmp::max(a, b)),
        plain("v_mul_lo_u32", 2, |a, b, _| a.wrapping_mul(b)),
        plain("v_mul_hi_u32", 2, |a, b, _| (u128::from(a) * u128::from(b) >> 32) as u32),
        plain("v_mul_hi_i32", 2, |a, b, _| (i128::from(a as i32) * i128::from(b as i32) >> 32) as u32),
        plain("v_mul_u32_u24", 2, |a, b, _| (u64::from(a % (1 << 24)) * u64::from(b % (1 << 24))) as u32),
        plain("v_mul_hi_u32_u24", 2, |a, b, _| (u64::from(a % (1 << 24)) * u64::from(b % (1 << 24)) >> 32) as u32),
        plain("v_mul_i32_i24", 2, |a, b, _| (i64::from((a as i32) << 8 >> 8) * i64::from((b as i32) << 8 >> 8)) as u32),
        plain("v_bcnt_u32_b32", 2, |a, b, _| (0..32).map(|i| a >> i & 1).sum::<u32>().wrapping_add(b)),
        plain("v_add_u16|", 2, |a, b, _| a.wrapping_add(b) & 0xffff),
        plain("v_sub_u16|", 2, |a, b, _| a.wrapping_sub(b) & 0xffff),
        plain("v_subrev_u16|", 2, |a, b, _| b.wrapping_sub(a) & 0xffff),
        plain("v_mul_lo_u16|", 2, |a, b, _| (a & 0xffff).wrapping_mul(b & 0xffff) & 0xffff),
        plain("v_lshlrev_b16|", 2, |a, b, _| (b << (a % 16)) & 0xffff),
        plain("v_lshrrev_b16|", 2, |a, b, _| (b & 0xffff) >> (a % 16)),
        plain("v_ashrrev_i16|", 2, |a, b, _| u32::from((b as u16 as i16 >> (a % 16)) as u16)),
        plain("v_min_u16|", 2, |a, b, _| std::cmp::min(a & 0xffff, b & 0xffff)),
        plain("v_max_u16|", 2, |a, b, _| std::cmp::max(a & 0xffff, b & 0xffff)),
        plain("v_min_i16|", 2, |a, b, _| u32::from(std::cmp::min(a as i16, b as i16) as u16)),
        plain("v_max_i16|", 2, |a, b, _| u32::from(std::cmp::max(a as i16, b as i16) as u16)),
        plain("|v_sub_nc_u16", 2, |a, b, _| 0x1111_0000 | a.wrapping_sub(b) & 0xffff),
        plain("|v_add_nc_u16", 2, |a, b, _| 0x1111_0000 | a.wrapping_add(b) & 0xffff),
        plain("|v_mul_lo_u16", 2, |a, b, _| 0x1111_0000 | (a & 0xffff).wrapping_mul(b & 0xffff) & 0xffff),
        plain("v_add3_u32", 3, |a, b, c| a.wrapping_add(b).wrapping_add(c)),
        plain("v_lshl_add_u32", 3, |a, b, c| a.wrapping_shl(b).wrapping_add(c)),
        plain("v_add_lshl_u32", 3, |a, b, c| a.wrapping_add(b).wrapping_shl(c)),
        plain("v_lshl_or_b32", 3, |a, b, c| a.wrapping_shl(b) | c),
        plain("v_and_or_b32", 3, |a, b, c| (a & b) | c),
        plain("v_or3_b32", 3, |a, b, c| a | b | c),
        plain("|v_xor3_b32", 3, |a, b, c| a ^ b ^ c),
        plain("v_xad_u32", 3, |a, b, c| (a ^ b).wrapping_add(c)),
        plain("v_alignbit_b32", 3, |a, b, c| (((u64::from(a) << 32) + u64::from(b)) >> (c % 32)) as u32),
        plain("v_alignbyte_b32", 3, |a, b, c| (((u64::from(a) << 32) + u64::from(b)) >> (8 * (c % 4))) as u32),
        plain("v_bfe_u32", 3, |a, b, c| (0..c % 32).filter(|i| (b % 32) + i < 32).fold(0, |r, i| r | (a >> (b % 32 + i) & 1) << i)),
        plain("v_bfe_i32", 3, |a, b, c| {
            let (at, n) = (b % 32, c % 32);
            if n == 0 { 0 } else { ((i64::from(a as i32) >> at) << (64 - n) >> (64 - n)) as u32 }
        }),
        plain("v_bfi_b32", 3, |a, b, c| (a & b) | (!a & c)),
        plain("v_mad_u32_u24", 3, |a, b, c| ((u64::from(a % (1 << 24)) * u64::from(b % (1 << 24))) as u32).wrapping_add(c)),
        plain("v_mad_i32_i24", 3, |a, b, c| ((i64::from((a as i32) << 8 >> 8) * i64::from((b as i32) << 8 >> 8)) as u32).wrapping_add(c)),
        plain("v_min3_u32", 3, |a, b, c| *[a, b, c].iter().min().unwrap()),
        plain("v_max3_u32", 3, |a, b, c| *[a, b, c].iter().max().unwrap()),
        plain("v_min3_i32", 3, |a, b, c| *[a as i32, b as i32, c as i32].iter().min().unwrap() as u32),
        plain("v_max3_i32", 3, |a, b, c| *[a as i32, b as i32, c as i32].iter().max().unwrap() as u32),
        plain("v_med3_i32", 3, |a, b, c| {
            let mut all = [a as i32, b as i32, c as i32];
            all.sort_unstable();
            all[1] as u32
        }),
        plain("v_med3_u32", 3, |a, b, c| {
            let mut all = [a, b, c];
            all.sort_unstable();
            all[1]
        }),
        plain("v_perm_b32", 3, |a, b, c| {
            let bytes = (u64::from(a) << 32 | u64::from(b)).to_le_bytes();
            let sign = |i: usize| if bytes[i] >= 0x80 { 0xff } else { 0 };
            u32::from_le_bytes(c.to_le_bytes().map(|s| match s {
                0..=7 => bytes[s as usize],
                8 => sign(1),
                9 => sign(3),
                10 => sign(5),
                11 => sign(7),
                12 => 0,
                _ => 0xff,
            }))
        }),
        wide("v_mov_b64|", "v[8:9], v[6:7]", |_, b| b),
        wide("v_lshlrev_b64", "v[8:9], v4, v[6:7]", |a, b| b.wrapping_shl(a as u32)),
        wide("v_lshrrev_b64", "v[8:9], v4, v[6:7]", |a, b| b.wrapping_shr(a as u32)),
        wide("v_ashrrev_i64", "v[8:9], v4, v[6:7]", |a, b| (b as i64).wrapping_shr(a as u32) as u64),
        case("v_cvt_f64_i32 v[8:9], v4", "v_cvt_f64_i32 v[8:9], v4", |w| double(f64::from(w[0] as i32))),
        case("v_cvt_f64_u32 v[8:9], v4", "v_cvt_f64_u32 v[8:9], v4", |w| double(f64::from(w[0]))),
        case("v_cvt_f64_f32 v[8:9], v4", "v_cvt_f64_f32 v[8:9], v4", |w| double(f(w[0]).into())),
        case("v_cvt_f32_f64 v8, v[4:5]", "v_cvt_f32_f64 v8, v[4:5]", |w| [(f64::from_bits(pair(w, 0)) as f32).to_bits(), FILL[1], 0]),
        case("v_cvt_i32_f64 v8, v[4:5]", "v_cvt_i32_f64 v8, v[4:5]", |w| [f64::from_bits(pair(w, 0)) as i32 as u32, FILL[1], 0]),
        case("v_cvt_u32_f64 v8, v[4:5]", "v_cvt_u32_f64 v8, v[4:5]", |w| [f64::from_bits(pair(w, 0)) as u32, FILL[1], 0]),
        case("v_ldexp_f64 v[8:9], v[4:5], v6", "v_ldexp_f64 v[8:9], v[4:5], v6", |w| {
            let (mut x, mut n) = (f64::from_bits(pair(w, 0)), (w[2] as i32).clamp(-3000, 3000));
            // exact up to the last step
            while n > 0 {
                x *= 2.0;
                n -= 1;
            }
            let mut steps = 0;
            while n < 0 && x.abs() >= 2f64.powi(-1020) && steps < 3000 {
                x *= 0.5;
                n += 1;
                steps += 1;
            }
            double(if n < 0 { x * 2f64.powi(n.max(-1000)) } else { x })
        }),
        case("v_cndmask_b32 v8, v4, v5, vcc", "v_cndmask_b32 v8, v4, v5, vcc_lo", |w| [w[0], FILL[1], 0]),
        case("", "s_mov_b32 m0, 1\n v_movreld_b32 v8, v4", |w| [FILL[0], w[0], 0]),
        case("", "s_mov_b32 m0, 2\n v_movrels_b32 v8, v4", |w| [w[2], FILL[1], 0]),
        case("v_swap_b32 v8, v4", "v_swap_b32 v8, v4", |w| [w[0], FILL[1], 0]),
        // operands that one lane shares with another
        case("v_mov_b32_dpp v8, v4 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf", "", |w| [w[0], FILL[1], 0]),
        case("v_add_u32_sdwa v8, v4, v5 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1", "", |w| {
            [((w[0] >> 8 & 0xff) + (w[1] >> 16)) << 16, FILL[1], 0]
        }),
        case("v_add_u32_sdwa v8, sext(v4), v5 dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3 src1_sel:DWORD", "", |w| {
            [FILL[0] & !0xff | ((w[0] as i32 >> 24) as u32).wrapping_add(w[1]) & 0xff, FILL[1], 0]
        }),
        case("v_accvgpr_write_b32 a3, v4\n s_nop 1\n v_accvgpr_read_b32 v8, a3", "", |w| [w[0], FILL[1], 0]),
        case("", "v_dual_mov_b32 v8, v4 :: v_dual_add_f32 v9, v5, v6", |w| [w[0], (f(w[1]) + f(w[2])).to_bits(), 0]),
        case("", "v_dual_mul_f32 v8, v4, v5 :: v_dual_mov_b32 v9, v7", |w| [(f(w[0]) * f(w[1])).to_bits(), w[3], 0]),
        case("", "v_dual_cndmask_b32 v8, v4, v5 :: v_dual_and_b32 v9, v6, v7", |w| [w[0], w[2] & w[3], 0]),
    ];
    // float64
    type OnDoubles = fn(f64, f64) -> f64;
    let doubles: [(&str, &str, OnDoubles); 9] = [
        ("v_add_f64", "v[8:9], v[4:5], v[6:7]", |a, b| a + b),
        ("v_mul_f64", "v[8:9], v[4:5], v[6:7]", |a, b| a * b),
        ("v_fma_f64", "v[8:9], v[4:5], v[6:7], -v[4:5]", |a, b| a.mul_add(b, -a)),
        ("v_rcp_f64", "v[8:9], v[4:5]", |a, _| 1.0 / a),
        ("v_rsq_f64", "v[8:9], v[4:5]", |a, _| 1.0 / a.sqrt()),
        ("v_trunc_f64", "v[8:9], v[4:5]", |a, _| a.trunc()),
        ("v_floor_f64", "v[8:9], v[4:5]", |a, _| a.floor()),
        ("v_ceil_f64", "v[8:9], v[4:5]", |a, _| a.ceil()),
        ("v_rndne_f64", "v[8:9], v[4:5]", |a, _| a.round_ties_even()),
    ];
    for (name, operands, want) in doubles {
        let text = format!("{name} {operands}");
        all.push(case(&text, &text, move |w| double(want(f64::from_bits(pair(w, 0)), f64::from_bits(pair(w, 2))))));
    }
    all.push(case("v_fmac_f64 v[8:9], v[4:5], v[6:7]", "", |w| {
        double(f64::from_bits(pair(w, 0)).mul_add(f64::from_bits(pair(w, 2)), f64::from_bits(pair([FILL[0], FILL[1], 0, 0], 0))))
    }));
    all.push(case("v_lshl_add_u64 v[8:9], v[4:5], 3, v[6:7]", "", |w| {
        let r = (pair(w, 0) << 3).wrapping_add(pair(w, 2));
        [r as u32, (r >> 32) as u32, 0]
    }));
    // carries: the bit that comes back is vcc's
    for (gfx9, gfx11, with_in, want) in [
        (
            "v_add_co_u32 v8, vcc, v4, v5",
            "v_add_co_u32 v8, vcc_lo, v4, v5",
            false,
            (|a, b, _| i128::from(a) + i128::from(b)) as fn(u32, u32, u32) -> i128,
        ),
        ("v_sub_co_u32 v8, vcc, v4, v5", "v_sub_co_u32 v8, vcc_lo, v4, v5", false, |a, b, _| i128::from(a) - i128::from(b)),
        ("v_subrev_co_u32 v8, vcc, v4, v5", "v_subrev_co_u32 v8, vcc_lo, v4, v5", false, |a, b, _| i128::from(b) - i128::from(a)),
        ("v_addc_co_u32 v8, vcc, v4, v5, vcc", "v_add_co_ci_u32 v8, vcc_lo, v4, v5, vcc_lo", true, |a, b, c| {
            i128::from(a) + i128::from(b) + i128::from(c)
        }),
        ("v_subb_co_u32 v8, vcc, v4, v5, vcc", "v_sub_co_ci_u32 v8, vcc_lo, v4, v5, vcc_lo", true, |a, b, c| {
            i128::from(a) - i128::from(b) - i128::from(c)
        }),
        ("v_subbrev_co_u32 v8, vcc, v4, v5, vcc", "v_subrev_co_ci_u32 v8, vcc_lo, v4, v5, vcc_lo", true, |a, b, c| {
            i128::from(b) - i128::from(a) - i128::from(c)
        }),
    ] {
        let set = |vcc: &str, text: &str| if with_in { format!("v_cmp_gt_u32 {vcc}, 0x80000000, v6\n {text}") } else { text.to_owned() };
        let bit = |vcc: &str| format!("\n v_cndmask_b32 v10, 0, 1, {vcc}");
        let (a, b) = (set("vcc", gfx9) + &bit("vcc"), set("vcc_lo", gfx11) + &bit("vcc_lo"));
        all.push(case(&a, &b, move |w| {
            let carry = u32::from(with_in && w[2] < 0x8000_0000);
            let r = want(w[0], w[1], carry);
            [r as u32, FILL[1], u32::from(!(0..=i128::from(u32::MAX)).contains(&r))]
        }));
    }
    for (name, signed) in [("v_mad_u64_u32", false), ("v_mad_i64_i32", true)] {
        let text = |vcc: &str| format!("{name} v[8:9], {vcc}, v4, v5, v[6:7]\n v_cndmask_b32 v10, 0, 1, {vcc}");
        all.push(case(&text("vcc"), &text("vcc_lo"), move |w| {
            let (r, over) = if signed {
                let r = i128::from(w[0] as i32) * i128::from(w[1] as i32) + i128::from(pair(w, 2) as i64);
                (r as u64, i64::try_from(r).is_err())
            } else {
                let r = u128::from(w[0]) * u128::from(w[1]) + u128::from(pair(w, 2));
                (r as u64, r >> 64 != 0)
            };
            [r as u32, (r >> 32) as u32, over.into()]
        }));
    }
    // comparisons
    let ints = [("eq", 2u8), ("ne", 5), ("lt", 1), ("le", 3), ("gt", 4), ("ge", 6)];
    let holds = |code: u8, o: std::cmp::Ordering| match o {
        std::cmp::Ordering::Less => code & 1 != 0,
        std::cmp::Ordering::Equal => code & 2 != 0,
        std::cmp::Ordering::Greater => code & 4 != 0,
    };
    let mut compare = |text: String, want: Box<dyn Fn([u32; 4]) -> bool>| {
        let bit = |vcc: &str| format!("{}\n v_cndmask_b32 v10, 0, 1, {vcc}", text.replace("vcc", vcc));
        all.push(case(&bit("vcc"), &bit("vcc_lo"), move |w| [FILL[0], FILL[1], want(w).into()]));
    };
    for (name, code) in ints {
        compare(format!("v_cmp_{name}_u32 vcc, v4, v5"), Box::new(move |w| holds(code, w[0].cmp(&w[1]))));
        compare(format!("v_cmp_{name}_i32 vcc, v4, v5"), Box::new(move |w| holds(code, (w[0] as i32).cmp(&(w[1] as i32)))));
        compare(format!("v_cmp_{name}_u16 vcc, v4, v5"), Box::new(move |w| holds(code, (w[0] as u16).cmp(&(w[1] as u16)))));
        compare(format!("v_cmp_{name}_i16 vcc, v4, v5"), Box::new(move |w| holds(code, (w[0] as i16).cmp(&(w[1] as i16)))));
        compare(format!("v_cmp_{name}_u64 vcc, v[4:5], v[6:7]"), Box::new(move |w| holds(code, pair(w, 0).cmp(&pair(w, 2)))));
        compare(format!("v_cmp_{name}_i64 vcc, v[4:5], v[6:7]"), Box::new(move |w| holds(code, (pair(w, 0) as i64).cmp(&(pair(w, 2) as i64)))));
    }
    // with a fourth outcome, unordered
    let reals = [
        ("eq", 2u8),
        ("neq", 13),
        ("lt", 1),
        ("le", 3),
        ("gt", 4),
        ("ge", 6),
        ("lg", 5),
        ("o", 7),
        ("u", 8),
        ("nge", 9),
        ("nlg", 10),
        ("ngt", 11),
        ("nle", 12),
        ("nlt", 14),
    ];
    let with = |code: u8, o: Option<std::cmp::Ordering>| {
        o.map_or(code & 8 != 0, |o| match o {
            std::cmp::Ordering::Less => code & 1 != 0,
            std::cmp::Ordering::Equal => code & 2 != 0,
            std::cmp::Ordering::Greater => code & 4 != 0,
        })
    };
    for (name, code) in reals {
        compare(format!("v_cmp_{name}_f32 vcc, v4, v5"), Box::new(move |w| with(code, f(w[0]).partial_cmp(&f(w[1])))));
        let half = |x: u32| half::f16::from_bits(x as u16).to_f32();
        compare(format!("v_cmp_{name}_f16 vcc, v4, v5"), Box::new(move |w| with(code, half(w[0]).partial_cmp(&half(w[1])))));
        compare(
            format!("v_cmp_{name}_f64 vcc, v[4:5], v[6:7]"),
            Box::new(move |w| with(code, f64::from_bits(pair(w, 0)).partial_cmp(&f64::from_bits(pair(w, 2))))),
        );
    }
    for bit in 0..10u32 {
        compare(
            format!("v_mov_b32 v11, {}\n v_cmp_class_f32 vcc, v4, v11", 1u32 << bit),
            Box::new(move |w| {
                let x = f(w[0]);
                let n = x.is_sign_negative();
                let is = match x.classify() {
                    std::num::FpCategory::Nan => {
                        if w[0] & 0x40_0000 == 0 {
                            0
                        } else {
                            1
                        }
                    }
                    std::num::FpCategory::Infinite => {
                        if n {
                            2
                        } else {
                            9
                        }
                    }
                    std::num::FpCategory::Normal => {
                        if n {
                            3
                        } else {
                            8
                        }
                    }
                    std::num::FpCategory::Subnormal => {
                        if n {
                            4
                        } else {
                            7
                        }
                    }
                    std::num::FpCategory::Zero => {
                        if n {
                            5
                        } else {
                            6
                        }
                    }
                };
                is == bit
            }),
        );
        compare(
            format!("v_mov_b32 v11, {}\n v_cmp_class_f64 vcc, v[4:5], v11", 1u32 << bit),
            Box::new(move |w| {
                let x = f64::from_bits(pair(w, 0));
                let n = x.is_sign_negative();
                let is = match x.classify() {
                    std::num::FpCategory::Nan => {
                        if w[1] & 0x8_0000 == 0 {
                            0
                        } else {
                            1
                        }
                    }
                    std::num::FpCategory::Infinite => {
                        if n {
                            2
                        } else {
                            9
                        }
                    }
                    std::num::FpCategory::Normal => {
                        if n {
                            3
                        } else {
                            8
                        }
                    }
                    std::num::FpCategory::Subnormal => {
                        if n {
                            4
                        } else {
                            7
                        }
                    }
                    std::num::FpCategory::Zero => {
                        if n {
                            5
                        } else {
                            6
                        }
                    }
                };
                is == bit
            }),
        );
    }
    // writes exec: the lanes that stay on write v8
    all.push(case(
        "s_mov_b64 s[20:21], exec\n v_cmpx_lt_u32 vcc, v4, v5\n v_mov_b32 v8, 7\n s_mov_b64 exec, s[20:21]",
        "s_mov_b32 s20, exec_lo\n v_cmpx_lt_u32 v4, v5\n v_mov_b32 v8, 7\n s_mov_b32 exec_lo, s20",
        |w| [if w[0] < w[1] { 7 } else { FILL[0] }, FILL[1], 0],
    ));
    // an IEEE division by the documents' sequence
    let divide = |vcc: &str, other: &str| {
        format!(
            "v_div_scale_f32 v11, {other}, v5, v5, v4\n v_div_scale_f32 v12, {vcc}, v4, v5, v4\n v_rcp_f32 v13, v11\n v_fma_f32 v14, -v11, v13, 1.0\n v_fma_f32 v13, v14, v13, v13\n \
             v_mul_f32 v15, v12, v13\n v_fma_f32 v16, -v11, v15, v12\n v_fma_f32 v15, v16, v13, v15\n v_fma_f32 v16, -v11, v15, v12\n v_div_fmas_f32 v16, v16, v13, v15\n \
             v_div_fixup_f32 v8, v16, v5, v4"
        )
    };
    all.push(case(&divide("vcc", "s[20:21]"), &divide("vcc_lo", "s20"), |w| [(f(w[0]) / f(w[1])).to_bits(), FILL[1], 0]));
    for name in ["v_add_f16", "v_sub_f16", "v_mul_f16"] {
        let op = move |w: [u32; 4]| {
            let (a, b) = (half::f16::from_bits(w[0] as u16).to_f64(), half::f16::from_bits(w[1] as u16).to_f64());
            u32::from(
                half::f16::from_f64(match name {
                    "v_add_f16" => a + b,
                    "v_sub_f16" => a - b,
                    _ => a * b,
                })
                .to_bits(),
            )
        };
        all.push(case(&format!("{name} v8, v4, v5"), "", move |w| [op(w), FILL[1], 0]));
    }
    all
}

fn double(x: f64) -> [u32; 3] {
    let x = if x.is_nan() { f64::NAN } else { x };
    [x.to_bits() as u32, (x.to_bits() >> 32) as u32, 0]
}

/// On s8 … s11 into s12, s13; scc is 0 before.
fn scalar_cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut push = |gfx9: &str, gfx11: &str, want: Want| all.push(Case { gfx9: gfx9.into(), gfx11: gfx11.into(), want, ulps: 0 });
    const S: [u32; 2] = FILL;
    macro_rules! two {
        ($names:expr, $f:expr) => {{
            let (a, b) = $names.split_once('|').unwrap_or(($names, $names));
            let text = |n: &str| if n.is_empty() { String::new() } else { format!("{n} s12, s8, s9") };
            let f: fn(u32, u32) -> (u32, bool) = $f;
            push(
                &text(a),
                &text(b),
                Box::new(move |w| {
                    let (r, c) = f(w[0], w[1]);
                    [r, S[1], c.into()]
                }),
            );
        }};
    }
    macro_rules! one {
        ($names:expr, $f:expr) => {{
            let (a, b) = $names.split_once('|').unwrap_or(($names, $names));
            let text = |n: &str| if n.is_empty() { String::new() } else { format!("{n} s12, s8") };
            let f: fn(u32) -> (u32, bool) = $f;
            push(
                &text(a),
                &text(b),
                Box::new(move |w| {
                    let (r, c) = f(w[0]);
                    [r, S[1], c.into()]
                }),
            );
        }};
    }
    macro_rules! wide {
        ($text:expr, $f:expr) => {{
            let (a, b) = $text.split_once('|').unwrap_or(($text, $text));
            let f: fn(u64, u64) -> (u64, bool) = $f;
            push(
                a,
                b,
                Box::new(move |w| {
                    let (r, c) = f(pair(w, 0), pair(w, 2));
                    [r as u32, (r >> 32) as u32, c.into()]
                }),
            );
        }};
    }
    macro_rules! test {
        ($text:expr, $f:expr) => {{
            let (a, b) = $text.split_once('|').unwrap_or(($text, $text));
            let f: fn([u32; 4]) -> bool = $f;
            push(a, b, Box::new(move |w| [S[0], S[1], f(w).into()]));
        }};
    }
    one!("s_mov_b32", |a| (a, false));
    one!("s_not_b32", |a| (!a, !a != 0));
    one!("s_brev_b32", |a| ((0..32).fold(0, |r, i| r | (a >> i & 1) << (31 - i)), false));
    one!("s_bcnt0_i32_b32", |a| {
        let n = (0..32).filter(|i| a >> i & 1 == 0).count() as u32;
        (n, n != 0)
    });
    one!("s_bcnt1_i32_b32", |a| {
        let n = (0..32).filter(|i| a >> i & 1 == 1).count() as u32;
        (n, n != 0)
    });
    one!("s_abs_i32", |a| {
        let r = if (a as i32) < 0 { a.wrapping_neg() } else { a };
        (r, r != 0)
    });
    one!("s_sext_i32_i8", |a| (((a << 24) as i32 >> 24) as u32, false));
    one!("s_sext_i32_i16", |a| (((a << 16) as i32 >> 16) as u32, false));
    one!("s_ff1_i32_b32|s_ctz_i32_b32", |a| ((0..32).find(|i| a >> i & 1 == 1).unwrap_or(u32::MAX), false));
    one!("s_flbit_i32_b32|s_clz_i32_u32", |a| ((0..32).find(|i| a >> (31 - i) & 1 == 1).unwrap_or(u32::MAX), false));
    one!("s_flbit_i32|s_cls_i32", |a| ((1..32).find(|i| a >> (31 - i) & 1 != a >> 31).unwrap_or(u32::MAX), false));
    push("s_bitset0_b32 s12, s8", "s_bitset0_b32 s12, s8", Box::new(|w| [S[0] & !(1 << (w[0] % 32)), S[1], 0]));
    push("s_bitset1_b32 s12, s8", "s_bitset1_b32 s12, s8", Box::new(|w| [S[0] | 1 << (w[0] % 32), S[1], 0]));
    push("s_cmov_b32 s12, s8", "s_cmov_b32 s12, s8", Box::new(|_| [S[0], S[1], 0]));
    push("s_movk_i32 s12, 0x8001", "s_movk_i32 s12, 0x8001", Box::new(|_| [0xffff_8001, S[1], 0]));
    push("s_cmovk_i32 s12, 0x8001", "s_cmovk_i32 s12, 0x8001", Box::new(|_| [S[0], S[1], 0]));
    push(
        "s_mov_b32 s12, s8\n s_addk_i32 s12, 0x8001",
        "s_mov_b32 s12, s8\n s_addk_i32 s12, 0x8001",
        Box::new(|w| {
            let r = i64::from(w[0] as i32) - 0x7fff;
            [r as u32, S[1], i32::try_from(r).is_err().into()]
        }),
    );
    push(
        "s_mov_b32 s12, s8\n s_mulk_i32 s12, 0x8001",
        "s_mov_b32 s12, s8\n s_mulk_i32 s12, 0x8001",
        Box::new(|w| [w[0].wrapping_mul(0xffff_8001), S[1], 0]),
    );
    two!("s_add_u32", |a, b| (a.wrapping_add(b), u64::from(a) + u64::from(b) > u32::MAX.into()));
    two!("s_sub_u32", |a, b| (a.wrapping_sub(b), b > a));
    two!("s_add_i32", |a, b| (a.wrapping_add(b), i32::try_from(i64::from(a as i32) + i64::from(b as i32)).is_err()));
    two!("s_sub_i32", |a, b| (a.wrapping_sub(b), i32::try_from(i64::from(a as i32) - i64::from(b as i32)).is_err()));
    two!("s_absdiff_i32", |a, b| {
        let r = (a as i32).wrapping_sub(b as i32);
        let r = if r < 0 { r.wrapping_neg() } else { r } as u32;
        (r, r != 0)
    });
    // carries: the first sum of two sets what the second takes
    push(
        "s_add_u32 s12, s8, s10\n s_addc_u32 s13, s9, s11",
        "s_add_u32 s12, s8, s10\n s_addc_u32 s13, s9, s11",
        Box::new(|w| {
            let (r, c) = pair(w, 0).overflowing_add(pair(w, 2));
            [r as u32, (r >> 32) as u32, c.into()]
        }),
    );
    push(
        "s_sub_u32 s12, s8, s10\n s_subb_u32 s13, s9, s11",
        "s_sub_u32 s12, s8, s10\n s_subb_u32 s13, s9, s11",
        Box::new(|w| {
            let (r, c) = pair(w, 0).overflowing_sub(pair(w, 2));
            [r as u32, (r >> 32) as u32, c.into()]
        }),
    );
    two!("s_min_i32", |a, b| (std::cmp::min(a as i32, b as i32) as u32, (a as i32) < b as i32));
    two!("s_max_i32", |a, b| (std::cmp::max(a as i32, b as i32) as u32, a as i32 > b as i32));
    two!("s_min_u32", |a, b| (std::cmp::min(a, b), a < b));
    two!("s_max_u32", |a, b| (std::cmp::max(a, b), a > b));
    two!("s_cselect_b32", |_, b| (b, false));
    two!("s_and_b32", |a, b| (a & b, a & b != 0));
    two!("s_or_b32", |a, b| (a | b, a | b != 0));
    two!("s_xor_b32", |a, b| (a ^ b, a ^ b != 0));
    two!("s_andn2_b32|s_and_not1_b32", |a, b| (a & !b, a & !b != 0));
    two!("s_orn2_b32|s_or_not1_b32", |a, b| (a | !b, a | !b != 0));
    two!("s_nand_b32", |a, b| (!(a & b), !(a & b) != 0));
    two!("s_nor_b32", |a, b| (!(a | b), !(a | b) != 0));
    two!("s_xnor_b32", |a, b| (!(a ^ b), a ^ b != u32::MAX));
    two!("s_lshl_b32", |a, b| {
        let r = a.wrapping_shl(b);
        (r, r != 0)
    });
    two!("s_lshr_b32", |a, b| {
        let r = a.wrapping_shr(b);
        (r, r != 0)
    });
    two!("s_ashr_i32", |a, b| {
        let r = (a as i32).wrapping_shr(b) as u32;
        (r, r != 0)
    });
    two!("s_bfm_b32", |a, b| (((1u64 << (a % 32)) - 1 << (b % 32)) as u32, false));
    two!("s_bfe_u32", |a, b| {
        let (at, n) = (b % 32, b >> 16 & 127);
        let r = (0..n).filter(|i| at + i < 32).fold(0, |r, i| r | (a >> (at + i) & 1) << i);
        (r, r != 0)
    });
    two!("s_bfe_i32", |a, b| {
        let (at, n) = (b % 32, (b >> 16 & 127).min(32));
        let r = if n == 0 { 0 } else { ((i64::from(a as i32) >> at) << (64 - n) >> (64 - n)) as u32 };
        (r, r != 0)
    });
    two!("s_mul_i32", |a, b| (a.wrapping_mul(b), false));
    two!("s_mul_hi_u32", |a, b| ((u128::from(a) * u128::from(b) >> 32) as u32, false));
    two!("s_mul_hi_i32", |a, b| ((i128::from(a as i32) * i128::from(b as i32) >> 32) as u32, false));
    two!("s_lshl1_add_u32", |a, b| {
        let r = u64::from(a) * 2 + u64::from(b);
        (r as u32, r >> 32 != 0)
    });
    two!("s_lshl2_add_u32", |a, b| {
        let r = u64::from(a) * 4 + u64::from(b);
        (r as u32, r >> 32 != 0)
    });
    two!("s_lshl3_add_u32", |a, b| {
        let r = u64::from(a) * 8 + u64::from(b);
        (r as u32, r >> 32 != 0)
    });
    two!("s_lshl4_add_u32", |a, b| {
        let r = u64::from(a) * 16 + u64::from(b);
        (r as u32, r >> 32 != 0)
    });
    two!("s_pack_ll_b32_b16", |a, b| (a % 65536 + b % 65536 * 65536, false));
    two!("s_pack_lh_b32_b16", |a, b| (a % 65536 + b / 65536 * 65536, false));
    two!("s_pack_hh_b32_b16", |a, b| (a / 65536 + b / 65536 * 65536, false));
    wide!("s_mov_b64 s[12:13], s[8:9]", |a, _| (a, false));
    wide!("s_not_b64 s[12:13], s[8:9]", |a, _| (!a, a != u64::MAX));
    wide!("s_brev_b64 s[12:13], s[8:9]", |a, _| ((0..64).fold(0, |r, i| r | (a >> i & 1) << (63 - i)), false));
    wide!("s_cselect_b64 s[12:13], s[8:9], s[10:11]", |_, b| (b, false));
    wide!("s_and_b64 s[12:13], s[8:9], s[10:11]", |a, b| (a & b, a & b != 0));
    wide!("s_or_b64 s[12:13], s[8:9], s[10:11]", |a, b| (a | b, a | b != 0));
    wide!("s_xor_b64 s[12:13], s[8:9], s[10:11]", |a, b| (a ^ b, a ^ b != 0));
    wide!("s_andn2_b64 s[12:13], s[8:9], s[10:11]|s_and_not1_b64 s[12:13], s[8:9], s[10:11]", |a, b| (a & !b, a & !b != 0));
    wide!("s_orn2_b64 s[12:13], s[8:9], s[10:11]|s_or_not1_b64 s[12:13], s[8:9], s[10:11]", |a, b| (a | !b, a | !b != 0));
    wide!("s_nand_b64 s[12:13], s[8:9], s[10:11]", |a, b| (!(a & b), a & b != u64::MAX));
    wide!("s_nor_b64 s[12:13], s[8:9], s[10:11]", |a, b| (!(a | b), a | b != u64::MAX));
    wide!("s_xnor_b64 s[12:13], s[8:9], s[10:11]", |a, b| (!(a ^ b), a ^ b != u64::MAX));
    wide!("s_lshl_b64 s[12:13], s[8:9], s10", |a, b| {
        let r = a.wrapping_shl(b as u32);
        (r, r != 0)
    });
    wide!("s_lshr_b64 s[12:13], s[8:9], s10", |a, b| {
        let r = a.wrapping_shr(b as u32);
        (r, r != 0)
    });
    wide!("s_ashr_i64 s[12:13], s[8:9], s10", |a, b| {
        let r = (a as i64).wrapping_shr(b as u32) as u64;
        (r, r != 0)
    });
    wide!("s_bfe_u64 s[12:13], s[8:9], s10", |a, b| {
        let (at, n) = (b as u32 % 64, b as u32 >> 16 & 127);
        let r = (0..n).filter(|i| at + i < 64).fold(0, |r, i| r | (a >> (at + i) & 1) << i);
        (r, r != 0)
    });
    wide!("s_bfe_i64 s[12:13], s[8:9], s10", |a, b| {
        let (at, n) = (b as u32 % 64, (b as u32 >> 16 & 127).min(64));
        let r = if n == 0 { 0 } else { ((i128::from(a as i64) >> at) << (128 - n) >> (128 - n)) as u64 };
        (r, r != 0)
    });
    push(
        "s_bcnt1_i32_b64 s12, s[8:9]",
        "s_bcnt1_i32_b64 s12, s[8:9]",
        Box::new(|w| {
            let n = (0..64).filter(|i| pair(w, 0) >> i & 1 == 1).count() as u32;
            [n, S[1], u32::from(n != 0)]
        }),
    );
    push(
        "s_ff1_i32_b64 s12, s[8:9]",
        "s_ctz_i32_b64 s12, s[8:9]",
        Box::new(|w| [(0..64).find(|i| pair(w, 0) >> i & 1 == 1).unwrap_or(u32::MAX), S[1], 0]),
    );
    push(
        "s_flbit_i32_b64 s12, s[8:9]",
        "s_clz_i32_u64 s12, s[8:9]",
        Box::new(|w| [(0..64).find(|i| pair(w, 0) >> (63 - i) & 1 == 1).unwrap_or(u32::MAX), S[1], 0]),
    );
    test!("s_cmp_eq_u64 s[8:9], s[10:11]", |w| pair(w, 0) == pair(w, 2));
    test!("s_cmp_lg_u64 s[8:9], s[10:11]", |w| pair(w, 0) != pair(w, 2));
    test!("s_bitcmp0_b32 s8, s9", |w| w[0] & 1 << (w[1] % 32) == 0);
    test!("s_bitcmp1_b32 s8, s9", |w| w[0] & 1 << (w[1] % 32) != 0);
    macro_rules! compare {
        ($name:expr, $op:tt) => {
            test!(concat!("s_cmp_", $name, "_i32 s8, s9"), |w| (w[0] as i32) $op (w[1] as i32));
            test!(concat!("s_cmp_", $name, "_u32 s8, s9"), |w| w[0] $op w[1]);
            test!(concat!("s_cmpk_", $name, "_i32 s8, 0xfffe"), |w| (w[0] as i32) $op -2);
            test!(concat!("s_cmpk_", $name, "_u32 s8, 0xfffe"), |w| w[0] $op 0xfffe);
        };
    }
    compare!("eq", ==);
    compare!("lg", !=);
    compare!("gt", >);
    compare!("ge", >=);
    compare!("lt", <);
    compare!("le", <=);
    // exec by masks: what was on comes back, what is left on is seen by a lane
    for (gfx9, gfx11, want) in [
        ("s_and_saveexec_b64", "s_and_saveexec_b32", (|a, e| a & e) as fn(u64, u64) -> u64),
        ("s_or_saveexec_b64", "s_or_saveexec_b32", |a, e| a | e),
        ("s_xor_saveexec_b64", "s_xor_saveexec_b32", |a, e| a ^ e),
        ("s_andn2_saveexec_b64", "s_and_not1_saveexec_b32", |a, e| a & !e),
        ("s_orn2_saveexec_b64", "s_or_not1_saveexec_b32", |a, e| a | !e),
        ("s_andn1_saveexec_b64", "s_and_not0_saveexec_b32", |a, e| !a & e),
        ("s_orn1_saveexec_b64", "s_or_not0_saveexec_b32", |a, e| !a | e),
    ] {
        let wide = format!("{gfx9} s[20:21], s[8:9]\n s_mov_b64 s[12:13], exec\n s_mov_b64 exec, s[20:21]");
        push(
            &wide,
            "",
            Box::new(move |w| {
                let r = want(pair(w, 0), u64::MAX);
                [r as u32, (r >> 32) as u32, u32::from(r != 0)]
            }),
        );
        let narrow = format!("{gfx11} s20, s8\n s_mov_b32 s12, exec_lo\n s_mov_b32 exec_lo, s20");
        push(
            "",
            &narrow,
            Box::new(move |w| {
                let r = want(w[0].into(), u32::MAX.into()) as u32;
                [r, S[1], u32::from(r != 0)]
            }),
        );
    }
    // branches: s12 stays where they are taken
    for (branch, taken) in [("s_cbranch_scc0", (|c| !c) as fn(bool) -> bool), ("s_cbranch_scc1", |c| c), ("s_branch", |_| true)] {
        let text = format!("s_cmp_lt_u32 s8, s9\n {branch} 1\n s_mov_b32 s12, s8\n s_nop 0");
        push(&text, &text, Box::new(move |w| [if taken(w[0] < w[1]) { S[0] } else { w[0] }, S[1], u32::from(w[0] < w[1])]));
    }
    for (branch, taken) in [("s_cbranch_vccz", true), ("s_cbranch_vccnz", false)] {
        let text = |reg: &str, kind: &str| {
            format!(
                "s_cmp_lt_u32 s8, s9\n s_cselect_{kind} {reg}, -1, 0\n s_cmp_eq_u32 s8, s8\n {branch} 1\n s_mov_b32 s12, s8\n s_cmp_lg_u32 s8, s8"
            )
        };
        push(&text("vcc", "b64"), &text("vcc_lo", "b32"), Box::new(move |w| [if (w[0] >= w[1]) == taken { S[0] } else { w[0] }, S[1], 0]));
    }
    for (branch, taken) in [("s_cbranch_execz", false), ("s_cbranch_execnz", true)] {
        let text = format!("{branch} 1\n s_mov_b32 s12, s8\n s_nop 0");
        push(&text, &text, Box::new(move |w| [if taken { S[0] } else { w[0] }, S[1], 0]));
    }
    push("v_readfirstlane_b32 s12, v0\n s_nop 4", "v_readfirstlane_b32 s12, v0", Box::new(|_| [0, S[1], 0]));
    all
}

fn vector_body(text: &str, gfx11: bool) -> String {
    let (load4, loadx4, store) = if gfx11 {
        ("s_load_b128", "global_load_b128", "global_store_b128")
    } else {
        ("s_load_dwordx4", "global_load_dwordx4", "global_store_dwordx4")
    };
    let vcc = if gfx11 { "s_mov_b32 vcc_lo, 0" } else { "s_mov_b64 vcc, 0" };
    format!(
        "{load4} s[4:7], s[0:1], 0x0\n v_lshl_add_u32 v1, s2, 6, v0\n v_lshlrev_b32 v1, 4, v1\n s_waitcnt lgkmcnt(0)\n {loadx4} v[4:7], v1, s[4:5]\n v_mov_b32 v8, {}\n v_mov_b32 v9, {}\n \
         v_mov_b32 v10, 0\n v_mov_b32 v11, 0\n {vcc}\n s_waitcnt vmcnt(0)\n {text}\n v_mov_b32 v11, 0\n {store} v1, v[8:11], s[6:7]",
        FILL[0], FILL[1]
    )
}

fn scalar_body(text: &str, gfx11: bool) -> String {
    let (load4, store) = if gfx11 { ("s_load_b128", "global_store_b128") } else { ("s_load_dwordx4", "global_store_dwordx4") };
    format!(
        "{load4} s[4:7], s[0:1], 0x0\n s_lshl_b32 s3, s2, 4\n v_lshl_add_u32 v1, s2, 6, v0\n v_lshlrev_b32 v1, 4, v1\n s_waitcnt lgkmcnt(0)\n {load4} s[8:11], s[4:5], s3\n \
         s_mov_b32 s12, {}\n s_mov_b32 s13, {}\n s_waitcnt lgkmcnt(0)\n s_cmp_lg_u32 s3, s3\n {text}\n s_cselect_b32 s14, 1, 0\n v_mov_b32 v8, s12\n v_mov_b32 v9, s13\n v_mov_b32 v10, s14\n \
         v_mov_b32 v11, 0\n {store} v1, v[8:11], s[6:7]",
        FILL[0], FILL[1]
    )
}

fn check(cases: &[Case], scalar: bool) {
    let words = words();
    for isa in Isa::ALL {
        let gfx11 = isa == Isa::Gfx1100;
        let text = |c: &Case| if gfx11 { c.gfx11.clone() } else { c.gfx9.clone() };
        // gfx90a has neither
        let lacks = |t: &str| {
            isa == Isa::Gfx90a
                && (t.starts_with("v_mov_b64") || t.starts_with("v_lshl_add_u64") || t.starts_with("v_fmaak") || t.starts_with("v_fmamk"))
                || isa == Isa::Gfx942
                    && (t.starts_with("v_mac_f32") || t.starts_with("v_mad_f32") || t.starts_with("v_madmk") || t.starts_with("v_madak"))
        };
        let chosen: Vec<(usize, String)> = cases.iter().enumerate().map(|(i, c)| (i, text(c))).filter(|(_, t)| !t.is_empty() && !lacks(t)).collect();
        let sources: Vec<Source> = chosen
            .iter()
            .map(|(i, t)| Source { name: format!("k{i}"), body: if scalar { scalar_body(t, gfx11) } else { vector_body(t, gfx11) }, lds: 0 })
            .collect();
        let code = assemble(&sources, isa);
        let items = if scalar { words.len() * 64 } else { words.len() };
        let input: Vec<u32> = words.iter().flatten().copied().collect();
        for (i, text) in &chosen {
            let out = execute(&code, &format!("k{i}"), (items / 64) as u32, 64, &input, items * 4, &Options::default())
                .unwrap_or_else(|e| panic!("{isa}: {text}: {e}"));
            for (at, &w) in words.iter().enumerate() {
                let from = if scalar { at * 64 * 4 } else { at * 4 };
                let (got, want) = ([out[from], out[from + 1], out[from + 2]], (cases[*i].want)(w));
                let near = |a: u32, b: u32| (f(a).is_nan() && f(b).is_nan()) || (total(a) - total(b)).unsigned_abs() <= cases[*i].ulps.into();
                let half = |x: u32| half::f16::from_bits(x as u16).is_nan();
                let near16 = |a: u32, b: u32| [0, 16].iter().all(|s| (a >> s) as u16 == (b >> s) as u16 || (half(a >> s) && half(b >> s)));
                let nan64 = |x: [u32; 3]| f64::from_bits(pair([x[0], x[1], 0, 0], 0)).is_nan();
                let same = got == want
                    || (!scalar && near(got[0], want[0]) && near(got[1], want[1]) && got[2] == want[2])
                    || (text.contains("_f16") && near16(got[0], want[0]) && got[1..] == want[1..])
                    || (text.contains("_f64") && nan64(got) && nan64(want) && got[2] == want[2]);
                assert!(same, "{isa}: {text}\non {w:x?} gave {got:x?}, expected {want:x?}");
            }
        }
    }
}

#[test]
fn vector_instructions() {
    check(&vector_cases(), false);
}

#[test]
fn scalar_instructions() {
    check(&scalar_cases(), true);
}

/// Names in the arms of the interpreter's own tables that no case uses. Its text is read: a new arm needs a new case.
#[test]
fn every_instruction_has_a_case() {
    let texts = |cases: Vec<Case>| {
        cases
            .into_iter()
            .flat_map(|c| [c.gfx9, c.gfx11])
            .flat_map(|t| t.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect::<BTreeSet<_>>()
    };
    let used: BTreeSet<String> =
        texts(vector_cases()).union(&texts(scalar_cases())).map(|w| w.trim_end_matches("_sdwa").trim_end_matches("_dpp").to_owned()).collect();
    // tested in tests/memory.rs, or without a result: waits and hints
    let elsewhere = [
        "v_nop",
        "v_readlane_b32",
        "v_writelane_b32",
        "v_mbcnt_lo_u32_b32",
        "v_mbcnt_hi_u32_b32",
        "v_accvgpr_mov_b32",
        "s_barrier",
        "s_endpgm",
        "s_waitcnt",
        "s_waitcnt_vscnt",
        "s_waitcnt_depctr",
        "s_delay_alu",
        "s_sendmsg",
        "s_nop",
        "s_clause",
        "s_sleep",
        "s_setprio",
        "s_set_inst_prefetch_distance",
        "s_icache_inv",
        "s_code_end",
        // calls, private memory: tests/compiled.rs
        "s_getpc_b64",
        "s_setpc_b64",
        "s_swappc_b64",
        "s_getreg_b32",
    ];
    let mut missing = Vec::new();
    for (prefix, source) in [("v_", include_str!("../src/valu.rs")), ("s_", include_str!("../src/salu.rs"))] {
        let body = source.split("pub(crate) fn compile(").nth(1).unwrap();
        for line in body.lines() {
            // an arm of the table, not one within its body
            let Some(arm) = line.strip_prefix("        \"").and_then(|l| l.split(" => ").next()) else { continue };
            let arm = format!("\"{arm}");
            for name in arm.split(" if ").next().unwrap_or_default().split(" | ") {
                let name = format!("{prefix}{}", name.trim().trim_matches('"'));
                if !used.contains(&name) && !elsewhere.contains(&name.as_str()) {
                    missing.push(name);
                }
            }
        }
    }
    assert!(missing.is_empty(), "no case for {missing:?}");
}
