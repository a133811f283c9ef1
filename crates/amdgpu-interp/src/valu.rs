//! Vector instructions: VOP1, VOP2, VOP3, VOP3P, VOPC, with SDWA and DPP.

use crate::Isa;
use crate::op::Compiled;
use crate::text::{Arg, Line, M0, Operand};
use crate::wave::{Dpp, Flow, Kind, LANES, Lanes, Src, Src64, Wave};
use half::f16;
use std::array::from_fn;
use std::sync::Arc;

fn arg(line: &Line, i: usize) -> Result<&Arg, String> {
    line.args.get(i).ok_or_else(|| format!("operand {i} is missing"))
}

fn vector(a: &Arg, count: u16) -> Result<u16, String> {
    match a.operand {
        Operand::Vector(r, n) if n == count => Ok(r),
        ref o => Err(format!("{o:?} is not {count} vector registers")),
    }
}

/// A destination that takes a mask of lanes.
fn mask(a: &Arg) -> Result<Option<u16>, String> {
    match a.operand {
        Operand::Scalar(r, 1 | 2) => Ok(Some(r)),
        Operand::Null => Ok(None),
        ref o => Err(format!("{o:?} takes no mask")),
    }
}

/// What becomes of the bits of a 32-bit register that a narrower result leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Zero,
    Sign,
    Keep,
}

/// Where a 32-bit result goes.
#[derive(Clone, Debug)]
struct Dst {
    register: u16,
    shift: u32,
    width: u32,
    rest: Rest,
    clamp: bool,
    /// Output modifier: 2^n.
    scale: f32,
    dpp: Option<Arc<Dpp>>,
    plain: bool,
}

/// What an op's result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Bits,
    F32,
    /// 16 bits: gfx9 clears the register's upper half, gfx11 keeps it (LLVM, AMDGPU: `zeroesHigh16BitsOfDest`).
    Half,
}

impl Dst {
    fn new(line: &Line, kind: Type, isa: Isa, dpp: Option<Arc<Dpp>>) -> Result<Dst, String> {
        let mut d = Dst { register: vector(arg(line, 0)?, 1)?, shift: 0, width: 32, rest: Rest::Keep, clamp: false, scale: 1.0, dpp, plain: true };
        if kind == Type::Half {
            (d.width, d.rest) = (16, if isa.is_gfx11() { Rest::Keep } else { Rest::Zero });
        }
        if line.encoding == "sdwa" {
            (d.shift, d.width) = match line.take("dst_sel").unwrap_or("DWORD") {
                "DWORD" => (0, 32),
                "WORD_0" => (0, 16),
                "WORD_1" => (16, 16),
                "BYTE_0" => (0, 8),
                "BYTE_1" => (8, 8),
                "BYTE_2" => (16, 8),
                "BYTE_3" => (24, 8),
                s => return Err(format!("dst_sel:{s}")),
            };
            d.rest = match line.take("dst_unused").unwrap_or("UNUSED_PAD") {
                "UNUSED_PAD" => Rest::Zero,
                "UNUSED_SEXT" => Rest::Sign,
                "UNUSED_PRESERVE" => Rest::Keep,
                s => return Err(format!("dst_unused:{s}")),
            };
            // of a 16-bit result as a whole register the upper half is no result
            if kind == Type::Half && d.width == 32 {
                (d.width, d.rest) = (16, Rest::Zero);
            }
        }
        if kind == Type::F32 {
            d.clamp = line.take("clamp").is_some();
            if let Some(m) = line.number("mul")? {
                d.scale = m as f32;
            }
            if let Some(m) = line.number("div")? {
                d.scale = 1.0 / m as f32;
            }
        }
        d.plain = d.width == 32 && !d.clamp && d.scale == 1.0 && d.dpp.is_none();
        Ok(d)
    }

    #[inline]
    fn put(&self, w: &mut Wave, x: &Lanes) {
        if self.plain { w.put(self.register, x) } else { self.put_changed(w, x) }
    }

    fn put_changed(&self, w: &mut Wave, x: &Lanes) {
        let old = w.v[self.register as usize];
        let bits = if self.width == 32 { u32::MAX } else { ((1 << self.width) - 1) << self.shift };
        let one = |i: usize| {
            let mut x = x[i];
            if self.scale != 1.0 {
                x = (f32::from_bits(x) * self.scale).to_bits();
            }
            if self.clamp {
                // DX10_CLAMP: NaN becomes 0
                let f = f32::from_bits(x);
                x = if f > 0.0 { f.min(1.0).to_bits() } else { 0 };
            }
            let placed = x << self.shift & bits;
            match self.rest {
                Rest::Zero => placed,
                Rest::Keep => placed | old[i] & !bits,
                Rest::Sign => {
                    let up = 32 - self.width - self.shift;
                    ((placed << up) as i32 >> up) as u32
                }
            }
        };
        let all: Lanes = from_fn(one);
        let exec = w.exec();
        match &self.dpp {
            None => w.put(self.register, &all),
            Some(dpp) => {
                w.set_exec(dpp.lanes(exec));
                w.put(self.register, &all);
                w.set_exec(exec);
            }
        }
    }
}

/// The permutation that a DPP modifier names.
fn dpp(line: &Line, isa: Isa) -> Result<Option<Arc<Dpp>>, String> {
    if line.encoding != "dpp" {
        return Ok(None);
    }
    let list = |text: &str| -> Result<Vec<u8>, String> {
        let inner = text.trim_matches(['[', ']']);
        inner.split(',').map(|n| n.trim().parse().map_err(|_| format!("`{text}`"))).collect()
    };
    let mut from: Option<Vec<Option<u8>>> = None;
    let row = |f: &dyn Fn(u8) -> Option<u8>| -> Vec<Option<u8>> { (0..64u8).map(|i| f(i & 15).map(|j| i & !15 | j)).collect() };
    if let Some(text) = line.take("quad_perm") {
        let p = list(text)?;
        let [a, b, c, d] = p[..] else { return Err(format!("quad_perm:{text}")) };
        from = Some((0..64u8).map(|i| Some(i & !3 | [a, b, c, d][i as usize & 3])).collect());
    }
    if let Some(text) = line.take("dpp8") {
        let p = list(text)?;
        if p.len() != 8 || p.iter().any(|&x| x > 7) {
            return Err(format!("dpp8:{text}"));
        }
        from = Some((0..64u8).map(|i| Some(i & !7 | p[i as usize & 7])).collect());
    }
    for name in ["row_shl", "row_shr", "row_ror", "row_share", "row_xmask", "row_newbcast"] {
        if let Some(n) = line.number(name)? {
            let n = n as u8;
            from = Some(match name {
                "row_shl" => row(&|j| Some(j + n).filter(|&k| k < 16)),
                "row_shr" => row(&|j| j.checked_sub(n)),
                "row_ror" => row(&|j| Some((j + 16 - n) & 15)),
                "row_xmask" => row(&|j| Some(j ^ n)),
                _ => row(&|_| Some(n)),
            });
        }
    }
    if line.take("row_mirror").is_some() {
        from = Some(row(&|j| Some(15 - j)));
    }
    if line.take("row_half_mirror").is_some() {
        from = Some(row(&|j| Some(j & 8 | 7 - (j & 7))));
    }
    if let Some(n) = line.number("row_bcast")? {
        // the last lane of each row, or of each pair of rows, is what the next one reads
        let n = n as u8 + 1;
        from = Some((0..64u8).map(|i| (i / n * n).checked_sub(1)).collect());
    }
    let from = from.ok_or("a permutation that is not known")?;
    let (rows, banks) = (line.number("row_mask")?.unwrap_or(15), line.number("bank_mask")?.unwrap_or(15));
    let enabled = (0..64).filter(|i| rows >> (i / 16) & 1 == 1 && banks >> (i % 16 / 4) & 1 == 1).fold(0u64, |m, i| m | 1 << i);
    // printed as bound_ctrl:0 by older tools and bound_ctrl:1 by newer ones: the bit is set
    let zero = line.take("bound_ctrl").is_some() || (isa.is_gfx11() && line.take("fi").is_some());
    Ok(Some(Arc::new(Dpp { from, enabled, zero })))
}

