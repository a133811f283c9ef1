//! One line of the disassembler's text: mnemonic, operands, modifiers.

use std::cell::Cell;

/// An operand as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Operand {
    /// Vector registers: the first, and how many. Accumulation registers follow from 256 on.
    Vector(u16, u16),
    /// Scalar registers, `vcc` and `exec` among them.
    Scalar(u16, u16),
    /// An inline integer.
    Int(i64),
    /// An inline float.
    Float(f64),
    /// 32 bits that follow the instruction, or an immediate.
    Literal(u32),
    Null,
    Off,
    /// Anything else, for the instruction to read.
    Word(String),
}

/// `v_add_f32 v0, -|v1|, v2`: an operand with what stands around it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Arg {
    pub(crate) operand: Operand,
    pub(crate) neg: bool,
    pub(crate) abs: bool,
    pub(crate) sext: bool,
}

#[derive(Debug)]
pub(crate) struct Line {
    /// Without the suffix of its encoding.
    pub(crate) mnemonic: String,
    /// `e32`, `e64`, `sdwa`, `dpp`, or nothing.
    pub(crate) encoding: &'static str,
    pub(crate) args: Vec<Arg>,
    mods: Vec<(String, String, Cell<bool>)>,
}

pub(crate) const FLAT_SCRATCH: u16 = 102;
pub(crate) const VCC: u16 = 106;
pub(crate) const M0: u16 = 124;
pub(crate) const EXEC: u16 = 126;
/// First accumulation register among the vector registers.
pub(crate) const ACC: u16 = 256;

/// `12`, `[12:15]` → (12, 1), (12, 4).
fn range(s: &str) -> Option<(u16, u16)> {
    if let Some(inner) = s.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
        let (a, b) = inner.split_once(':').unwrap_or((inner, inner));
        let (a, b): (u16, u16) = (a.parse().ok()?, b.parse().ok()?);
        return Some((a, b.checked_sub(a)? + 1));
    }
    Some((s.parse().ok()?, 1))
}

fn operand(s: &str) -> Operand {
    let word = || Operand::Word(s.to_owned());
    match s {
        "vcc" => return Operand::Scalar(VCC, 2),
        "vcc_lo" => return Operand::Scalar(VCC, 1),
        "vcc_hi" => return Operand::Scalar(VCC + 1, 1),
        "exec" => return Operand::Scalar(EXEC, 2),
        "exec_lo" => return Operand::Scalar(EXEC, 1),
        "exec_hi" => return Operand::Scalar(EXEC + 1, 1),
        "flat_scratch" => return Operand::Scalar(FLAT_SCRATCH, 2),
        "flat_scratch_lo" => return Operand::Scalar(FLAT_SCRATCH, 1),
        "flat_scratch_hi" => return Operand::Scalar(FLAT_SCRATCH + 1, 1),
        "m0" => return Operand::Scalar(M0, 1),
        "null" => return Operand::Null,
        "off" => return Operand::Off,
        _ => {}
    }
    if let Some(hex) = s.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).map_or_else(|_| word(), Operand::Literal);
    }
    for (prefix, acc, vector) in [("ttmp", 108, false), ("v", 0, true), ("a", ACC, true), ("s", 0, false)] {
        if let Some((first, count)) = s.strip_prefix(prefix).and_then(range) {
            return if vector { Operand::Vector(first + acc, count) } else { Operand::Scalar(first + acc, count) };
        }
    }
    if let Ok(i) = s.parse::<i64>() {
        return Operand::Int(i);
    }
    if s.contains('.')
        && let Ok(x) = s.parse::<f64>()
    {
        return Operand::Float(x);
    }
    word()
}

pub(crate) fn arg(s: &str) -> Arg {
    let mut a = Arg { operand: Operand::Off, neg: false, abs: false, sext: false };
    let mut s = s.trim();
    if let Some(inner) = s.strip_prefix("sext(").and_then(|s| s.strip_suffix(')')) {
        a.sext = true;
        s = inner;
    }
    if let Some(rest) = s.strip_prefix('-').filter(|r| !r.starts_with(|c: char| c.is_ascii_digit())) {
        a.neg = true;
        s = rest;
    }
    if let Some(inner) = s.strip_prefix('|').and_then(|s| s.strip_suffix('|')) {
        a.abs = true;
        s = inner;
    }
    a.operand = operand(s);
    a
}

/// Splits at commas outside of brackets.
fn commas(s: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0, 0, Vec::new());
    for (i, c) in s.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(s[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(s[from..].trim());
    out
}

/// Splits at blanks outside of brackets.
fn words(s: &str) -> Vec<&str> {
    let mut depth = 0;
    s.split(|c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && c == ' '
    })
    .filter(|w| !w.is_empty())
    .collect()
}

