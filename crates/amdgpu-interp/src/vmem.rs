//! Memory instructions: scalar loads, global and flat accesses, shared memory.

use crate::Isa;
use crate::op::{Compiled, Exec};
use crate::text::{Arg, Line, Operand};
use crate::wave::{Env, Flow, Kind, LANES, LGKM, PRIVATE, SHARED, STORE, Src, Src64, Trap, VM, Wave};
use std::sync::atomic::{AtomicU32, Ordering};

fn arg(line: &Line, i: usize) -> Result<&Arg, String> {
    line.args.get(i).ok_or_else(|| format!("operand {i} is missing"))
}

fn vector(line: &Line, i: usize) -> Result<(u16, u16), String> {
    match arg(line, i)?.operand {
        Operand::Vector(r, n) => Ok((r, n)),
        ref o => Err(format!("{o:?} is no vector register")),
    }
}

/// Cache hints, which change no value here.
fn hints(line: &Line) {
    for hint in ["glc", "slc", "dlc", "sc0", "sc1", "nt"] {
        line.take(hint);
    }
}

/// Each lane that is on, from the lowest.
fn each(mut exec: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = exec.trailing_zeros() as usize;
        exec &= exec.wrapping_sub(1);
        (i < LANES).then_some(i)
    })
}

/// # Safety
/// `p` has four bytes.
unsafe fn read(p: *const u8, bytes: u32) -> u32 {
    if bytes == 4 && (p as usize).is_multiple_of(4) {
        // SAFETY: aligned, and the caller says that the bytes are there; atomic, since other workgroups may write them
        return unsafe { AtomicU32::from_ptr(p as *mut u32) }.load(Ordering::Relaxed);
    }
    let mut word = [0; 4];
    for (i, b) in word.iter_mut().enumerate().take(bytes as usize) {
        // SAFETY: as above, byte by byte
        *b = unsafe { std::sync::atomic::AtomicU8::from_ptr(p.add(i) as *mut u8) }.load(Ordering::Relaxed);
    }
    u32::from_le_bytes(word)
}

/// # Safety
/// As [`read`].
unsafe fn write(p: *mut u8, x: u32, bytes: u32) {
    if bytes == 4 && (p as usize).is_multiple_of(4) {
        // SAFETY: as in `read`
        return unsafe { AtomicU32::from_ptr(p as *mut u32) }.store(x, Ordering::Relaxed);
    }
    for (i, b) in x.to_le_bytes().into_iter().enumerate().take(bytes as usize) {
        // SAFETY: as in `read`
        unsafe { std::sync::atomic::AtomicU8::from_ptr(p.add(i)) }.store(b, Ordering::Relaxed);
    }
}

/// How a loaded value becomes a register, or a register a stored one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    /// Bytes of each register's part, and registers.
    bytes: u32,
    registers: u16,
    signed: bool,
    /// The upper or lower half of the register alone is loaded or stored.
    half: Option<bool>,
}

const fn words(registers: u16) -> Shape {
    Shape { bytes: 4, registers, signed: false, half: None }
}

const fn part(bytes: u32, signed: bool) -> Shape {
    Shape { bytes, registers: 1, signed, half: None }
}

/// `dwordx2`, `b64`, `ushort`, `u16`, …
fn shape(name: &str) -> Option<Shape> {
    Some(match name {
        "dword" | "b32" => words(1),
        "dwordx2" | "b64" => words(2),
        "dwordx3" | "b96" => words(3),
        "dwordx4" | "b128" => words(4),
        "ubyte" | "u8" | "byte" | "b8" => part(1, false),
        "sbyte" | "i8" => part(1, true),
        "ushort" | "u16" | "short" | "b16" => part(2, false),
        "sshort" | "i16" => part(2, true),
        "short_d16" | "d16_b16" => Shape { half: Some(false), ..part(2, false) },
        "short_d16_hi" | "d16_hi_b16" => Shape { half: Some(true), ..part(2, false) },
        "byte_d16_hi" | "d16_hi_b8" => Shape { half: Some(true), ..part(1, false) },
        _ => return None,
    })
}