/// The operands of an op with 32-bit or narrower sources.
struct Operands {
    dst: Dst,
    src: Vec<Src>,
}

/// Sources from operand `first` on. Parts (SDWA), permutations (DPP) and halves (op_sel of 16-bit ops) are read as they are printed.
fn sources(line: &Line, first: usize, kinds: &[Kind], dpp: Option<&Arc<Dpp>>) -> Result<Vec<Src>, String> {
    let mut all = Vec::new();
    for (i, &kind) in kinds.iter().enumerate() {
        let a = arg(line, first + i)?;
        let plain = Arg { sext: false, ..a.clone() };
        let mut s = Src::new(&plain, kind)?;
        if line.encoding == "sdwa" {
            let name = if i == 0 { "src0_sel" } else { "src1_sel" };
            s = s.part(line.take(name).unwrap_or("DWORD"), a.sext)?;
        } else if a.sext {
            return Err("sext".into());
        }
        if let Some(dpp) = dpp.filter(|_| i == 0) {
            s = s.through(dpp.clone());
        }
        all.push(s);
    }
    Ok(all)
}

fn operands(line: &Line, isa: Isa, kind: Type, kinds: &[Kind]) -> Result<Operands, String> {
    if line.args.len() != kinds.len() + 1 {
        return Err(format!("{} operands, not {}", line.args.len(), kinds.len() + 1));
    }
    let dpp = dpp(line, isa)?;
    let mut src = sources(line, 1, kinds, dpp.as_ref())?;
    let mut dst = Dst::new(line, kind, isa, dpp)?;
    if let Some(select) = line.bits("op_sel")? {
        let halves = kinds.iter().all(|&k| k == Kind::F16) || kind == Type::Half;
        if !halves || select.len() != kinds.len() + 1 {
            return Err("op_sel".into());
        }
        for (i, high) in select.iter().enumerate() {
            if *high && i < src.len() {
                src[i] = src[i].clone().high_half();
            } else if *high {
                (dst.shift, dst.width, dst.rest, dst.plain) = (16, 16, Rest::Keep, false);
            }
        }
    }
    Ok(Operands { dst, src })
}

fn one(line: &Line, isa: Isa, t: Type, k: Kind, f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Compiled {
    let o = operands(line, isa, t, &[k])?;
    Ok(Some(Box::new(move |w, _| {
        let a = o.src[0].lanes(w);
        o.dst.put(w, &from_fn(|i| f(a[i])));
        Ok(Flow::Next)
    })))
}

fn two(line: &Line, isa: Isa, t: Type, k: Kind, f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> Compiled {
    let o = operands(line, isa, t, &[k, k])?;
    Ok(Some(Box::new(move |w, _| {
        let (a, b) = (o.src[0].lanes(w), o.src[1].lanes(w));
        let mut r = [0; LANES];
        for i in 0..LANES {
            r[i] = f(a[i], b[i]);
        }
        o.dst.put(w, &r);
        Ok(Flow::Next)
    })))
}

fn three(line: &Line, isa: Isa, t: Type, k: Kind, f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> Compiled {
    let o = operands(line, isa, t, &[k, k, k])?;
    Ok(Some(Box::new(move |w, _| {
        let (a, b, c) = (o.src[0].lanes(w), o.src[1].lanes(w), o.src[2].lanes(w));
        let mut r = [0; LANES];
        for i in 0..LANES {
            r[i] = f(a[i], b[i], c[i]);
        }
        o.dst.put(w, &r);
        Ok(Flow::Next)
    })))
}

fn quiet(x: u32) -> u32 {
    x | 0x0040_0000
}

fn is_nan(x: u32) -> bool {
    x & 0x7fff_ffff > 0x7f80_0000
}

/// A result's bits: NaN is the first operand's that is one, made quiet, or the default one.
#[inline]
fn result(r: f32, operands: &[u32]) -> u32 {
    let bits = r.to_bits();
    if !is_nan(bits) {
        return bits;
    }
    operands.iter().copied().find(|&x| is_nan(x)).map_or(0x7fc0_0000, quiet)
}

#[inline]
fn float2(f: impl Fn(f32, f32) -> f32) -> impl Fn(u32, u32) -> u32 {
    move |a, b| result(f(f32::from_bits(a), f32::from_bits(b)), &[a, b])
}

/// IEEE mode: maximumNumber and minimumNumber of 2008, in which a signalling NaN wins; -0 is less than +0.
fn choose(a: u32, b: u32, less: bool) -> u32 {
    let signalling = |x: u32| is_nan(x) && x & 0x0040_0000 == 0;
    if signalling(a) {
        return quiet(a);
    }
    if signalling(b) {
        return quiet(b);
    }
    match (is_nan(a), is_nan(b)) {
        (true, true) => a,
        (true, false) => b,
        (false, true) => a,
        _ => {
            let key = |x: u32| if x >> 31 == 1 { !x } else { x | 1 << 31 };
            if (key(a) < key(b)) == less { a } else { b }
        }
    }
}

fn max(a: u32, b: u32) -> u32 {
    choose(a, b, false)
}

fn min(a: u32, b: u32) -> u32 {
    choose(a, b, true)
}

fn med3(a: u32, b: u32, c: u32) -> u32 {
    if is_nan(a) || is_nan(b) || is_nan(c) {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// Approximate instructions: subnormals count as 0 on both sides, the rest is rounded once.
fn approximate(f: impl Fn(f64) -> f64) -> impl Fn(u32) -> u32 {
    move |a| result(flush(f(f64::from(flush(f32::from_bits(a)))) as f32), &[a])
}

fn ldexp(x: f64, n: i32) -> f64 {
    // in steps, each exact but the last
    let mut x = x;
    let mut n = n.clamp(-2200, 2200);
    while n > 1000 {
        x *= f64::powi(2.0, 1000);
        n -= 1000;
    }
    while n < -1000 {
        // subnormals would round twice: what is so small rounds to 0 or to the least value by the last step
        if x.abs() < f64::MIN_POSITIVE * f64::powi(2.0, 60) {
            return x * f64::powi(2.0, -1000);
        }
        x *= f64::powi(2.0, -1000);
        n += 1000;
    }
    x * f64::powi(2.0, n)
}

fn exponent(x: u32) -> i32 {
    (x >> 23 & 0xff) as i32
}

/// V_DIV_SCALE_F32 of the ISA documents: the operand, scaled where the division would leave the range, and whether its result needs scaling back.
fn div_scale(s0: u32, den: u32, num: u32) -> (u32, bool) {
    let (x, d, n) = (f32::from_bits(s0), f32::from_bits(den), f32::from_bits(num));
    let scaled = |by: i32| (ldexp(f64::from(x), by) as f32).to_bits();
    let small = |q: f64| q != 0.0 && q.abs() < f64::from(f32::MIN_POSITIVE);
    if n == 0.0 || d == 0.0 {
        return (0x7fc0_0000, false);
    }
    let (inverse, quotient) = (1.0 / f64::from(d), f64::from(n) / f64::from(d));
    let is_den = s0 == den;
    if exponent(num) - exponent(den) >= 96 {
        return (if is_den { scaled(64) } else { s0 }, true);
    }
    if d.is_subnormal() {
        return (scaled(64), false);
    }
    if small(inverse) && small(quotient) {
        return (if is_den { scaled(-64) } else { s0 }, true);
    }
    if small(inverse) {
        return (scaled(-64), false);
    }
    if small(quotient) {
        return (if s0 == num { scaled(64) } else { s0 }, true);
    }
    if exponent(num) <= 23 {
        return (scaled(64), false);
    }
    (s0, false)
}

/// V_DIV_FIXUP_F32: the special cases of `num / den` around a quotient.
fn div_fixup(q: u32, den: u32, num: u32) -> u32 {
    let (d, n) = (f32::from_bits(den), f32::from_bits(num));
    let sign = (den ^ num) & 0x8000_0000;
    if is_nan(num) {
        return quiet(num);
    }
    if is_nan(den) {
        return quiet(den);
    }
    if (d == 0.0 && n == 0.0) || (d.is_infinite() && n.is_infinite()) {
        return 0xffc0_0000;
    }
    if d == 0.0 || n.is_infinite() {
        return sign | 0x7f80_0000;
    }
    if d.is_infinite() || n == 0.0 {
        return sign;
    }
    if exponent(num) - exponent(den) < -150 {
        return sign;
    }
    // of finite operands a quotient that is none comes from infinities on the way: it is larger than any number. The ISA documents do not say so;
    // an IEEE division by their sequence needs it.
    sign | if is_nan(q) { 0x7f80_0000 } else { q & 0x7fff_ffff }
}

/// Bits of V_CMP_CLASS: signalling and quiet NaN, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf.
fn class(x: f64, signalling: bool, subnormal: bool) -> u32 {
    let negative = x.is_sign_negative();
    if x.is_nan() {
        return if signalling { 1 } else { 2 };
    }
    let i = if x.is_infinite() {
        2
    } else if x == 0.0 {
        5
    } else if subnormal {
        4
    } else {
        3
    };
    1 << if negative { i } else { 11 - i }
}

#[target_feature(enable = "avx2,fma")]
fn fma_wide(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let mut r = [0; LANES];
    for i in 0..LANES {
        r[i] = f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i])).to_bits();
    }
    r
}

fn fma_lanes(a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    let mut r = if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has what the function is compiled for
        unsafe { fma_wide(a, b, c) }
    } else {
        from_fn(|i| f32::from_bits(a[i]).mul_add(f32::from_bits(b[i]), f32::from_bits(c[i])).to_bits())
    };
    for i in 0..LANES {
        if is_nan(r[i]) {
            r[i] = result(f32::NAN, &[a[i], b[i], c[i]]);
        }
    }
    r
}

/// `a * b + c` to the 53 bits of float64, the last of which says that more followed: a second rounding then errs no more than one alone
/// (Boldo and Melquiond, 2005).
fn fma_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    // what the sum lost: Knuth's two-sum
    let t = s - p;
    let lost = (p - (s - t)) + (c - t);
    if lost == 0.0 || !s.is_finite() || s.to_bits() & 1 == 1 {
        return s;
    }
    f64::from_bits(if (lost > 0.0) == (s > 0.0) { s.to_bits() + 1 } else { s.to_bits() - 1 })
}

