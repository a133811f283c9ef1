//! Scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP. (SMEM is with the memory instructions.)

use crate::op::{Compiled, Exec};
use crate::text::{Arg, EXEC, Line, Operand};
use crate::wave::{Flow, Kind, LGKM, PRIVATE, SHARED, STORE, Src, Src64, VM, Wave};

/// Where a scalar result goes.
#[derive(Clone, Copy)]
enum Dst {
    One(u16),
    Pair(u16),
    Null,
}

fn dst(arg: &Arg) -> Result<Dst, String> {
    match arg.operand {
        Operand::Scalar(r, 1) => Ok(Dst::One(r)),
        Operand::Scalar(r, 2) => Ok(Dst::Pair(r)),
        Operand::Null => Ok(Dst::Null),
        ref o => Err(format!("{o:?} is no scalar destination")),
    }
}

impl Dst {
    fn put(self, w: &mut Wave, x: u64) {
        match self {
            Dst::One(r) => w.s[r as usize] = x as u32,
            Dst::Pair(r) => w.set_pair(r, x),
            Dst::Null => {}
        }
    }
}

fn arg(line: &Line, i: usize) -> Result<&Arg, String> {
    line.args.get(i).ok_or_else(|| format!("operand {i} is missing"))
}

fn src(line: &Line, i: usize) -> Result<Src, String> {
    Src::new(arg(line, i)?, Kind::B32)
}

fn src64(line: &Line, i: usize) -> Result<Src64, String> {
    Src64::new(arg(line, i)?, false)
}

/// What an instruction leaves in scc.
enum Scc {
    Keep,
    Nonzero,
}