impl Shape {
    fn extend(self, x: u32) -> u32 {
        match (self.bytes, self.signed) {
            (1, true) => x as u8 as i8 as u32,
            (2, true) => x as u16 as i16 as u32,
            _ => x,
        }
    }

    /// Puts what was loaded into one lane.
    fn put(self, w: &mut Wave, register: u16, lane: usize, x: u32) {
        let to = &mut w.v[register as usize][lane];
        *to = match self.half {
            None => self.extend(x),
            Some(false) => *to & 0xffff_0000 | x & 0xffff,
            Some(true) => *to & 0xffff | x << 16,
        };
        w.known[register as usize] |= 1 << lane;
    }

    fn get(self, w: &Wave, register: u16, lane: usize) -> u32 {
        let x = w.v[register as usize][lane];
        if self.half == Some(true) { x >> 16 } else { x }
    }

    fn total(self) -> u64 {
        u64::from(self.bytes) * u64::from(self.registers)
    }
}

/// How a global or flat instruction makes its addresses.
struct Address {
    /// Of 64 bits, or of 32 to be added to `base`.
    vector: (u16, u16),
    base: Option<Src64>,
    offset: i64,
}

impl Address {
    fn of(line: &Line, at: usize) -> Result<Address, String> {
        let (r, n) = vector(line, at)?;
        // `off`, or a scalar base; flat instructions have neither
        let base = match line.args.last().map(|a| &a.operand) {
            _ if n == 2 => None,
            Some(Operand::Scalar(_, 2)) => Some(Src64::new(arg(line, line.args.len() - 1)?, false)?),
            o => return Err(format!("base {o:?}")),
        };
        Ok(Address { vector: (r, n), base, offset: line.number("offset")?.unwrap_or(0) })
    }

    fn get(&self, w: &Wave, base: u64, lane: usize) -> u64 {
        let low = u64::from(w.v[self.vector.0 as usize][lane]);
        let a = if self.vector.1 == 2 { low | u64::from(w.v[self.vector.0 as usize + 1][lane]) << 32 } else { base.wrapping_add(low) };
        a.wrapping_add_signed(self.offset)
    }

    fn known(&self, w: &Wave) -> Result<(), Trap> {
        (self.vector.0..self.vector.0 + self.vector.1).try_for_each(|r| w.need(r, w.exec()))
    }
}

fn count(env: &mut Env<'_>, lanes: u64, each: u64) {
    env.counts.global += 1;
    env.counts.global_16 += u64::from(each == 16);
    env.counts.global_bytes += each * u64::from(lanes.count_ones());
}

/// Where a lane's access goes.
enum Place {
    Memory(*mut u8),
    Private(u32),
    Shared(u32),
}

/// `generic`: the address may mean shared or private memory.
fn place(env: &mut Env<'_>, address: u64, bytes: u64, generic: bool) -> Result<Place, Trap> {
    match (address >> 32) as u32 {
        SHARED if generic => Ok(Place::Shared(address as u32)),
        PRIVATE if generic => Ok(Place::Private(address as u32)),
        _ => env.reach(address, bytes).map(Place::Memory),
    }
}

/// Reads a lane's registers from where they lie.
fn fetch(w: &mut Wave, env: &mut Env<'_>, at: &Place, s: Shape, to: u16, lane: usize) -> Result<(), Trap> {
    let mut bytes = [0; 16];
    let total = s.total() as usize;
    match *at {
        Place::Memory(p) => {
            for r in 0..s.registers {
                // SAFETY: `reach` has found the bytes in an allocation, and none is freed while a launch runs
                let x = unsafe { read(p.add(4 * r as usize), s.bytes) };
                s.put(w, to + r, lane, x);
            }
            return Ok(());
        }
        Place::Private(offset) => bytes[..total].copy_from_slice(w.private(lane, offset, total)?),
        Place::Shared(offset) => env.lds.load(offset, &mut bytes[..total], w.number)?,
    }
    for r in 0..s.registers {
        let i = 4 * r as usize;
        s.put(w, to + r, lane, u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]));
    }
    Ok(())
}