/// `dst = a * b + c`, rounded once.
fn fma(dst: Dst, a: Src, b: Src, c: Src) -> Compiled {
    Ok(Some(Box::new(move |w, _| {
        let r = fma_lanes(&a.lanes(w), &b.lanes(w), &c.lanes(w));
        dst.put(w, &r);
        Ok(Flow::Next)
    })))
}

/// Two 32-bit floats at once; `op_sel` and `op_sel_hi` choose the half of each source for the lower and the upper result.
fn packed(line: &Line, n: usize, f: impl Fn(&[Lanes]) -> Lanes + Send + Sync + 'static) -> Compiled {
    let to = vector(arg(line, 0)?, 2)?;
    let low = line.bits("op_sel")?.unwrap_or(vec![false; n]);
    let high = line.bits("op_sel_hi")?.unwrap_or(vec![true; n]);
    let negs = [line.bits("neg_lo")?.unwrap_or(vec![false; n]), line.bits("neg_hi")?.unwrap_or(vec![false; n])];
    if [low.len(), high.len(), negs[0].len(), negs[1].len()] != [n; 4] {
        return Err("a list of another length".into());
    }
    let mut src = [Vec::new(), Vec::new()];
    for i in 0..n {
        let a = arg(line, 1 + i)?;
        for (half, select) in [(0, low[i]), (1, high[i])] {
            let (Operand::Vector(..) | Operand::Scalar(..)) = a.operand else {
                // a constant fills the lower half alone
                let plain = Src::new(&Arg { neg: negs[half][i] != a.neg, ..a.clone() }, Kind::F32)?;
                if select && plain.constant() != Some(0) && plain.constant() != Some(0x8000_0000) {
                    return Err("the upper half of a constant".into());
                }
                src[half].push(plain);
                continue;
            };
            let both = Src64::new(a, true)?;
            let mut one = if select { both.hi } else { both.lo };
            if negs[half][i] {
                one = one.negated();
            }
            src[half].push(one);
        }
    }
    let [lo, hi] = src;
    Ok(Some(Box::new(move |w, _| {
        let read = |s: &[Src]| s.iter().map(|s| s.lanes(w)).collect::<Vec<_>>();
        let (a, b) = (f(&read(&lo)), f(&read(&hi)));
        w.put(to, &a);
        w.put(to + 1, &b);
        Ok(Flow::Next)
    })))
}

/// `v_fma_mix_f32` and its kin: each source is float32, or a half of a register as float16 where op_sel_hi says so.
fn mix(line: &Line, to_half: Option<bool>) -> Compiled {
    let to = vector(arg(line, 0)?, 1)?;
    let high = line.bits("op_sel")?.unwrap_or(vec![false; 3]);
    let narrow = line.bits("op_sel_hi")?.unwrap_or(vec![false; 3]);
    let (neg, abs) = (line.bits("neg_lo")?.unwrap_or(vec![false; 3]), line.bits("neg_hi")?.unwrap_or(vec![false; 3]));
    if [high.len(), narrow.len(), neg.len(), abs.len()] != [3; 4] || abs.iter().any(|&a| a) {
        return Err("a list that is not known".into());
    }
    let mut src = Vec::new();
    for i in 0..3 {
        let a = arg(line, 1 + i)?;
        // the signs are those of the value that is read
        let bare = Src::new(&Arg { neg: false, abs: false, ..a.clone() }, if narrow[i] { Kind::F16 } else { Kind::F32 })?;
        let bare = if narrow[i] && high[i] { bare.high_half() } else { bare };
        src.push((bare, narrow[i], a.neg != neg[i], a.abs));
    }
    Ok(Some(Box::new(move |w, _| {
        let read = |(s, narrow, neg, abs): &(Src, bool, bool, bool)| {
            let x = s.lanes(w);
            x.map(|x| {
                let x = if *narrow { f32::from(f16::from_bits(x as u16)).to_bits() } else { x };
                let x = if *abs { x & 0x7fff_ffff } else { x };
                if *neg { x ^ 0x8000_0000 } else { x }
            })
        };
        let r = fma_lanes(&read(&src[0]), &read(&src[1]), &read(&src[2]));
        match to_half {
            None => w.put(to, &r),
            Some(high) => {
                let old = w.v[to as usize];
                let x: Lanes = from_fn(|i| {
                    let h = u32::from(f16::from_f32(f32::from_bits(r[i])).to_bits());
                    if high { old[i] & 0xffff | h << 16 } else { old[i] & 0xffff_0000 | h }
                });
                w.put(to, &x);
            }
        }
        Ok(Flow::Next)
    })))
}

