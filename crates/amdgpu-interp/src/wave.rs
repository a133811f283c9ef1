//! The registers of a wave, and how instructions reach them.

use crate::Counts;
use crate::lds::Lds;
use crate::memory::Region;
use crate::text::{Arg, EXEC, Operand, VCC};

pub(crate) const LANES: usize = 64;
pub(crate) type Lanes = [u32; LANES];

/// What an instruction may not do.
pub(crate) type Trap = String;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Next,
    Jump(usize),
    /// To the instruction of an address.
    Call(u64),
    Barrier,
    End,
}

/// What all waves of a workgroup share while one of them runs.
pub(crate) struct Env<'a> {
    pub(crate) lds: Lds,
    pub(crate) memory: &'a [Region],
    pub(crate) last: Region,
    pub(crate) counts: Counts,
}

impl Env<'_> {
    /// Whether a kernel may touch these bytes.
    pub(crate) fn reach(&mut self, address: u64, bytes: u64) -> Result<*mut u8, Trap> {
        if !self.last.has(address, bytes) {
            let i = self.memory.partition_point(|r| r.start <= address);
            let near = i.checked_sub(1).map(|i| self.memory[i]);
            match near.filter(|r| r.has(address, bytes)) {
                Some(r) => self.last = r,
                None => {
                    let what = near.map_or(String::new(), |r| {
                        format!(
                            "; the nearest before it has {} bytes and ends {} bytes before",
                            r.bytes,
                            (address as i64).wrapping_sub((r.start + r.bytes) as i64)
                        )
                    });
                    return Err(format!("{bytes} bytes at {address:#x} lie in no allocation{what}"));
                }
            }
        }
        Ok(address as *mut u8)
    }
}

/// Loads that are under way, as `s_waitcnt` counts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// How many were issued, and how many are known to be done: vector memory, shared memory, stores (gfx11).
    issued: [u32; 3],
    done: [u32; 3],
    /// Scalar loads, which return in any order, are under way.
    scalar: bool,
    /// For each register that a load writes: its kind and number.
    vector: Vec<Option<(u8, u32)>>,
    scalars: Vec<bool>,
    any: bool,
}

/// Kinds of memory instructions.
pub(crate) const VM: u8 = 0;
pub(crate) const LGKM: u8 = 1;
pub(crate) const STORE: u8 = 2;

#[derive(Debug)]
pub(crate) struct Wave {
    pub(crate) v: Vec<Lanes>,
    /// For each vector register: the lanes that were written.
    pub(crate) known: Vec<u64>,
    pub(crate) s: [u32; 128],
    pub(crate) scc: bool,
    pub(crate) next: usize,
    /// All lanes that there are.
    pub(crate) full: u64,
    pub(crate) number: usize,
    pub(crate) ended: bool,
    pub(crate) pending: Pending,
    /// Private memory: so many bytes of each lane, one lane after the other.
    pub(crate) private: Vec<u8>,
    pub(crate) private_bytes: u32,
}

/// Upper halves of generic addresses that mean shared and private memory. Hardware has other values, which no program may know.
/// Their lower 16 bits are 0, as where a register gives the upper 16 alone.
pub(crate) const SHARED: u32 = 0xfff1_0000;
pub(crate) const PRIVATE: u32 = 0xfff2_0000;

impl Wave {
    /// `registers`: vector registers that any instruction names, those that accumulate behind the 256 others.
    pub(crate) fn new(number: usize, lanes: u32, entry: usize, registers: usize) -> Wave {
        let pending = Pending { vector: vec![None; registers], scalars: vec![false; 128], ..Pending::default() };
        let full = if lanes == 64 { u64::MAX } else { (1 << lanes) - 1 };
        // what was never written holds a pattern that is no index and no sensible number
        Wave {
            v: vec![[0xdead_5eed; LANES]; registers],
            known: vec![0; registers],
            s: [0xdead_5eed; 128],
            scc: false,
            next: entry,
            full,
            number,
            ended: false,
            pending,
            private: Vec::new(),
            private_bytes: 0,
        }
    }