/// Writes a lane's registers to where they belong.
fn keep(w: &mut Wave, env: &mut Env<'_>, at: &Place, s: Shape, from: u16, lane: usize) -> Result<(), Trap> {
    let mut bytes = [0; 16];
    for r in 0..s.registers {
        let x = s.get(w, from + r, lane);
        if let Place::Memory(p) = *at {
            // SAFETY: as in `fetch`
            unsafe { write(p.add(4 * r as usize), x, s.bytes) };
        }
        bytes[4 * r as usize..4 * r as usize + 4].copy_from_slice(&x.to_le_bytes());
    }
    let data = &bytes[..s.total() as usize];
    match *at {
        Place::Memory(_) => Ok(()),
        Place::Private(offset) => w.private(lane, offset, data.len()).map(|to| to.copy_from_slice(data)),
        Place::Shared(offset) => env.lds.store(offset, data, w.number),
    }
}

fn load(line: &Line, s: Shape, kinds: &'static [u8], generic: bool) -> Compiled {
    let (to, n) = vector(line, 0)?;
    if n != s.registers {
        return Err(format!("{n} registers for {} bytes", s.total()));
    }
    let address = Address::of(line, 1)?;
    hints(line);
    Ok(Some(Box::new(move |w, env| {
        address.known(w)?;
        let (exec, base) = (w.exec(), address.base.as_ref().map_or(0, |b| b.uniform(w)));
        // the address may lie in the registers that are loaded
        let at: [u64; LANES] = std::array::from_fn(|i| address.get(w, base, i));
        for lane in each(exec) {
            let at = place(env, at[lane], s.total(), generic).map_err(|e| format!("lane {lane} reads {e}"))?;
            fetch(w, env, &at, s, to, lane)?;
        }
        count(env, exec, s.total());
        for &k in kinds {
            w.issue(k, to, s.registers);
        }
        Ok(Flow::Next)
    })))
}

fn store(line: &Line, s: Shape, kinds: &'static [u8], generic: bool) -> Compiled {
    let address = Address::of(line, 0)?;
    let (from, n) = vector(line, 1)?;
    if n != s.registers {
        return Err(format!("{n} registers for {} bytes", s.total()));
    }
    hints(line);
    Ok(Some(Box::new(move |w, env| {
        address.known(w)?;
        let (exec, base) = (w.exec(), address.base.as_ref().map_or(0, |b| b.uniform(w)));
        // a private value may be none yet; memory that others see holds what was written
        if !generic {
            (from..from + s.registers).try_for_each(|r| w.need(r, exec))?;
        }
        for lane in each(exec) {
            let at = place(env, address.get(w, base, lane), s.total(), generic).map_err(|e| format!("lane {lane} writes {e}"))?;
            keep(w, env, &at, s, from, lane)?;
        }
        count(env, exec, s.total());
        for &k in kinds {
            w.issue(k, 0, 0);
        }
        Ok(Flow::Next)
    })))
}