/// A carry in a mask of lanes: the destination, and the mask that is read.
fn carry(line: &Line, isa: Isa, with_in: bool, swap: bool, f: fn(u32, u32, bool) -> (u32, bool)) -> Compiled {
    let dpp = dpp(line, isa)?;
    let dst = Dst::new(line, Type::Bits, isa, None)?;
    if dpp.is_some() {
        return Err("dpp".into());
    }
    let out = mask(arg(line, 1)?)?;
    let src = sources(line, 2, &[Kind::B32, Kind::B32], None)?;
    let carry_in = if with_in { Some(mask(arg(line, 4)?)?.ok_or("no carry")?) } else { None };
    Ok(Some(Box::new(move |w, _| {
        let (mut a, mut b) = (src[0].lanes(w), src[1].lanes(w));
        if swap {
            std::mem::swap(&mut a, &mut b);
        }
        let from = carry_in.map_or(0, |r| w.mask(r));
        let (mut r, mut to) = ([0; LANES], 0u64);
        for i in 0..LANES {
            let (x, c) = f(a[i], b[i], from >> i & 1 == 1);
            r[i] = x;
            to |= u64::from(c) << i;
        }
        let exec = w.exec();
        dst.put(w, &r);
        if let Some(out) = out {
            w.set_mask(out, to & exec);
        }
        Ok(Flow::Next)
    })))
}

fn put_mask(line: &Line, exec_only: bool, sets_exec: bool, f: impl Fn(&Wave) -> u64 + Send + Sync + 'static) -> Compiled {
    let out = if exec_only { None } else { mask(arg(line, 0)?)? };
    Ok(Some(Box::new(move |w, _| {
        let m = f(w) & w.exec();
        if let Some(out) = out {
            w.set_mask(out, m);
        }
        if sets_exec {
            w.set_exec(m);
        }
        Ok(Flow::Next)
    })))
}

#[allow(clippy::neg_cmp_op_on_partial_ord, clippy::double_comparisons, reason = "what each says of NaN is its meaning")]
fn holds<T: PartialOrd>(name: &str) -> Option<fn(T, T) -> bool> {
    Some(match name {
        "eq" => |a, b| a == b,
        "ne" | "neq" => |a, b| a != b,
        "lt" => |a, b| a < b,
        "le" => |a, b| a <= b,
        "gt" => |a, b| a > b,
        "ge" => |a, b| a >= b,
        "lg" => |a, b| a < b || a > b,
        "o" => |a, b| a.partial_cmp(&b).is_some(),
        "u" => |a, b| a.partial_cmp(&b).is_none(),
        "nge" => |a, b| !(a >= b),
        "nlg" => |a, b| !(a < b || a > b),
        "ngt" => |a, b| !(a > b),
        "nle" => |a, b| !(a <= b),
        "nlt" => |a, b| !(a < b),
        _ => return None,
    })
}

fn compare(line: &Line, name: &str, isa: Isa) -> Compiled {
    let (sets_exec, rest) = match name.strip_prefix("v_cmpx_") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("v_cmp_").unwrap_or_default()),
    };
    let Some((relation, kind)) = rest.rsplit_once('_') else { return Ok(None) };
    // gfx11 writes exec alone
    let exec_only = sets_exec && isa.is_gfx11();
    let first = usize::from(!exec_only);
    if line.args.len() != first + 2 || line.encoding == "dpp" {
        return Err("operands".into());
    }
    macro_rules! narrow {
        ($kind:expr, $t:ty, $from:expr) => {{
            let Some(f) = holds::<$t>(relation) else { return Ok(None) };
            let s = sources(line, first, &[$kind, $kind], None)?;
            return put_mask(line, exec_only, sets_exec, move |w| {
                let (a, b) = (s[0].lanes(w), s[1].lanes(w));
                (0..LANES).fold(0, |m, i| m | u64::from(f($from(a[i]), $from(b[i]))) << i)
            });
        }};
    }
    macro_rules! wide {
        ($float:expr, $t:ty, $from:expr) => {{
            let Some(f) = holds::<$t>(relation) else { return Ok(None) };
            let (s, t) = (Src64::new(arg(line, first)?, $float)?, Src64::new(arg(line, first + 1)?, $float)?);
            return put_mask(line, exec_only, sets_exec, move |w| {
                let (a, b) = (s.lanes(w), t.lanes(w));
                (0..LANES).fold(0, |m, i| m | u64::from(f($from(a[i]), $from(b[i]))) << i)
            });
        }};
    }
    match (relation, kind) {
        ("class", "f32") => {
            let s = [Src::new(arg(line, first)?, Kind::F32)?, Src::new(arg(line, first + 1)?, Kind::B32)?];
            put_mask(line, exec_only, sets_exec, move |w| {
                let (a, b) = (s[0].lanes(w), s[1].lanes(w));
                let is = |i: usize| {
                    let x = f32::from_bits(a[i]);
                    class(x.into(), a[i] & 0x0040_0000 == 0, x.is_subnormal()) & b[i] != 0
                };
                (0..LANES).fold(0, |m, i| m | u64::from(is(i)) << i)
            })
        }
        ("class", "f64") => {
            let (s, t) = (Src64::new(arg(line, first)?, true)?, Src::new(arg(line, first + 1)?, Kind::B32)?);
            put_mask(line, exec_only, sets_exec, move |w| {
                let (a, b) = (s.lanes(w), t.lanes(w));
                let is = |i: usize| {
                    let x = f64::from_bits(a[i]);
                    class(x, a[i] >> 51 & 1 == 0, x.is_subnormal()) & b[i] != 0
                };
                (0..LANES).fold(0, |m, i| m | u64::from(is(i)) << i)
            })
        }
        (_, "f32") => narrow!(Kind::F32, f32, f32::from_bits),
        (_, "f16") => narrow!(Kind::F16, f32, |x| f32::from(f16::from_bits(x as u16))),
        (_, "u32") => narrow!(Kind::B32, u32, |x| x),
        (_, "i32") => narrow!(Kind::B32, i32, |x| x as i32),
        (_, "u16") => narrow!(Kind::B32, u16, |x| x as u16),
        (_, "i16") => narrow!(Kind::B32, i16, |x| x as i16),
        (_, "f64") => wide!(true, f64, f64::from_bits),
        (_, "u64") => wide!(false, u64, |x| x),
        (_, "i64") => wide!(false, i64, |x| x as i64),
        _ => Ok(None),
    }
}

fn put64(w: &mut Wave, to: u16, x: &[u64; LANES]) {
    w.put(to, &x.map(|x| x as u32));
    w.put(to + 1, &x.map(|x| (x >> 32) as u32));
}

fn doubles(line: &Line, n: usize, f: impl Fn(&[f64]) -> f64 + Send + Sync + 'static) -> Compiled {
    let to = vector(arg(line, 0)?, 2)?;
    if line.args.len() != n + 1 {
        return Err("operands".into());
    }
    let src: Vec<Src64> = (1..=n).map(|i| Src64::new(arg(line, i)?, true)).collect::<Result<_, _>>()?;
    Ok(Some(Box::new(move |w, _| {
        let all: Vec<_> = src.iter().map(|s| s.lanes(w)).collect();
        let one = |i: usize| {
            let x: Vec<f64> = all.iter().map(|a| f64::from_bits(a[i])).collect();
            let r = f(&x);
            if r.is_nan() { x.iter().find(|x| x.is_nan()).map_or(0x7ff8 << 48, |x| x.to_bits() | 1 << 51) } else { r.to_bits() }
        };
        let r: [u64; LANES] = from_fn(one);
        put64(w, to, &r);
        Ok(Flow::Next)
    })))
}