    pub(crate) fn exec(&self) -> u64 {
        self.pair(EXEC) & self.full
    }

    pub(crate) fn set_exec(&mut self, x: u64) {
        self.set_mask(EXEC, x);
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.pair(VCC) & self.full
    }

    pub(crate) fn pair(&self, r: u16) -> u64 {
        u64::from(self.s[r as usize]) | u64::from(self.s[r as usize + 1]) << 32
    }

    pub(crate) fn set_pair(&mut self, r: u16, x: u64) {
        self.s[r as usize] = x as u32;
        self.s[r as usize + 1] = (x >> 32) as u32;
    }

    /// A mask of lanes: two registers for 64 lanes, one for 32.
    pub(crate) fn mask(&self, r: u16) -> u64 {
        if self.full == u64::MAX { self.pair(r) } else { u64::from(self.s[r as usize]) }
    }

    pub(crate) fn set_mask(&mut self, r: u16, x: u64) {
        if self.full == u64::MAX { self.set_pair(r, x) } else { self.s[r as usize] = x as u32 }
    }

    /// Bytes of a lane's private memory.
    pub(crate) fn private(&mut self, lane: usize, offset: u32, bytes: usize) -> Result<&mut [u8], Trap> {
        let each = self.private_bytes as usize;
        if offset as usize + bytes > each {
            return Err(format!("lane {lane}: {bytes} bytes at {offset:#x} of private memory, which has {each}"));
        }
        let from = lane * each + offset as usize;
        Ok(&mut self.private[from..from + bytes])
    }

    /// Writes the lanes that are on.
    #[inline]
    pub(crate) fn put(&mut self, r: u16, x: &Lanes) {
        let exec = self.exec();
        self.known[r as usize] |= exec;
        let to = &mut self.v[r as usize];
        if exec == u64::MAX {
            *to = *x;
        } else {
            for i in 0..LANES {
                let on = 0u32.wrapping_sub((exec >> i) as u32 & 1);
                to[i] = to[i] & !on | x[i] & on;
            }
        }
    }

    /// Stops where one of these lanes of a register was never written.
    pub(crate) fn need(&self, r: u16, lanes: u64) -> Result<(), Trap> {
        let missing = lanes & !self.known[r as usize];
        if missing == 0 {
            return Ok(());
        }
        Err(format!("lane {} of {} was never written", missing.trailing_zeros(), name(r)))
    }

    /// Counts a memory instruction that will write registers.
    pub(crate) fn issue(&mut self, kind: u8, first: u16, count: u16) {
        let p = &mut self.pending;
        p.issued[kind as usize] += 1;
        for r in first..first + count {
            p.vector[r as usize] = Some((kind, p.issued[kind as usize]));
        }
        p.any |= count > 0;
    }

    pub(crate) fn issue_scalar(&mut self, first: u16, count: u16) {
        self.pending.scalar = true;
        self.pending.any = true;
        for r in first..first + count {
            self.pending.scalars[r as usize] = true;
        }
    }

    /// Until at most so many are under way.
    pub(crate) fn wait(&mut self, kind: u8, left: u32) {
        let p = &mut self.pending;
        let k = kind as usize;
        // shared-memory loads are counted together with scalar ones, which come in any order
        if kind == LGKM && p.scalar && left > 0 {
            return;
        }
        if kind == LGKM && left == 0 {
            p.scalar = false;
            p.scalars.fill(false);
        }
        p.done[k] = p.done[k].max(p.issued[k].saturating_sub(left));
        if p.done == p.issued && !p.scalar {
            p.any = false;
            p.vector.fill(None);
        }
    }

    /// Stops where a register's load was not waited for.
    pub(crate) fn settled(&self, uses: &[Use]) -> Result<(), Trap> {
        let p = &self.pending;
        if !p.any {
            return Ok(());
        }
        for u in uses {
            for r in u.first..u.first + u.count {
                let waits = if u.vector { p.vector[r as usize].is_some_and(|(k, n)| n > p.done[k as usize]) } else { p.scalars[r as usize] };
                if waits {
                    let name = if u.vector { name(r) } else { format!("s{r}") };
                    return Err(format!("{name} is used before an s_waitcnt for its load"));
                }
            }
        }
        Ok(())
    }
}