/// Private memory by name: `scratch_load v1, v2, s33 offset:4` of gfx942 and gfx11, `buffer_load v1, v2, s[0:3], s33 offen offset:4` of gfx90a, whose
/// scalar offsets count the bytes of all lanes.
fn private(line: &Line, s: Shape, loads: bool, buffer: bool, kind: u8) -> Compiled {
    let (data, at, scalar) = if buffer {
        (0, 1, 3)
    } else if loads {
        (0, 1, 2)
    } else {
        (1, 0, 2)
    };
    let (register, n) = vector(line, data)?;
    if n != s.registers {
        return Err(format!("{n} registers for {} bytes", s.total()));
    }
    let offen = buffer && line.take("offen").is_some();
    let by = match arg(line, at)?.operand {
        Operand::Vector(r, 1) if !buffer || offen => Some(r),
        Operand::Off if !offen => None,
        ref o => return Err(format!("address {o:?}")),
    };
    let base = match arg(line, scalar)?.operand {
        Operand::Off => None,
        _ => Some(Src::new(arg(line, scalar)?, Kind::B32)?),
    };
    let offset = line.number("offset")?.unwrap_or(0);
    hints(line);
    Ok(Some(Box::new(move |w, env| {
        let exec = w.exec();
        if let Some(r) = by {
            w.need(r, exec)?;
        }
        let scalar = base.as_ref().map_or(0, |b| b.uniform(w)) / if buffer { LANES as u32 } else { 1 };
        let at: [u32; LANES] = std::array::from_fn(|lane| by.map_or(0, |r| w.v[r as usize][lane]).wrapping_add(scalar).wrapping_add(offset as u32));
        for lane in each(exec) {
            let at = Place::Private(at[lane]);
            if loads {
                fetch(w, env, &at, s, register, lane)?;
            } else {
                keep(w, env, &at, s, register, lane)?;
            }
        }
        w.issue(kind, register, if loads { s.registers } else { 0 });
        Ok(Flow::Next)
    })))
}

/// What atomics on 32 bits do.
fn atomic_of(name: &str) -> Option<fn(u32, u32) -> u32> {
    Some(match name {
        "add" | "add_u32" => u32::wrapping_add,
        "sub" | "sub_u32" => u32::wrapping_sub,
        "smin" | "min_i32" => |a, b| (a as i32).min(b as i32) as u32,
        "smax" | "max_i32" => |a, b| (a as i32).max(b as i32) as u32,
        "umin" | "min_u32" => u32::min,
        "umax" | "max_u32" => u32::max,
        "and" | "and_b32" => |a, b| a & b,
        "or" | "or_b32" => |a, b| a | b,
        "xor" | "xor_b32" => |a, b| a ^ b,
        "swap" | "swap_b32" => |_, b| b,
        "add_f32" => |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
        _ => return None,
    })
}

fn atomic(line: &Line, f: fn(u32, u32) -> u32, kind: u8) -> Compiled {
    // with a destination the value from before comes back
    let returns = line.take("glc").is_some() || line.take("sc0").is_some();
    let to = if returns { Some(vector(line, 0)?.0) } else { None };
    let at = usize::from(returns);
    let address = Address::of(line, at)?;
    let (from, 1) = vector(line, at + 1)? else { return Err("more than 32 bits".into()) };
    hints(line);
    Ok(Some(Box::new(move |w, env| {
        address.known(w)?;
        let (exec, base) = (w.exec(), address.base.as_ref().map_or(0, |b| b.uniform(w)));
        w.need(from, exec)?;
        for lane in each(exec) {
            let at = address.get(w, base, lane);
            if !at.is_multiple_of(4) {
                return Err(format!("lane {lane}: an atomic at {at:#x}, which is no multiple of 4"));
            }
            let p = env.reach(at, 4).map_err(|e| format!("lane {lane} changes {e}"))?;
            let x = w.v[from as usize][lane];
            // SAFETY: aligned, and `reach` has found the bytes in an allocation
            let word = unsafe { AtomicU32::from_ptr(p.cast()) };
            let old = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(f(old, x))).unwrap_or_else(|x| x);
            if let Some(to) = to {
                words(1).put(w, to, lane, old);
            }
        }
        count(env, exec, 4);
        w.issue(kind, to.unwrap_or(0), u16::from(to.is_some()));
        Ok(Flow::Next)
    })))
}