/// A 64-bit shift whose amount comes first.
fn shift64(line: &Line, f: fn(u64, u32) -> u64) -> Compiled {
    let (to, by, x) = (vector(arg(line, 0)?, 2)?, Src::new(arg(line, 1)?, Kind::B32)?, Src64::new(arg(line, 2)?, false)?);
    Ok(Some(Box::new(move |w, _| {
        let (n, x) = (by.lanes(w), x.lanes(w));
        let r: [u64; LANES] = from_fn(|i| f(x[i], n[i] & 63));
        put64(w, to, &r);
        Ok(Flow::Next)
    })))
}

/// The lane that is read where one is asked for.
fn first_lane(w: &Wave) -> usize {
    let exec = w.exec();
    if exec == 0 { 0 } else { exec.trailing_zeros() as usize }
}

fn bytes_of(a: u32, b: u32, select: u32) -> u32 {
    let all = u64::from(a) << 32 | u64::from(b);
    let one = |k: u32| {
        let s = select >> (8 * k) & 0xff;
        match s {
            0..=7 => (all >> (8 * s)) as u32 & 0xff,
            // a sign, spread over the byte
            8..=11 => [15, 31, 47, 63].map(|at| if all >> at & 1 == 1 { 0xff } else { 0 })[s as usize - 8],
            12 => 0,
            _ => 0xff,
        }
    };
    (0..4).fold(0, |r, k| r | one(k) << (8 * k))
}

/// Truncated to float16.
fn toward_zero(x: f32) -> u16 {
    let h = f16::from_f32(x);
    let beyond = f32::from(h).abs() > x.abs() || (h.is_infinite() && x.is_finite());
    if beyond { h.to_bits() - 1 } else { h.to_bits() }
}

fn half2(line: &Line, isa: Isa, f: fn(f32, f32) -> f32) -> Compiled {
    two(line, isa, Type::Half, Kind::F16, move |a, b| {
        let x = |x| f32::from(f16::from_bits(x as u16));
        // a float32 holds sum and product of two float16 well enough that the second rounding is the only one that shows
        u32::from(f16::from_f32(f(x(a), x(b))).to_bits())
    })
}