fn one32(line: &Line, scc: Scc, f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Compiled {
    let (d, a) = (dst(arg(line, 0)?)?, src(line, 1)?);
    Ok(Some(Box::new(move |w, _| {
        let r = f(a.uniform(w));
        d.put(w, r.into());
        if matches!(scc, Scc::Nonzero) {
            w.scc = r != 0;
        }
        Ok(Flow::Next)
    })))
}

fn one64(line: &Line, scc: Scc, f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Compiled {
    let (d, a) = (dst(arg(line, 0)?)?, src64(line, 1)?);
    Ok(Some(Box::new(move |w, _| {
        let r = f(a.uniform(w));
        d.put(w, r);
        if matches!(scc, Scc::Nonzero) {
            w.scc = r != 0;
        }
        Ok(Flow::Next)
    })))
}

/// `f` gives the result and scc, if it changes.
fn two32(line: &Line, f: impl Fn(u32, u32, bool) -> (u32, Option<bool>) + Send + Sync + 'static) -> Compiled {
    let (d, a, b) = (dst(arg(line, 0)?)?, src(line, 1)?, src(line, 2)?);
    Ok(Some(Box::new(move |w, _| {
        let (r, scc) = f(a.uniform(w), b.uniform(w), w.scc);
        d.put(w, r.into());
        w.scc = scc.unwrap_or(w.scc);
        Ok(Flow::Next)
    })))
}

fn logic32(line: &Line, f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> Compiled {
    two32(line, move |a, b, _| {
        let r = f(a, b);
        (r, Some(r != 0))
    })
}

fn logic64(line: &Line, f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Compiled {
    let (d, a, b) = (dst(arg(line, 0)?)?, src64(line, 1)?, src64(line, 2)?);
    Ok(Some(Box::new(move |w, _| {
        let r = f(a.uniform(w), b.uniform(w));
        d.put(w, r);
        w.scc = r != 0;
        Ok(Flow::Next)
    })))
}

/// A shift or a bit field of 64 bits by a 32-bit amount.
fn shift64(line: &Line, f: impl Fn(u64, u32) -> u64 + Send + Sync + 'static) -> Compiled {
    let (d, a, b) = (dst(arg(line, 0)?)?, src64(line, 1)?, src(line, 2)?);
    Ok(Some(Box::new(move |w, _| {
        let r = f(a.uniform(w), b.uniform(w));
        d.put(w, r);
        w.scc = r != 0;
        Ok(Flow::Next)
    })))
}

fn compare(line: &Line, f: impl Fn(u32, u32) -> bool + Send + Sync + 'static) -> Compiled {
    let (a, b) = (src(line, 0)?, src(line, 1)?);
    Ok(Some(Box::new(move |w, _| {
        w.scc = f(a.uniform(w), b.uniform(w));
        Ok(Flow::Next)
    })))
}

/// The 16-bit immediate of SOPK, its sign extended.
fn imm16(line: &Line, i: usize) -> Result<i32, String> {
    match arg(line, i)?.operand {
        Operand::Literal(x) => Ok(i32::from(x as u16 as i16)),
        Operand::Int(x) => Ok(i32::from(x as u16 as i16)),
        ref o => Err(format!("{o:?} is no immediate")),
    }
}

fn compare_k(line: &Line, f: impl Fn(u32, i32) -> bool + Send + Sync + 'static) -> Compiled {
    let (a, k) = (src(line, 0)?, imm16(line, 1)?);
    Ok(Some(Box::new(move |w, _| {
        w.scc = f(a.uniform(w), k);
        Ok(Flow::Next)
    })))
}

/// `s_and_saveexec` and its kin: the destination gets exec, exec gets `f(source, exec)`.
fn save_exec(line: &Line, f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Compiled {
    let d = dst(arg(line, 0)?)?;
    let wide = matches!(d, Dst::Pair(_));
    let (a, narrow) = if wide { (Some(src64(line, 1)?), None) } else { (None, Some(src(line, 1)?)) };
    Ok(Some(Box::new(move |w, _| {
        let x = a.as_ref().map_or(0, |a| a.uniform(w)) | narrow.as_ref().map_or(0, |a| a.uniform(w).into());
        let old = if wide { w.pair(EXEC) } else { w.s[EXEC as usize].into() };
        let new = f(x, old) & if wide { u64::MAX } else { u32::MAX.into() };
        d.put(w, old);
        if wide {
            w.set_pair(EXEC, new)
        } else {
            w.s[EXEC as usize] = new as u32
        }
        w.scc = new != 0;
        Ok(Flow::Next)
    })))
}

fn branch(line: &Line, target: &dyn Fn(i64) -> Option<usize>, f: impl Fn(&Wave) -> bool + Send + Sync + 'static) -> Compiled {
    let words = i64::from(imm16(line, 0)?);
    let to = target(words * 4).ok_or("its target is no instruction")?;
    Ok(Some(Box::new(move |w, _| Ok(if f(w) { Flow::Jump(to) } else { Flow::Next }))))
}

fn nothing() -> Compiled {
    Ok(Some(Box::new(|_, _| Ok(Flow::Next))))
}

fn bfe32(a: u32, b: u32, signed: bool) -> u32 {
    let (at, width) = (b & 31, (b >> 16) & 0x7f);
    if width == 0 {
        return 0;
    }
    let x = if signed { ((a as i32) >> at) as u32 } else { a >> at };
    let up = 32 - width.min(32);
    if signed { ((x << up) as i32 >> up) as u32 } else { x << up >> up }
}

fn bfe64(a: u64, b: u32, signed: bool) -> u64 {
    let (at, width) = (b & 63, (b >> 16) & 0x7f);
    if width == 0 {
        return 0;
    }
    let x = if signed { ((a as i64) >> at) as u64 } else { a >> at };
    let up = 64 - width.min(64);
    if signed { ((x << up) as i64 >> up) as u64 } else { x << up >> up }
}

/// `vmcnt(0) lgkmcnt(3)`
fn waits(words: &str) -> Result<Vec<(u8, u32)>, String> {
    let mut all = Vec::new();
    for w in words.split(' ').filter(|w| !w.is_empty()) {
        let (name, n) = w.strip_suffix(')').and_then(|w| w.split_once('(')).ok_or_else(|| format!("`{w}`"))?;
        let n: u32 = n.parse().map_err(|_| format!("`{w}`"))?;
        match name {
            "vmcnt" => all.push((VM, n)),
            "lgkmcnt" => all.push((LGKM, n)),
            "vscnt" => all.push((STORE, n)),
            "expcnt" => {}
            _ => return Err(format!("counter `{name}`")),
        }
    }
    Ok(all)
}

fn wait(all: Vec<(u8, u32)>) -> Exec {
    Box::new(move |w, _| {
        for &(kind, n) in &all {
            w.wait(kind, n);
        }
        Ok(Flow::Next)
    })
}

pub(crate) fn compile(line: &Line, pc: u64, target: &dyn Fn(i64) -> Option<usize>) -> Compiled {
    let Some(name) = line.mnemonic.strip_prefix("s_") else { return Ok(None) };
    let carry = |x: u64| (x as u32, Some(x >> 32 != 0));
    match name {
        "mov_b32" => one32(line, Scc::Keep, |a| a),
        "mov_b64" => one64(line, Scc::Keep, |a| a),
        "movk_i32" => {
            let (d, k) = (dst(arg(line, 0)?)?, imm16(line, 1)?);
            Ok(Some(Box::new(move |w, _| {
                d.put(w, (k as u32).into());
                Ok(Flow::Next)
            })))
        }
        "cmovk_i32" => {
            let (d, k) = (dst(arg(line, 0)?)?, imm16(line, 1)?);
            Ok(Some(Box::new(move |w, _| {
                if w.scc {
                    d.put(w, (k as u32).into());
                }
                Ok(Flow::Next)
            })))
        }
        "addk_i32" | "mulk_i32" => {
            let (d, a, k, add) = (dst(arg(line, 0)?)?, src(line, 0)?, imm16(line, 1)?, name == "addk_i32");
            Ok(Some(Box::new(move |w, _| {
                let x = a.uniform(w) as i32;
                let r = if add { x.wrapping_add(k) } else { x.wrapping_mul(k) };
                d.put(w, (r as u32).into());
                if add {
                    w.scc = x.checked_add(k).is_none();
                }
                Ok(Flow::Next)
            })))
        }
        "cmov_b32" => {
            let (d, a) = (dst(arg(line, 0)?)?, src(line, 1)?);
            Ok(Some(Box::new(move |w, _| {
                if w.scc {
                    let x = a.uniform(w);
                    d.put(w, x.into());
                }
                Ok(Flow::Next)
            })))
        }
        "not_b32" => one32(line, Scc::Nonzero, |a| !a),
        "not_b64" => one64(line, Scc::Nonzero, |a| !a),
        "brev_b32" => one32(line, Scc::Keep, u32::reverse_bits),
        "brev_b64" => one64(line, Scc::Keep, u64::reverse_bits),
        "bcnt0_i32_b32" => one32(line, Scc::Nonzero, u32::count_zeros),
        "bcnt1_i32_b32" => one32(line, Scc::Nonzero, u32::count_ones),
        "bcnt1_i32_b64" => one64(line, Scc::Nonzero, |a| a.count_ones().into()),
        "abs_i32" => one32(line, Scc::Nonzero, |a| (a as i32).wrapping_abs() as u32),
        "sext_i32_i8" => one32(line, Scc::Keep, |a| a as i8 as u32),
        "sext_i32_i16" => one32(line, Scc::Keep, |a| a as i16 as u32),
        // the first 1 from the lowest bit, from the highest; -1 for none
        "ff1_i32_b32" | "ctz_i32_b32" => one32(line, Scc::Keep, |a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        "ff1_i32_b64" | "ctz_i32_b64" => one64(line, Scc::Keep, |a| if a == 0 { u32::MAX.into() } else { a.trailing_zeros().into() }),
        "flbit_i32_b32" | "clz_i32_u32" => one32(line, Scc::Keep, |a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "flbit_i32_b64" | "clz_i32_u64" => one64(line, Scc::Keep, |a| if a == 0 { u32::MAX.into() } else { a.leading_zeros().into() }),
        // the first bit from the highest that is not the sign's
        "flbit_i32" | "cls_i32" => one32(line, Scc::Keep, |a| {
            let x = if (a as i32) < 0 { !a } else { a };
            if x == 0 { u32::MAX } else { x.leading_zeros() }
        }),
        "bitset0_b32" | "bitset1_b32" => {
            let (d, old, a, set) = (dst(arg(line, 0)?)?, src(line, 0)?, src(line, 1)?, name == "bitset1_b32");
            Ok(Some(Box::new(move |w, _| {
                let bit = 1 << (a.uniform(w) & 31);
                let x = old.uniform(w);
                d.put(w, if set { x | bit } else { x & !bit }.into());
                Ok(Flow::Next)
            })))
        }
        "add_u32" => two32(line, move |a, b, _| carry(u64::from(a) + u64::from(b))),
        "addc_u32" => two32(line, move |a, b, c| carry(u64::from(a) + u64::from(b) + u64::from(c))),
        "sub_u32" => two32(line, |a, b, _| (a.wrapping_sub(b), Some(b > a))),
        "subb_u32" => two32(line, |a, b, c| (a.wrapping_sub(b).wrapping_sub(c.into()), Some(u64::from(b) + u64::from(c) > a.into()))),
        "add_i32" => two32(line, |a, b, _| (a.wrapping_add(b), Some((a as i32).checked_add(b as i32).is_none()))),
        "sub_i32" => two32(line, |a, b, _| (a.wrapping_sub(b), Some((a as i32).checked_sub(b as i32).is_none()))),
        "absdiff_i32" => logic32(line, |a, b| (a as i32).wrapping_sub(b as i32).wrapping_abs() as u32),
        "min_i32" => two32(line, |a, b, _| if (a as i32) < b as i32 { (a, Some(true)) } else { (b, Some(false)) }),
        "max_i32" => two32(line, |a, b, _| if (a as i32) > b as i32 { (a, Some(true)) } else { (b, Some(false)) }),
        "min_u32" => two32(line, |a, b, _| if a < b { (a, Some(true)) } else { (b, Some(false)) }),
        "max_u32" => two32(line, |a, b, _| if a > b { (a, Some(true)) } else { (b, Some(false)) }),
        "cselect_b32" => two32(line, |a, b, c| (if c { a } else { b }, None)),
        "cselect_b64" => {
            let (d, a, b) = (dst(arg(line, 0)?)?, src64(line, 1)?, src64(line, 2)?);
            Ok(Some(Box::new(move |w, _| {
                let x = if w.scc { a.uniform(w) } else { b.uniform(w) };
                d.put(w, x);
                Ok(Flow::Next)
            })))
        }
        "and_b32" => logic32(line, |a, b| a & b),
        "or_b32" => logic32(line, |a, b| a | b),
        "xor_b32" => logic32(line, |a, b| a ^ b),
        "andn2_b32" | "and_not1_b32" => logic32(line, |a, b| a & !b),
        "orn2_b32" | "or_not1_b32" => logic32(line, |a, b| a | !b),
        "nand_b32" => logic32(line, |a, b| !(a & b)),
        "nor_b32" => logic32(line, |a, b| !(a | b)),
        "xnor_b32" => logic32(line, |a, b| !(a ^ b)),
        "and_b64" => logic64(line, |a, b| a & b),
        "or_b64" => logic64(line, |a, b| a | b),
        "xor_b64" => logic64(line, |a, b| a ^ b),
        "andn2_b64" | "and_not1_b64" => logic64(line, |a, b| a & !b),
        "orn2_b64" | "or_not1_b64" => logic64(line, |a, b| a | !b),
        "nand_b64" => logic64(line, |a, b| !(a & b)),
        "nor_b64" => logic64(line, |a, b| !(a | b)),
        "xnor_b64" => logic64(line, |a, b| !(a ^ b)),
        "lshl_b32" => logic32(line, |a, b| a << (b & 31)),
        "lshr_b32" => logic32(line, |a, b| a >> (b & 31)),
        "ashr_i32" => logic32(line, |a, b| ((a as i32) >> (b & 31)) as u32),
        "lshl_b64" => shift64(line, |a, b| a << (b & 63)),
        "lshr_b64" => shift64(line, |a, b| a >> (b & 63)),
        "ashr_i64" => shift64(line, |a, b| ((a as i64) >> (b & 63)) as u64),
        "bfm_b32" => two32(line, |a, b, _| (((1u32 << (a & 31)) - 1) << (b & 31), None)),
        "bfe_u32" => logic32(line, |a, b| bfe32(a, b, false)),
        "bfe_i32" => logic32(line, |a, b| bfe32(a, b, true)),
        "bfe_u64" => shift64(line, |a, b| bfe64(a, b, false)),
        "bfe_i64" => shift64(line, |a, b| bfe64(a, b, true)),
        "mul_i32" => two32(line, |a, b, _| (a.wrapping_mul(b), None)),
        "mul_hi_u32" => two32(line, |a, b, _| ((u64::from(a) * u64::from(b) >> 32) as u32, None)),
        "mul_hi_i32" => two32(line, |a, b, _| ((i64::from(a as i32) * i64::from(b as i32) >> 32) as u32, None)),
        "lshl1_add_u32" => two32(line, move |a, b, _| carry((u64::from(a) << 1) + u64::from(b))),
        "lshl2_add_u32" => two32(line, move |a, b, _| carry((u64::from(a) << 2) + u64::from(b))),
        "lshl3_add_u32" => two32(line, move |a, b, _| carry((u64::from(a) << 3) + u64::from(b))),
        "lshl4_add_u32" => two32(line, move |a, b, _| carry((u64::from(a) << 4) + u64::from(b))),
        "pack_ll_b32_b16" => two32(line, |a, b, _| (a & 0xffff | b << 16, None)),
        "pack_lh_b32_b16" => two32(line, |a, b, _| (a & 0xffff | b & 0xffff_0000, None)),
        "pack_hh_b32_b16" => two32(line, |a, b, _| (a >> 16 | b & 0xffff_0000, None)),
        "cmp_eq_i32" | "cmp_eq_u32" => compare(line, |a, b| a == b),
        "cmp_lg_i32" | "cmp_lg_u32" => compare(line, |a, b| a != b),
        "cmp_gt_i32" => compare(line, |a, b| a as i32 > b as i32),
        "cmp_ge_i32" => compare(line, |a, b| a as i32 >= b as i32),
        "cmp_lt_i32" => compare(line, |a, b| (a as i32) < b as i32),
        "cmp_le_i32" => compare(line, |a, b| a as i32 <= b as i32),
        "cmp_gt_u32" => compare(line, |a, b| a > b),
        "cmp_ge_u32" => compare(line, |a, b| a >= b),
        "cmp_lt_u32" => compare(line, |a, b| a < b),
        "cmp_le_u32" => compare(line, |a, b| a <= b),
        "cmp_eq_u64" | "cmp_lg_u64" => {
            let (a, b, eq) = (src64(line, 0)?, src64(line, 1)?, name == "cmp_eq_u64");
            Ok(Some(Box::new(move |w, _| {
                w.scc = (a.uniform(w) == b.uniform(w)) == eq;
                Ok(Flow::Next)
            })))
        }
        "bitcmp0_b32" => compare(line, |a, b| a >> (b & 31) & 1 == 0),
        "bitcmp1_b32" => compare(line, |a, b| a >> (b & 31) & 1 == 1),
        "cmpk_eq_i32" => compare_k(line, |a, k| a as i32 == k),
        "cmpk_lg_i32" => compare_k(line, |a, k| a as i32 != k),
        "cmpk_gt_i32" => compare_k(line, |a, k| a as i32 > k),
        "cmpk_ge_i32" => compare_k(line, |a, k| a as i32 >= k),
        "cmpk_lt_i32" => compare_k(line, |a, k| (a as i32) < k),
        "cmpk_le_i32" => compare_k(line, |a, k| a as i32 <= k),
        "cmpk_eq_u32" => compare_k(line, |a, k| a == k as u32 & 0xffff),
        "cmpk_lg_u32" => compare_k(line, |a, k| a != k as u32 & 0xffff),
        "cmpk_gt_u32" => compare_k(line, |a, k| a > k as u32 & 0xffff),
        "cmpk_ge_u32" => compare_k(line, |a, k| a >= k as u32 & 0xffff),
        "cmpk_lt_u32" => compare_k(line, |a, k| a < k as u32 & 0xffff),
        "cmpk_le_u32" => compare_k(line, |a, k| a <= k as u32 & 0xffff),
        "and_saveexec_b64" | "and_saveexec_b32" => save_exec(line, |a, e| a & e),
        "or_saveexec_b64" | "or_saveexec_b32" => save_exec(line, |a, e| a | e),
        "xor_saveexec_b64" | "xor_saveexec_b32" => save_exec(line, |a, e| a ^ e),
        "andn2_saveexec_b64" | "and_not1_saveexec_b32" => save_exec(line, |a, e| a & !e),
        "orn2_saveexec_b64" | "or_not1_saveexec_b32" => save_exec(line, |a, e| a | !e),
        "andn1_saveexec_b64" | "and_not0_saveexec_b32" => save_exec(line, |a, e| !a & e),
        "orn1_saveexec_b64" | "or_not0_saveexec_b32" => save_exec(line, |a, e| !a | e),
        "branch" => branch(line, target, |_| true),
        "cbranch_scc0" => branch(line, target, |w| !w.scc),
        "cbranch_scc1" => branch(line, target, |w| w.scc),
        "cbranch_vccz" => branch(line, target, |w| w.vcc() == 0),
        "cbranch_vccnz" => branch(line, target, |w| w.vcc() != 0),
        "cbranch_execz" => branch(line, target, |w| w.exec() == 0),
        "cbranch_execnz" => branch(line, target, |w| w.exec() != 0),
        "getpc_b64" => {
            let d = dst(arg(line, 0)?)?;
            Ok(Some(Box::new(move |w, _| {
                d.put(w, pc + 4);
                Ok(Flow::Next)
            })))
        }
        "setpc_b64" => {
            let a = src64(line, 0)?;
            Ok(Some(Box::new(move |w, _| Ok(Flow::Call(a.uniform(w))))))
        }
        "swappc_b64" => {
            let (d, a) = (dst(arg(line, 0)?)?, src64(line, 1)?);
            Ok(Some(Box::new(move |w, _| {
                let to = a.uniform(w);
                d.put(w, pc + 4);
                Ok(Flow::Call(to))
            })))
        }
        "barrier" => Ok(Some(Box::new(|_, _| Ok(Flow::Barrier)))),
        "endpgm" => Ok(Some(Box::new(|_, _| Ok(Flow::End)))),
        "waitcnt" => Ok(Some(wait(waits(line.take("words").unwrap_or_default())?))),
        "waitcnt_vscnt" => match (&arg(line, 0)?.operand, &arg(line, 1)?.operand) {
            (Operand::Null, Operand::Literal(n)) => Ok(Some(wait(vec![(STORE, *n)]))),
            (a, b) => Err(format!("{a:?}, {b:?}")),
        },
        // hints of the scheduler
        "waitcnt_depctr" | "delay_alu" => {
            line.take("words");
            nothing()
        }
        // SH_MEM_BASES: the upper 16 bits of the addresses that mean private and shared memory
        "getreg_b32" => {
            let words = line.take("words").unwrap_or_default();
            let (to, register) = words.split_once(", ").ok_or("operands")?;
            let d = dst(&crate::text::arg(to))?;
            let value = match register {
                "hwreg(HW_REG_SH_MEM_BASES, 0, 16)" => PRIVATE >> 16,
                "hwreg(HW_REG_SH_MEM_BASES, 16, 16)" => SHARED >> 16,
                _ => return Err(format!("`{register}`")),
            };
            Ok(Some(Box::new(move |w, _| {
                d.put(w, value.into());
                Ok(Flow::Next)
            })))
        }
        "sendmsg" if line.take("words") == Some("sendmsg(MSG_DEALLOC_VGPRS)") => nothing(),
        "nop" | "clause" | "sleep" | "setprio" | "set_inst_prefetch_distance" | "icache_inv" => nothing(),
        // behind the last instruction of a kernel; a wave that reaches it has gone astray
        "code_end" => Ok(Some(Box::new(|_, _| Err("runs beyond the end of a kernel".into())))),
        _ => Ok(None),
    }
}