impl Line {
    pub(crate) fn parse(text: &str) -> Line {
        let text = text.trim();
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (mut mnemonic, mut encoding) = (name, "");
        for (suffix, short) in [("_e64_dpp", "dpp"), ("_e32", "e32"), ("_e64", "e64"), ("_sdwa", "sdwa"), ("_dpp", "dpp")] {
            if let Some(base) = name.strip_suffix(suffix) {
                (mnemonic, encoding) = (base, short);
                break;
            }
        }
        let (mut args, mut mods) = (Vec::new(), Vec::new());
        // what has no operands says what it wants in words
        let worded = ["s_waitcnt", "s_waitcnt_depctr", "s_delay_alu", "s_sendmsg", "s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32"];
        if worded.contains(&name) {
            mods.push(("words".into(), rest.trim().to_owned(), Cell::new(false)));
        } else if !rest.trim().is_empty() {
            for piece in commas(rest) {
                let mut parts = words(piece).into_iter();
                args.extend(parts.next().map(arg));
                for m in parts {
                    let (name, value) = m.split_once(':').unwrap_or((m, ""));
                    mods.push((name.to_owned(), value.to_owned(), Cell::new(false)));
                }
            }
        }
        Line { mnemonic: mnemonic.to_owned(), encoding, args, mods }
    }

    /// The same operands under another name.
    pub(crate) fn renamed(&self, mnemonic: &str, args: Vec<Arg>) -> Line {
        Line { mnemonic: mnemonic.into(), encoding: self.encoding, args, mods: self.mods.clone() }
    }

    /// A modifier's text, which is used up.
    pub(crate) fn take(&self, name: &str) -> Option<&str> {
        let m = self.mods.iter().find(|m| m.0 == name)?;
        m.2.set(true);
        Some(&m.1)
    }

    /// A modifier that is a number, decimal or hexadecimal.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let value = text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |h| i64::from_str_radix(h, 16).ok());
        value.map(Some).ok_or_else(|| format!("`{name}:{text}` is no number"))
    }

    /// A modifier that is a list of bits.
    pub(crate) fn bits(&self, name: &str) -> Result<Option<Vec<bool>>, String> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let inner = text.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or_default();
        let all: Option<Vec<bool>> = inner.split(',').map(|b| ["0", "1"].iter().position(|x| *x == b).map(|i| i == 1)).collect();
        all.map(Some).ok_or_else(|| format!("`{name}:{text}` is no list of bits"))
    }

    /// The modifiers that nobody has asked for.
    pub(crate) fn unused(&self) -> Option<String> {
        let all: Vec<String> =
            self.mods.iter().filter(|m| !m.2.get()).map(|m| if m.1.is_empty() { m.0.clone() } else { format!("{}:{}", m.0, m.1) }).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_and_modifiers() {
        let l = Line::parse("v_fma_f32 v2, 0x3e99999a, -|v32|, 1.0");
        assert_eq!((l.mnemonic.as_str(), l.args.len()), ("v_fma_f32", 4));
        assert_eq!(l.args[1].operand, Operand::Literal(0x3e99_999a));
        assert!(l.args[2].neg && l.args[2].abs);
        assert_eq!(l.args[3].operand, Operand::Float(1.0));
        let l = Line::parse("v_mov_b32_dpp v3, v2 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf bound_ctrl:1");
        assert_eq!((l.encoding, l.args.len(), l.take("quad_perm")), ("dpp", 2, Some("[2,3,0,1]")));
        assert_eq!(l.number("row_mask"), Ok(Some(15)));
        assert_eq!(l.unused().as_deref(), Some("bank_mask:0xf bound_ctrl:1"));
        let l = Line::parse("global_load_dword v70, v[0:1], off offset:-28");
        assert_eq!((&l.args[1].operand, &l.args[2].operand), (&Operand::Vector(0, 2), &Operand::Off));
        assert_eq!(l.number("offset"), Ok(Some(-28)));
        let l = Line::parse("ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)");
        assert_eq!((l.args.len(), l.take("offset")), (2, Some("swizzle(SWAP,16)")));
        let l = Line::parse("v_pk_fma_f32 v[44:45], v[38:39], s[50:51], v[54:55] op_sel_hi:[1,0,0]");
        assert_eq!(l.bits("op_sel_hi"), Ok(Some(vec![true, false, false])));
        assert_eq!(Line::parse("s_waitcnt vmcnt(0) lgkmcnt(0)").take("words"), Some("vmcnt(0) lgkmcnt(0)"));
        assert_eq!(Line::parse("v_accvgpr_read_b32 v81, a3").args[1].operand, Operand::Vector(259, 1));
        assert_eq!(Line::parse("v_add_u32_e32 v3, -16, v1").args[1].operand, Operand::Int(-16));
    }
}