fn name(r: u16) -> String {
    if r >= 256 { format!("a{}", r - 256) } else { format!("v{r}") }
}

/// Registers that an instruction names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    pub(crate) vector: bool,
    pub(crate) first: u16,
    pub(crate) count: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Base {
    V(u16),
    S(u16),
    K(u32),
}

/// Where the lanes of a DPP operand come from.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Dpp {
    /// By lane: the lane that is read; `None`: none.
    pub(crate) from: Vec<Option<u8>>,
    /// Lanes that get a result at all, by row and bank masks.
    pub(crate) enabled: u64,
    /// What has no source reads 0; otherwise it keeps its old result.
    pub(crate) zero: bool,
}

impl Dpp {
    /// Lanes that get a result while `exec` is on.
    pub(crate) fn lanes(&self, exec: u64) -> u64 {
        if self.zero {
            return exec & self.enabled;
        }
        let has = |i: usize| self.from[i].is_some_and(|f| exec >> f & 1 == 1);
        exec & self.enabled & (0..LANES).filter(|&i| has(i)).fold(0, |m, i| m | 1 << i)
    }
}

/// A 32-bit source: a register, a part of one, or a constant; with the signs that stand before it.
#[derive(Clone, Debug)]
pub(crate) struct Src {
    base: Base,
    /// Bits of the part that is taken, and whether it is extended by its sign.
    shift: u32,
    width: u32,
    signed: bool,
    and: u32,
    xor: u32,
    dpp: Option<std::sync::Arc<Dpp>>,
    plain: bool,
}

/// How an operand's constants and signs are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Bits: no signs allowed.
    B32,
    F32,
    F16,
}

impl Src {
    fn of(base: Base) -> Src {
        Src { base, shift: 0, width: 32, signed: false, and: u32::MAX, xor: 0, dpp: None, plain: true }
    }

    pub(crate) fn scalar(r: u16) -> Src {
        Src::of(Base::S(r))
    }

    pub(crate) fn new(arg: &Arg, kind: Kind) -> Result<Src, String> {
        let mut s = Src::of(match arg.operand {
            Operand::Vector(r, 1) => Base::V(r),
            Operand::Scalar(r, 1) => Base::S(r),
            Operand::Int(i) => Base::K(i as u32),
            Operand::Literal(x) => Base::K(x),
            Operand::Float(x) => Base::K(if kind == Kind::F16 { u32::from(half::f16::from_f64(x).to_bits()) } else { (x as f32).to_bits() }),
            ref o => return Err(format!("operand {o:?} is no 32-bit source")),
        });
        let sign = if kind == Kind::F16 { 0x8000 } else { 0x8000_0000 };
        if (arg.neg || arg.abs || arg.sext) && (kind == Kind::B32 || arg.sext) {
            return Err("a sign on an operand of bits".into());
        }
        if arg.abs {
            s.and = !sign;
        }
        if arg.neg {
            s.xor = sign;
        }
        s.plain = !(arg.neg || arg.abs);
        Ok(s)
    }

    /// A part of the register, as SDWA selects it.
    pub(crate) fn part(mut self, select: &str, signed: bool) -> Result<Src, String> {
        (self.shift, self.width) = match select {
            "DWORD" => (0, 32),
            "WORD_0" => (0, 16),
            "WORD_1" => (16, 16),
            "BYTE_0" => (0, 8),
            "BYTE_1" => (8, 8),
            "BYTE_2" => (16, 8),
            "BYTE_3" => (24, 8),
            _ => return Err(format!("part `{select}`")),
        };
        self.signed = signed;
        self.plain &= self.width == 32;
        Ok(self)
    }

    /// Of a float32.
    pub(crate) fn negated(mut self) -> Src {
        self.xor ^= 0x8000_0000;
        self.plain = false;
        self
    }