fn scalar_load(line: &Line, dwords: u16) -> Compiled {
    let Operand::Scalar(to, n) = arg(line, 0)?.operand else { return Err("no scalar destination".into()) };
    if n != dwords {
        return Err(format!("{n} registers for {dwords} words"));
    }
    let base = Src64::new(arg(line, 1)?, false)?;
    let (by, immediate) = match &arg(line, 2)?.operand {
        Operand::Literal(x) => (None, i64::from(*x)),
        Operand::Int(x) => (None, *x),
        Operand::Null => (None, 0),
        Operand::Scalar(r, 1) => (Some(Src::scalar(*r)), 0),
        o => return Err(format!("offset {o:?}")),
    };
    let offset = immediate + line.number("offset")?.unwrap_or(0);
    hints(line);
    Ok(Some(Box::new(move |w, env| {
        let by = by.as_ref().map_or(0, |s| s.uniform(w));
        let at = base.uniform(w).wrapping_add(by.into()).wrapping_add_signed(offset) & !3;
        let p = env.reach(at, 4 * u64::from(dwords)).map_err(|e| format!("reads {e}"))?;
        for i in 0..dwords {
            // SAFETY: as in `load`
            w.s[(to + i) as usize] = unsafe { read(p.add(4 * i as usize), 4) };
        }
        w.issue_scalar(to, dwords);
        Ok(Flow::Next)
    })))
}

/// Cycles that an access takes beyond the least: lanes of one cycle that want different words of a bank.
fn conflicts(addresses: &[(usize, u32)], bytes: u32) -> u64 {
    // 32 banks of 4 bytes serve so many lanes at once
    let at_once = (128 / bytes.max(4)) as usize;
    let mut extra = 0;
    for group in addresses.chunks(at_once) {
        let mut banks: [Vec<u32>; 32] = Default::default();
        for &(_, a) in group {
            for word in a / 4..(a + bytes).div_ceil(4) {
                let bank = &mut banks[word as usize % 32];
                if !bank.contains(&word) {
                    bank.push(word);
                }
            }
        }
        extra += banks.iter().map(|b| b.len().saturating_sub(1) as u64).max().unwrap_or(0);
    }
    extra
}

fn lds_addresses(w: &Wave, env: &mut Env<'_>, register: u16, offset: u32, bytes: u32) -> Result<Vec<(usize, u32)>, Trap> {
    w.need(register, w.exec())?;
    let all: Vec<_> = each(w.exec()).map(|lane| (lane, w.v[register as usize][lane].wrapping_add(offset))).collect();
    env.counts.shared += 1;
    env.counts.bank_conflicts += conflicts(&all, bytes);
    Ok(all)
}

fn offset16(line: &Line, name: &str, unit: i64) -> Result<u32, String> {
    Ok((line.number(name)?.unwrap_or(0) * unit) as u32)
}

/// Loads of shared memory: `parts` are registers from the destination on, and the offset of each part.
fn lds_load(line: &Line, s: Shape, offsets: Vec<u32>) -> Compiled {
    let ((to, n), (at, 1)) = (vector(line, 0)?, vector(line, 1)?) else { return Err("address".into()) };
    if usize::from(n) != usize::from(s.registers) * offsets.len() {
        return Err(format!("{n} registers"));
    }
    Ok(Some(Box::new(move |w, env| {
        let total = s.total() as usize;
        // the address may lie in the registers that are loaded
        let all: Vec<_> = offsets.iter().map(|&o| lds_addresses(w, env, at, o, total as u32)).collect::<Result<_, _>>()?;
        for (part, addresses) in (0..).zip(all) {
            for (lane, address) in addresses {
                let mut bytes = [0; 16];
                env.lds.load(address, &mut bytes[..total], w.number).map_err(|e| format!("lane {lane} {e}"))?;
                for r in 0..s.registers {
                    let i = 4 * r as usize;
                    let x = u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
                    s.put(w, to + part * s.registers + r, lane, x);
                }
            }
        }
        w.issue(LGKM, to, n);
        Ok(Flow::Next)
    })))
}