pub(crate) fn compile(line: &Line, isa: Isa) -> Compiled {
    let name = line.mnemonic.as_str();
    if name.starts_with("v_cmp") {
        return compare(line, name, isa);
    }
    let Some(op) = name.strip_prefix("v_") else { return Ok(None) };
    let b = Kind::B32;
    let u1 = |f: fn(u32) -> u32| one(line, isa, Type::Bits, b, f);
    let f1 = |f: fn(f32) -> f32| one(line, isa, Type::F32, Kind::F32, move |a| result(f(f32::from_bits(a)), &[a]));
    macro_rules! u2 {
        ($f:expr) => {
            two(line, isa, Type::Bits, b, $f)
        };
    }
    macro_rules! u3 {
        ($f:expr) => {
            three(line, isa, Type::Bits, b, $f)
        };
    }
    macro_rules! f2 {
        ($f:expr) => {
            two(line, isa, Type::F32, Kind::F32, float2($f))
        };
    }
    macro_rules! h2 {
        ($f:expr) => {
            two(line, isa, Type::Half, b, $f)
        };
    }
    match op {
        "nop" => Ok(Some(Box::new(|_, _| Ok(Flow::Next)))),
        "mov_b32" | "accvgpr_write_b32" | "accvgpr_read_b32" | "accvgpr_mov_b32" => u1(|a| a),
        "mov_b64" => {
            let (to, a) = (vector(arg(line, 0)?, 2)?, Src64::new(arg(line, 1)?, false)?);
            Ok(Some(Box::new(move |w, _| {
                let x = a.lanes(w);
                put64(w, to, &x);
                Ok(Flow::Next)
            })))
        }
        // M0 counts registers
        "movreld_b32" | "movrels_b32" => {
            let (to, from, writes) = (vector(arg(line, 0)?, 1)?, Src::new(arg(line, 1)?, b)?, op == "movreld_b32");
            let first = if writes { to } else { vector(arg(line, 1)?, 1)? };
            Ok(Some(Box::new(move |w, _| {
                let at = usize::from(first) + w.s[M0 as usize] as usize;
                if at >= w.v.len().min(256) {
                    return Err(format!("v{at} by M0, beyond those that the code names"));
                }
                if writes {
                    let x = from.lanes(w);
                    w.put(at as u16, &x);
                } else {
                    let x = w.v[at];
                    w.put(to, &x);
                }
                Ok(Flow::Next)
            })))
        }
        "swap_b32" => {
            let (a, c) = (vector(arg(line, 0)?, 1)?, vector(arg(line, 1)?, 1)?);
            Ok(Some(Box::new(move |w, _| {
                let (x, y) = (w.v[a as usize], w.v[c as usize]);
                w.put(a, &y);
                w.put(c, &x);
                Ok(Flow::Next)
            })))
        }
        "not_b32" => u1(|a| !a),
        "bfrev_b32" => u1(u32::reverse_bits),
        "ffbh_u32" | "clz_i32_u32" => u1(|a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        "ffbl_b32" | "ctz_i32_b32" => u1(|a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        "ffbh_i32" | "cls_i32" => u1(|a| {
            let x = if (a as i32) < 0 { !a } else { a };
            if x == 0 { u32::MAX } else { x.leading_zeros() }
        }),
        "cvt_f32_i32" => one(line, isa, Type::F32, b, |a| (a as i32 as f32).to_bits()),
        "cvt_f32_u32" => one(line, isa, Type::F32, b, |a| (a as f32).to_bits()),
        "cvt_u32_f32" => one(line, isa, Type::Bits, Kind::F32, |a| f32::from_bits(a) as u32),
        "cvt_i32_f32" => one(line, isa, Type::Bits, Kind::F32, |a| f32::from_bits(a) as i32 as u32),
        "cvt_f32_ubyte0" => one(line, isa, Type::F32, b, |a| ((a & 0xff) as f32).to_bits()),
        "cvt_f32_ubyte1" => one(line, isa, Type::F32, b, |a| ((a >> 8 & 0xff) as f32).to_bits()),
        "cvt_f32_ubyte2" => one(line, isa, Type::F32, b, |a| ((a >> 16 & 0xff) as f32).to_bits()),
        "cvt_f32_ubyte3" => one(line, isa, Type::F32, b, |a| ((a >> 24) as f32).to_bits()),
        "cvt_f32_f16" => one(line, isa, Type::F32, Kind::F16, |a| f32::from(f16::from_bits(a as u16)).to_bits()),
        "cvt_f16_f32" => one(line, isa, Type::Half, Kind::F32, |a| f16::from_f32(f32::from_bits(a)).to_bits().into()),
        "cvt_f16_i16" => one(line, isa, Type::Half, b, |a| f16::from_f32(f32::from(a as i16)).to_bits().into()),
        "cvt_f16_u16" => one(line, isa, Type::Half, b, |a| f16::from_f32(f32::from(a as u16)).to_bits().into()),
        "cvt_i16_f16" => one(line, isa, Type::Half, Kind::F16, |a| (f16::from_bits(a as u16).to_f32() as i16 as u16).into()),
        "cvt_u16_f16" => one(line, isa, Type::Half, Kind::F16, |a| (f16::from_bits(a as u16).to_f32() as u16).into()),
        "cvt_pkrtz_f16_f32" | "cvt_pk_rtz_f16_f32" => {
            two(line, isa, Type::Bits, Kind::F32, |a, c| u32::from(toward_zero(f32::from_bits(a))) | u32::from(toward_zero(f32::from_bits(c))) << 16)
        }
        "pack_b32_f16" => two(line, isa, Type::Bits, Kind::F16, |a, c| a & 0xffff | c << 16),
        "trunc_f32" => f1(f32::trunc),
        "floor_f32" => f1(f32::floor),
        "ceil_f32" => f1(f32::ceil),
        "rndne_f32" => f1(f32::round_ties_even),
        "fract_f32" => f1(|x| (x - x.floor()).min(1.0 - f32::EPSILON / 2.0)),
        "rcp_f32" | "rcp_iflag_f32" => one(line, isa, Type::F32, Kind::F32, approximate(|x| 1.0 / x)),
        "rsq_f32" => one(line, isa, Type::F32, Kind::F32, approximate(|x| 1.0 / x.sqrt())),
        "sqrt_f32" => one(line, isa, Type::F32, Kind::F32, approximate(f64::sqrt)),
        "exp_f32" => one(line, isa, Type::F32, Kind::F32, approximate(f64::exp2)),
        "log_f32" => one(line, isa, Type::F32, Kind::F32, approximate(f64::log2)),
        // of turns
        "sin_f32" => one(line, isa, Type::F32, Kind::F32, approximate(|x| (x.fract() * std::f64::consts::TAU).sin())),
        "cos_f32" => one(line, isa, Type::F32, Kind::F32, approximate(|x| (x.fract() * std::f64::consts::TAU).cos())),
        "frexp_mant_f32" => f1(|x| if x == 0.0 || !x.is_finite() { x } else { frexp(x.into()).0 as f32 }),
        "frexp_exp_i32_f32" => one(line, isa, Type::Bits, Kind::F32, |a| {
            let x = f32::from_bits(a);
            if x == 0.0 || !x.is_finite() { 0 } else { frexp(x.into()).1 as u32 }
        }),
        "ldexp_f32" => {
            let o = operands(line, isa, Type::F32, &[Kind::F32, b])?;
            Ok(Some(Box::new(move |w, _| {
                let (a, n) = (o.src[0].lanes(w), o.src[1].lanes(w));
                o.dst.put(w, &from_fn(|i| result(ldexp(f32::from_bits(a[i]).into(), n[i] as i32) as f32, &[a[i]])));
                Ok(Flow::Next)
            })))
        }
        "add_f32" => f2!(|x, y| x + y),
        "sub_f32" => f2!(|x, y| x - y),
        "subrev_f32" => f2!(|x, y| y - x),
        "mul_f32" => f2!(|x, y| x * y),
        "max_f32" => two(line, isa, Type::F32, Kind::F32, max),
        "min_f32" => two(line, isa, Type::F32, Kind::F32, min),
        "max3_f32" => three(line, isa, Type::F32, Kind::F32, |x, y, z| max(max(x, y), z)),
        "min3_f32" => three(line, isa, Type::F32, Kind::F32, |x, y, z| min(min(x, y), z)),
        "med3_f32" => three(line, isa, Type::F32, Kind::F32, med3),
        "div_fixup_f32" => three(line, isa, Type::F32, Kind::F32, div_fixup),
        "div_scale_f32" => {
            let (to, out) = (vector(arg(line, 0)?, 1)?, mask(arg(line, 1)?)?);
            let s = sources(line, 2, &[Kind::F32; 3], None)?;
            Ok(Some(Box::new(move |w, _| {
                let (x, d, n) = (s[0].lanes(w), s[1].lanes(w), s[2].lanes(w));
                let all: [(u32, bool); LANES] = from_fn(|i| div_scale(x[i], d[i], n[i]));
                let m = (0..LANES).fold(0, |m, i| m | u64::from(all[i].1) << i) & w.exec();
                w.put(to, &all.map(|a| a.0));
                if let Some(out) = out {
                    w.set_mask(out, m);
                }
                Ok(Flow::Next)
            })))
        }
        "div_fmas_f32" => {
            let o = operands(line, isa, Type::F32, &[Kind::F32; 3])?;
            Ok(Some(Box::new(move |w, _| {
                let (a, b, c) = (o.src[0].lanes(w), o.src[1].lanes(w), o.src[2].lanes(w));
                let mut r = fma_lanes(&a, &b, &c);
                let vcc = w.vcc();
                for i in (0..LANES).filter(|i| vcc >> i & 1 == 1) {
                    // a quotient that was scaled down grows, one that was scaled up shrinks: rounded once, behind that
                    let by = if exponent(c[i]) > 127 { 64 } else { -64 };
                    r[i] =
                        result(ldexp(fma_to_odd(f32::from_bits(a[i]), f32::from_bits(b[i]), f32::from_bits(c[i])), by) as f32, &[a[i], b[i], c[i]]);
                }
                o.dst.put(w, &r);
                Ok(Flow::Next)
            })))
        }
        "fma_f32" => {
            let mut o = operands(line, isa, Type::F32, &[Kind::F32; 3])?;
            let (c, y, x) = (o.src.remove(2), o.src.remove(1), o.src.remove(0));
            fma(o.dst, x, y, c)
        }
        "fmac_f32" => {
            let mut o = operands(line, isa, Type::F32, &[Kind::F32; 2])?;
            let c = Src::new(&Arg { neg: false, abs: false, sext: false, ..arg(line, 0)?.clone() }, Kind::F32)?;
            let (y, x) = (o.src.remove(1), o.src.remove(0));
            fma(o.dst, x, y, c)
        }
        // the product is rounded, subnormals count as 0
        "mac_f32" => {
            let o = operands(line, isa, Type::F32, &[Kind::F32; 2])?;
            let to = vector(arg(line, 0)?, 1)?;
            Ok(Some(Box::new(move |w, _| {
                let (a, c, old) = (o.src[0].lanes(w), o.src[1].lanes(w), w.v[to as usize]);
                let f = |x| flush(f32::from_bits(x));
                o.dst.put(w, &from_fn(|i| result(flush(flush(f(a[i]) * f(c[i])) + f(old[i])), &[a[i], c[i], old[i]])));
                Ok(Flow::Next)
            })))
        }
        "mad_f32" | "madmk_f32" | "madak_f32" => three(line, isa, Type::F32, Kind::F32, |x, y, z| {
            let f = |x| flush(f32::from_bits(x));
            result(flush(flush(f(x) * f(y)) + f(z)), &[x, y, z])
        }),
        "fmaak_f32" | "fmamk_f32" => {
            let mut o = operands(line, isa, Type::F32, &[Kind::F32; 3])?;
            let (third, second, x) = (o.src.remove(2), o.src.remove(1), o.src.remove(0));
            // printed in the order of the product: a, b, K or a, K, b
            fma(o.dst, x, second, third)
        }
        "fma_mix_f32" => mix(line, None),
        "fma_mixlo_f16" => mix(line, Some(false)),
        "fma_mixhi_f16" => mix(line, Some(true)),
        "pk_fma_f32" => packed(line, 3, |s| fma_lanes(&s[0], &s[1], &s[2])),
        "pk_mul_f32" => packed(line, 2, |s| {
            let f = float2(|x, y| x * y);
            from_fn(|i| f(s[0][i], s[1][i]))
        }),
        "pk_add_f32" => packed(line, 2, |s| {
            let f = float2(|x, y| x + y);
            from_fn(|i| f(s[0][i], s[1][i]))
        }),
        "pk_mov_b32" => {
            let to = vector(arg(line, 0)?, 2)?;
            let select = line.bits("op_sel")?.unwrap_or(vec![false; 2]);
            line.take("op_sel_hi");
            let of = |i: usize| -> Result<Src, String> {
                let both = Src64::new(arg(line, 1 + i)?, false)?;
                Ok(if *select.get(i).unwrap_or(&false) { both.hi } else { both.lo })
            };
            let (x, y) = (of(0)?, of(1)?);
            Ok(Some(Box::new(move |w, _| {
                let (x, y) = (x.lanes(w), y.lanes(w));
                w.put(to, &x);
                w.put(to + 1, &y);
                Ok(Flow::Next)
            })))
        }
        "add_f16" => half2(line, isa, |x, y| x + y),
        "sub_f16" => half2(line, isa, |x, y| x - y),
        "mul_f16" => half2(line, isa, |x, y| x * y),
        "add_u32" | "add_nc_u32" => u2!(u32::wrapping_add),
        "sub_u32" | "sub_nc_u32" => u2!(u32::wrapping_sub),
        "subrev_u32" | "subrev_nc_u32" => u2!(|x, y| y.wrapping_sub(x)),
        "and_b32" => u2!(|x, y| x & y),
        "or_b32" => u2!(|x, y| x | y),
        "xor_b32" => u2!(|x, y| x ^ y),
        "xnor_b32" => u2!(|x, y| !(x ^ y)),
        "lshlrev_b32" => u2!(|x, y| y << (x & 31)),
        "lshrrev_b32" => u2!(|x, y| y >> (x & 31)),
        "ashrrev_i32" => u2!(|x, y| ((y as i32) >> (x & 31)) as u32),
        "min_i32" => u2!(|x, y| (x as i32).min(y as i32) as u32),
        "max_i32" => u2!(|x, y| (x as i32).max(y as i32) as u32),
        "min_u32" => u2!(u32::min),
        "max_u32" => u2!(u32::max),
        "mul_lo_u32" => u2!(u32::wrapping_mul),
        "mul_hi_u32" => u2!(|x, y| (u64::from(x) * u64::from(y) >> 32) as u32),
        "mul_hi_i32" => u2!(|x, y| (i64::from(x as i32) * i64::from(y as i32) >> 32) as u32),
        "mul_u32_u24" => u2!(|x, y| (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff)),
        "mul_hi_u32_u24" => u2!(|x, y| (u64::from(x & 0xff_ffff) * u64::from(y & 0xff_ffff) >> 32) as u32),
        "mul_i32_i24" => u2!(|x, y| (((x << 8) as i32 >> 8).wrapping_mul((y << 8) as i32 >> 8)) as u32),
        "bcnt_u32_b32" => u2!(|x, y| x.count_ones().wrapping_add(y)),
        "mbcnt_lo_u32_b32" | "mbcnt_hi_u32_b32" => {
            let o = operands(line, isa, Type::Bits, &[b, b])?;
            let upper = op == "mbcnt_hi_u32_b32";
            Ok(Some(Box::new(move |w, _| {
                let (x, y) = (o.src[0].lanes(w), o.src[1].lanes(w));
                let below = |i: usize| {
                    let m = (1u64 << i) - 1;
                    if upper { (m >> 32) as u32 } else { m as u32 }
                };
                o.dst.put(w, &from_fn(|i| (x[i] & below(i)).count_ones().wrapping_add(y[i])));
                Ok(Flow::Next)
            })))
        }
        "add_u16" | "add_nc_u16" => h2!(|x, y| x.wrapping_add(y) & 0xffff),
        "sub_u16" | "sub_nc_u16" => h2!(|x, y| x.wrapping_sub(y) & 0xffff),
        "subrev_u16" => h2!(|x, y| y.wrapping_sub(x) & 0xffff),
        "mul_lo_u16" => h2!(|x, y| (x & 0xffff).wrapping_mul(y & 0xffff) & 0xffff),
        "lshlrev_b16" => h2!(|x, y| y << (x & 15) & 0xffff),
        "lshrrev_b16" => h2!(|x, y| (y & 0xffff) >> (x & 15)),
        "ashrrev_i16" => h2!(|x, y| ((y as i16) >> (x & 15)) as u16 as u32),
        "min_u16" => h2!(|x, y| (x as u16).min(y as u16).into()),
        "max_u16" => h2!(|x, y| (x as u16).max(y as u16).into()),
        "min_i16" => h2!(|x, y| (x as i16).min(y as i16) as u16 as u32),
        "max_i16" => h2!(|x, y| (x as i16).max(y as i16) as u16 as u32),
        "add3_u32" => u3!(|x, y, z| x.wrapping_add(y).wrapping_add(z)),
        "lshl_add_u32" => u3!(|x, y, z| (x << (y & 31)).wrapping_add(z)),
        "add_lshl_u32" => u3!(|x, y, z| x.wrapping_add(y) << (z & 31)),
        "lshl_or_b32" => u3!(|x, y, z| x << (y & 31) | z),
        "and_or_b32" => u3!(|x, y, z| x & y | z),
        "or3_b32" => u3!(|x, y, z| x | y | z),
        "xor3_b32" => u3!(|x, y, z| x ^ y ^ z),
        "xad_u32" => u3!(|x, y, z| (x ^ y).wrapping_add(z)),
        "alignbit_b32" => u3!(|x, y, z| ((u64::from(x) << 32 | u64::from(y)) >> (z & 31)) as u32),
        "alignbyte_b32" => u3!(|x, y, z| ((u64::from(x) << 32 | u64::from(y)) >> (8 * (z & 3))) as u32),
        "bfe_u32" => u3!(|x, y, z| if z & 31 == 0 { 0 } else { x >> (y & 31) & ((1 << (z & 31)) - 1) }),
        "bfe_i32" => u3!(|x, y, z| if z & 31 == 0 { 0 } else { spread(((x as i32) >> (y & 31)) as u32, z & 31) }),
        "bfi_b32" => u3!(|x, y, z| x & y | !x & z),
        "perm_b32" => u3!(bytes_of),
        "mad_u32_u24" => u3!(|x, y, z| (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff).wrapping_add(z)),
        "mad_i32_i24" => u3!(|x, y, z| (((x << 8) as i32 >> 8).wrapping_mul((y << 8) as i32 >> 8)).wrapping_add(z as i32) as u32),
        "min3_u32" => u3!(|x, y, z| x.min(y).min(z)),
        "max3_u32" => u3!(|x, y, z| x.max(y).max(z)),
        "min3_i32" => u3!(|x, y, z| (x as i32).min(y as i32).min(z as i32) as u32),
        "max3_i32" => u3!(|x, y, z| (x as i32).max(y as i32).max(z as i32) as u32),
        "med3_i32" => u3!(|x, y, z| {
            let (x, y, z) = (x as i32, y as i32, z as i32);
            x.min(y).max(x.max(y).min(z)) as u32
        }),
        "med3_u32" => u3!(|x, y, z| x.min(y).max(x.max(y).min(z))),
        "cndmask_b32" => {
            let dpp = dpp(line, isa)?;
            let s = sources(line, 1, &[Kind::F32, Kind::F32], dpp.as_ref())?;
            let dst = Dst::new(line, Type::Bits, isa, dpp)?;
            let by = mask(arg(line, 3)?)?.ok_or("no mask")?;
            Ok(Some(Box::new(move |w, _| {
                let (x, y, m) = (s[0].lanes(w), s[1].lanes(w), w.mask(by));
                let mut r = [0; LANES];
                for i in 0..LANES {
                    let on = 0u32.wrapping_sub((m >> i) as u32 & 1);
                    r[i] = x[i] & !on | y[i] & on;
                }
                dst.put(w, &r);
                Ok(Flow::Next)
            })))
        }
        "add_co_u32" => carry(line, isa, false, false, |x, y, _| x.overflowing_add(y)),
        "sub_co_u32" => carry(line, isa, false, false, |x, y, _| x.overflowing_sub(y)),
        "subrev_co_u32" => carry(line, isa, false, true, |x, y, _| x.overflowing_sub(y)),
        "addc_co_u32" | "add_co_ci_u32" => carry(line, isa, true, false, |x, y, c| {
            let sum = u64::from(x) + u64::from(y) + u64::from(c);
            (sum as u32, sum >> 32 != 0)
        }),
        "subb_co_u32" | "sub_co_ci_u32" => carry(line, isa, true, false, borrow),
        "subbrev_co_u32" | "subrev_co_ci_u32" => carry(line, isa, true, true, borrow),
        "mad_u64_u32" | "mad_i64_i32" => {
            let (to, out) = (vector(arg(line, 0)?, 2)?, mask(arg(line, 1)?)?);
            let s = sources(line, 2, &[b, b], None)?;
            let (c, signed) = (Src64::new(arg(line, 4)?, false)?, op == "mad_i64_i32");
            Ok(Some(Box::new(move |w, _| {
                let (x, y, z) = (s[0].lanes(w), s[1].lanes(w), c.lanes(w));
                let mut m = 0;
                let r: [u64; LANES] = from_fn(|i| {
                    let (r, over) = if signed {
                        let (r, over) = (i64::from(x[i] as i32) * i64::from(y[i] as i32)).overflowing_add(z[i] as i64);
                        (r as u64, over)
                    } else {
                        (u64::from(x[i]) * u64::from(y[i])).overflowing_add(z[i])
                    };
                    m |= u64::from(over) << i;
                    r
                });
                let exec = w.exec();
                put64(w, to, &r);
                if let Some(out) = out {
                    w.set_mask(out, m & exec);
                }
                Ok(Flow::Next)
            })))
        }
        "lshl_add_u64" => {
            let (to, x, n, y) =
                (vector(arg(line, 0)?, 2)?, Src64::new(arg(line, 1)?, false)?, Src::new(arg(line, 2)?, b)?, Src64::new(arg(line, 3)?, false)?);
            Ok(Some(Box::new(move |w, _| {
                let (x, n, y) = (x.lanes(w), n.lanes(w), y.lanes(w));
                let r: [u64; LANES] = from_fn(|i| (x[i] << (n[i] & 7)).wrapping_add(y[i]));
                put64(w, to, &r);
                Ok(Flow::Next)
            })))
        }
        "lshlrev_b64" => shift64(line, |x, n| x << n),
        "lshrrev_b64" => shift64(line, |x, n| x >> n),
        "ashrrev_i64" => shift64(line, |x, n| ((x as i64) >> n) as u64),
        "add_f64" => doubles(line, 2, |x| x[0] + x[1]),
        "mul_f64" => doubles(line, 2, |x| x[0] * x[1]),
        "fma_f64" => doubles(line, 3, |x| x[0].mul_add(x[1], x[2])),
        "fmac_f64" => doubles(&line.renamed("v_fma_f64", [&line.args[..], &line.args[..1]].concat()), 3, |x| x[0].mul_add(x[1], x[2])),
        "rcp_f64" => doubles(line, 1, |x| 1.0 / x[0]),
        "rsq_f64" => doubles(line, 1, |x| 1.0 / x[0].sqrt()),
        "trunc_f64" => doubles(line, 1, |x| x[0].trunc()),
        "floor_f64" => doubles(line, 1, |x| x[0].floor()),
        "ceil_f64" => doubles(line, 1, |x| x[0].ceil()),
        "rndne_f64" => doubles(line, 1, |x| x[0].round_ties_even()),
        "ldexp_f64" => {
            let (to, x, n) = (vector(arg(line, 0)?, 2)?, Src64::new(arg(line, 1)?, true)?, Src::new(arg(line, 2)?, b)?);
            Ok(Some(Box::new(move |w, _| {
                let (x, n) = (x.lanes(w), n.lanes(w));
                let r: [u64; LANES] = from_fn(|i| ldexp(f64::from_bits(x[i]), n[i] as i32).to_bits());
                put64(w, to, &r);
                Ok(Flow::Next)
            })))
        }
        "cvt_f64_i32" | "cvt_f64_u32" | "cvt_f64_f32" => {
            let (to, kind) = (vector(arg(line, 0)?, 2)?, op);
            let x = Src::new(arg(line, 1)?, if kind == "cvt_f64_f32" { Kind::F32 } else { b })?;
            let f: fn(u32) -> f64 = match kind {
                "cvt_f64_i32" => |x| f64::from(x as i32),
                "cvt_f64_u32" => f64::from,
                _ => |x| f64::from(f32::from_bits(x)),
            };
            Ok(Some(Box::new(move |w, _| {
                let x = x.lanes(w);
                let r: [u64; LANES] = from_fn(|i| f(x[i]).to_bits());
                put64(w, to, &r);
                Ok(Flow::Next)
            })))
        }
        "cvt_f32_f64" | "cvt_i32_f64" | "cvt_u32_f64" => {
            let (dst, x) = (Dst::new(line, Type::Bits, isa, None)?, Src64::new(arg(line, 1)?, true)?);
            let f: fn(f64) -> u32 = match op {
                "cvt_f32_f64" => |x| (x as f32).to_bits(),
                "cvt_i32_f64" => |x| x as i32 as u32,
                _ => |x| x as u32,
            };
            Ok(Some(Box::new(move |w, _| {
                let x = x.lanes(w);
                dst.put(w, &from_fn(|i| f(f64::from_bits(x[i]))));
                Ok(Flow::Next)
            })))
        }
        "readfirstlane_b32" => {
            let Operand::Scalar(to, 1) = arg(line, 0)?.operand else { return Err("no scalar destination".into()) };
            let x = Src::new(arg(line, 1)?, b)?;
            Ok(Some(Box::new(move |w, _| {
                let lane = first_lane(w);
                w.s[to as usize] = x.lanes(w)[lane];
                Ok(Flow::Next)
            })))
        }
        "readlane_b32" => {
            let Operand::Scalar(to, 1) = arg(line, 0)?.operand else { return Err("no scalar destination".into()) };
            let (x, lane) = (vector(arg(line, 1)?, 1)?, Src::new(arg(line, 2)?, b)?);
            Ok(Some(Box::new(move |w, _| {
                let lane = lane.uniform(w) as usize & if w.full == u64::MAX { 63 } else { 31 };
                // what a scalar register holds is not followed: compilers save ones that hold nothing yet in lanes
                w.s[to as usize] = w.v[x as usize][lane];
                Ok(Flow::Next)
            })))
        }
        "writelane_b32" => {
            let (to, x, lane) = (vector(arg(line, 0)?, 1)?, Src::new(arg(line, 1)?, b)?, Src::new(arg(line, 2)?, b)?);
            Ok(Some(Box::new(move |w, _| {
                let lane = lane.uniform(w) as usize & if w.full == u64::MAX { 63 } else { 31 };
                w.v[to as usize][lane] = x.uniform(w);
                w.known[to as usize] |= 1 << lane;
                Ok(Flow::Next)
            })))
        }
        _ => Ok(None),
    }
}

fn borrow(x: u32, y: u32, c: bool) -> (u32, bool) {
    (x.wrapping_sub(y).wrapping_sub(c.into()), u64::from(y) + u64::from(c) > x.into())
}

/// `n` low bits, the sign extended.
fn spread(x: u32, n: u32) -> u32 {
    let up = 32 - n;
    ((x << up) as i32 >> up) as u32
}

/// Mantissa in [0.5, 1) and exponent.
fn frexp(x: f64) -> (f64, i32) {
    let e = ((x.to_bits() >> 52 & 0x7ff) as i32) - 1022;
    (ldexp(x, -e), e)
}