    pub(crate) fn high_half(mut self) -> Src {
        (self.shift, self.width, self.plain) = (16, 16, false);
        self
    }

    pub(crate) fn through(mut self, dpp: std::sync::Arc<Dpp>) -> Src {
        self.dpp = Some(dpp);
        self.plain = false;
        self
    }

    /// The constant that it is.
    pub(crate) fn constant(&self) -> Option<u32> {
        if let Base::K(k) = self.base { Some(k) } else { None }
    }

    #[inline]
    fn one(&self, x: u32) -> u32 {
        let mut x = x >> self.shift;
        if self.width < 32 {
            let up = 32 - self.width;
            x = if self.signed { ((x << up) as i32 >> up) as u32 } else { x << up >> up };
        }
        x & self.and ^ self.xor
    }

    #[inline]
    pub(crate) fn lanes(&self, w: &Wave) -> Lanes {
        let x = match self.base {
            Base::V(r) => w.v[r as usize],
            Base::S(r) => [w.s[r as usize]; LANES],
            Base::K(k) => [k; LANES],
        };
        if self.plain { x } else { self.changed(x, w.exec()) }
    }

    fn changed(&self, mut x: Lanes, exec: u64) -> Lanes {
        if let Some(dpp) = &self.dpp {
            let old = x;
            for i in 0..LANES {
                x[i] = dpp.from[i].filter(|&f| exec >> f & 1 == 1).map_or(0, |f| old[f as usize]);
            }
        }
        x.map(|x| self.one(x))
    }

    /// Of a scalar instruction, or of one whose operand is the same in every lane.
    pub(crate) fn uniform(&self, w: &Wave) -> u32 {
        match self.base {
            Base::V(r) => self.one(w.v[r as usize][0]),
            Base::S(r) => self.one(w.s[r as usize]),
            Base::K(k) => self.one(k),
        }
    }
}

/// A 64-bit source.
#[derive(Clone, Debug)]
pub(crate) struct Src64 {
    pub(crate) lo: Src,
    pub(crate) hi: Src,
}

impl Src64 {
    /// `float`: a literal is the upper half of a float64, and signs are its.
    pub(crate) fn new(arg: &Arg, float: bool) -> Result<Src64, String> {
        let (lo, hi) = match arg.operand {
            Operand::Vector(r, 2) => (Base::V(r), Base::V(r + 1)),
            Operand::Scalar(r, 2) => (Base::S(r), Base::S(r + 1)),
            Operand::Int(i) => (Base::K(i as u32), Base::K((i >> 32) as u32)),
            Operand::Float(x) => (Base::K(x.to_bits() as u32), Base::K((x.to_bits() >> 32) as u32)),
            Operand::Word(ref word) if word == "src_shared_base" => (Base::K(0), Base::K(SHARED)),
            Operand::Word(ref word) if word == "src_private_base" => (Base::K(0), Base::K(PRIVATE)),
            Operand::Literal(x) if float => (Base::K(0), Base::K(x)),
            Operand::Literal(x) => (Base::K(x), Base::K(0)),
            ref o => return Err(format!("operand {o:?} is no 64-bit source")),
        };
        let (lo, mut hi) = (Src::of(lo), Src::of(hi));
        if arg.sext || ((arg.neg || arg.abs) && !float) {
            return Err("a sign on an operand of bits".into());
        }
        if arg.abs {
            hi.and = 0x7fff_ffff;
        }
        if arg.neg {
            hi.xor = 0x8000_0000;
        }
        hi.plain = !(arg.neg || arg.abs);
        Ok(Src64 { lo, hi })
    }

    #[inline]
    pub(crate) fn lanes(&self, w: &Wave) -> [u64; LANES] {
        let (lo, hi) = (self.lo.lanes(w), self.hi.lanes(w));
        std::array::from_fn(|i| u64::from(lo[i]) | u64::from(hi[i]) << 32)
    }

    pub(crate) fn uniform(&self, w: &Wave) -> u64 {
        u64::from(self.lo.uniform(w)) | u64::from(self.hi.uniform(w)) << 32
    }
}