fn lds_store(line: &Line, s: Shape, offsets: Vec<u32>) -> Compiled {
    let (at, 1) = vector(line, 0)? else { return Err("address".into()) };
    let from: Vec<(u16, u16)> = (1..=offsets.len()).map(|i| vector(line, i)).collect::<Result<_, _>>()?;
    if from.iter().any(|f| f.1 != s.registers) {
        return Err("registers".into());
    }
    Ok(Some(Box::new(move |w, env| {
        let total = s.total() as usize;
        for (&(from, _), &offset) in from.iter().zip(&offsets) {
            (from..from + s.registers).try_for_each(|r| w.need(r, w.exec()))?;
            for (lane, address) in lds_addresses(w, env, at, offset, total as u32)? {
                let mut bytes = [0; 16];
                for r in 0..s.registers {
                    let i = 4 * r as usize;
                    bytes[i..i + 4].copy_from_slice(&s.get(w, from + r, lane).to_le_bytes());
                }
                env.lds.store(address, &bytes[..total], w.number).map_err(|e| format!("lane {lane} {e}"))?;
            }
        }
        w.issue(LGKM, 0, 0);
        Ok(Flow::Next)
    })))
}

fn lds_atomic(line: &Line, f: fn(u32, u32) -> u32, returns: bool) -> Compiled {
    let i = usize::from(returns);
    let to = if returns { Some(vector(line, 0)?.0) } else { None };
    let ((at, 1), (from, 1)) = (vector(line, i)?, vector(line, i + 1)?) else { return Err("registers".into()) };
    let offset = offset16(line, "offset", 1)?;
    Ok(Some(Box::new(move |w, env| {
        w.need(from, w.exec())?;
        for (lane, address) in lds_addresses(w, env, at, offset, 4)? {
            let x = w.v[from as usize][lane];
            let old = env.lds.atomic(address, |old| f(old, x)).map_err(|e| format!("lane {lane} {e}"))?;
            if let Some(to) = to {
                words(1).put(w, to, lane, old);
            }
        }
        w.issue(LGKM, to.unwrap_or(0), u16::from(to.is_some()));
        Ok(Flow::Next)
    })))
}

/// Lanes that read one another through the crossbar: `from[lane]` is read if it is on, 0 otherwise.
fn cross(w: &mut Wave, to: u16, data: u16, from: impl Fn(&Wave, usize) -> Option<usize>) -> Result<(), Trap> {
    let exec = w.exec();
    let read = |lane| from(w, lane).filter(|&f| exec >> f & 1 == 1);
    // a lane that reads what was never written holds what was never written
    let known = w.known[data as usize];
    let unknown = each(exec).filter(|&lane| read(lane).is_some_and(|f| known >> f & 1 == 0)).fold(0, |m, lane| m | 1 << lane);
    let values: [u32; LANES] = std::array::from_fn(|lane| read(lane).map_or(0, |f| w.v[data as usize][f]));
    w.put(to, &values);
    w.known[to as usize] &= !unknown;
    w.issue(LGKM, to, 1);
    Ok(())
}

/// The lane that `ds_swizzle_b32` reads.
fn swizzle(text: &str) -> Result<Box<dyn Fn(usize) -> usize + Send + Sync>, String> {
    let inner = text.strip_prefix("swizzle(").and_then(|t| t.strip_suffix(')'));
    let bitmask = |and: usize, or: usize, xor: usize| -> Box<dyn Fn(usize) -> usize + Send + Sync> {
        Box::new(move |lane| lane & 32 | (((lane & 31) & and) | or) ^ xor)
    };
    if let Some(inner) = inner {
        let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
        let number = |i: usize| parts.get(i).and_then(|p| p.parse::<usize>().ok()).ok_or_else(|| format!("`{text}`"));
        return match parts[0] {
            "SWAP" => Ok(bitmask(31, 0, number(1)?)),
            "REVERSE" => Ok(bitmask(31, 0, number(1)?.saturating_sub(1))),
            "BROADCAST" => Ok(bitmask(32usize.saturating_sub(number(1)?), number(2)?, 0)),
            "QUAD_PERM" => {
                let p = [number(1)?, number(2)?, number(3)?, number(4)?];
                Ok(Box::new(move |lane| lane & !3 | p[lane & 3]))
            }
            "BITMASK_PERM" => {
                let mask = parts.get(1).map(|p| p.trim_matches('"')).unwrap_or_default();
                let (mut and, mut or, mut xor) = (0, 0, 0);
                for (i, c) in mask.chars().rev().enumerate() {
                    match c {
                        '0' => {}
                        '1' => or |= 1 << i,
                        'p' => and |= 1 << i,
                        'i' => (and, xor) = (and | 1 << i, xor | 1 << i),
                        _ => return Err(format!("`{text}`")),
                    }
                }
                Ok(bitmask(and, or, xor))
            }
            _ => Err(format!("`{text}`")),
        };
    }
    let n: usize =
        text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |h| usize::from_str_radix(h, 16).ok()).ok_or_else(|| format!("`{text}`"))?;
    if n & 0x8000 != 0 {
        return Ok(Box::new(move |lane| lane & !3 | n >> (2 * (lane & 3)) & 3));
    }
    Ok(bitmask(n & 31, n >> 5 & 31, n >> 10 & 31))
}

fn lds(line: &Line, name: &str) -> Compiled {
    if name == "bpermute_b32" || name == "permute_b32" {
        let ((to, 1), (at, 1), (data, 1)) = (vector(line, 0)?, vector(line, 1)?, vector(line, 2)?) else { return Err("registers".into()) };
        let offset = offset16(line, "offset", 1)?;
        let exec: Exec = if name == "bpermute_b32" {
            Box::new(move |w, _| {
                w.need(at, w.exec())?;
                let lanes = if w.full == u64::MAX { 63 } else { 31 };
                cross(w, to, data, |w, lane| Some((w.v[at as usize][lane].wrapping_add(offset) / 4) as usize & lanes))?;
                Ok(Flow::Next)
            })
        } else {
            Box::new(move |w, _| {
                w.need(at, w.exec())?;
                let lanes = if w.full == u64::MAX { 63 } else { 31 };
                let mut from = [None; LANES];
                for lane in each(w.exec()) {
                    from[(w.v[at as usize][lane].wrapping_add(offset) / 4) as usize & lanes] = Some(lane);
                }
                cross(w, to, data, |_, lane| from[lane])?;
                Ok(Flow::Next)
            })
        };
        return Ok(Some(exec));
    }
    if name == "swizzle_b32" {
        let ((to, 1), (data, 1)) = (vector(line, 0)?, vector(line, 1)?) else { return Err("registers".into()) };
        let from = swizzle(line.take("offset").unwrap_or("0"))?;
        return Ok(Some(Box::new(move |w, _| {
            cross(w, to, data, |_, lane| Some(from(lane)))?;
            Ok(Flow::Next)
        })));
    }
    let two = |line: &Line, s: Shape, unit: i64| -> Result<Vec<u32>, String> {
        let unit = unit * s.total() as i64;
        Ok(vec![offset16(line, "offset0", unit)?, offset16(line, "offset1", unit)?])
    };
    for (prefix, loads) in [("read", true), ("load", true), ("write", false), ("store", false)] {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        for (middle, unit) in [("2st64_", 64), ("_2addr_stride64_", 64), ("2_", 1), ("_2addr_", 1)] {
            if let Some(s) = rest.strip_prefix(middle).and_then(shape) {
                let offsets = two(line, s, unit)?;
                return if loads { lds_load(line, s, offsets) } else { lds_store(line, s, offsets) };
            }
        }
        let kind = rest.strip_prefix('_').unwrap_or(rest);
        let s = match kind {
            "u16_d16" => Some(Shape { half: Some(false), ..part(2, false) }),
            "u16_d16_hi" | "b16_d16_hi" => Some(Shape { half: Some(true), ..part(2, false) }),
            _ => shape(kind),
        };
        if let Some(s) = s {
            let offset = offset16(line, "offset", 1)?;
            return if loads { lds_load(line, s, vec![offset]) } else { lds_store(line, s, vec![offset]) };
        }
    }
    let (base, returns) = match name.split_once("_rtn") {
        Some((a, b)) => (format!("{a}{b}"), true),
        None => (name.to_owned(), false),
    };
    atomic_of(&base).map_or(Ok(None), |f| lds_atomic(line, f, returns))
}

pub(crate) fn compile(line: &Line, isa: Isa) -> Compiled {
    let name = line.mnemonic.as_str();
    // stores are counted with loads before gfx10
    let (vm, stores): (&'static [u8], &'static [u8]) = (&[VM], if isa.is_gfx11() { &[STORE] } else { &[VM] });
    if let Some(rest) = name.strip_prefix("ds_") {
        return lds(line, rest);
    }
    if let Some(rest) = name.strip_prefix("s_load_") {
        let n = rest.strip_prefix("dword").map(|n| n.strip_prefix('x').unwrap_or("1")).map(str::to_owned);
        let n = n.or_else(|| rest.strip_prefix('b').and_then(|b| b.parse::<u16>().ok()).map(|b| (b / 32).to_string()));
        return n.and_then(|n| n.parse().ok()).map_or(Ok(None), |n| scalar_load(line, n));
    }
    if matches!(
        name,
        "s_dcache_wb" | "s_dcache_inv" | "buffer_gl0_inv" | "buffer_gl1_inv" | "buffer_wbl2" | "buffer_inv" | "buffer_wbinvl1" | "buffer_invl2"
    ) {
        hints(line);
        return Ok(Some(Box::new(|_, _| Ok(Flow::Next))));
    }
    for (prefix, buffer) in [("scratch_", false), ("buffer_", true)] {
        let Some(rest) = name.strip_prefix(prefix).filter(|_| buffer == (isa == Isa::Gfx90a)) else { continue };
        if let Some(s) = rest.strip_prefix("load_").and_then(shape) {
            return private(line, s, true, buffer, VM);
        }
        if let Some(s) = rest.strip_prefix("store_").and_then(shape) {
            return private(line, s, false, buffer, if isa.is_gfx11() { STORE } else { VM });
        }
    }
    for (prefix, both) in [("global_", false), ("flat_", true)] {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        let (loads, writes): (&'static [u8], &'static [u8]) =
            if both { (&[VM, LGKM], if isa.is_gfx11() { &[STORE, LGKM] } else { &[VM, LGKM] }) } else { (vm, stores) };
        if let Some(s) = rest.strip_prefix("load_").and_then(shape) {
            return load(line, s, loads, both);
        }
        if let Some(s) = rest.strip_prefix("store_").and_then(shape) {
            return store(line, s, writes, both);
        }
        if let Some(f) = rest.strip_prefix("atomic_").and_then(atomic_of) {
            return atomic(line, f, VM);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_name_lanes() {
        let at = |text: &str, lane: usize| swizzle(text).unwrap()(lane);
        assert_eq!((at("swizzle(SWAP,16)", 3), at("swizzle(SWAP,16)", 40)), (19, 56));
        assert_eq!((at("swizzle(QUAD_PERM,1,0,3,2)", 5), at("0x80b1", 5)), (4, 4));
        assert_eq!((at("swizzle(BROADCAST,8,3)", 13), at("swizzle(REVERSE,8)", 9)), (11, 14));
        assert_eq!(at("swizzle(BITMASK_PERM, \"01pip\")", 4), 0b01110);
        assert!(swizzle("swizzle(WHAT,1)").is_err());
    }

    #[test]
    fn banks() {
        let step = |n: u32| (0..32).map(|i| (i as usize, i * n)).collect::<Vec<_>>();
        assert_eq!((conflicts(&step(4), 4), conflicts(&step(8), 4), conflicts(&step(128), 4), conflicts(&step(16), 16)), (0, 1, 31, 0));
    }
}
