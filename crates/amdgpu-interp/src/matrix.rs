//! Matrix instructions: MFMA of CDNA (wave 64) and WMMA of RDNA3 (wave 32).
//!
//! Where an element of A, B, C and D lies is AMD's published layout (the matrix instruction calculator; CDNA2 and CDNA3 ISA documents, "Matrix
//! Arithmetic Instructions"; RDNA3 ISA document, "WMMA"). The order of additions within one instruction is this crate's choice: k ascending, each
//! product fused into a float32 sum. Subnormal inputs and results of 16-bit MFMA are flushed to zero on gfx90a, not on gfx942.

use crate::Isa;
use crate::op::Compiled;
use crate::text::{Line, Operand};
use crate::wave::{Flow, LANES, Lanes};
use half::{bf16, f16};

/// Type of A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// IEEE half.
    F16,
    /// Upper half of float32.
    Bf16,
    /// IEEE single.
    F32,
}

/// A dense matrix instruction with a float32 accumulator: D = A B + C, one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A.
    pub k: usize,
    /// Of A and B.
    pub element: Element,
    /// Lanes of a wave.
    pub wave: usize,
}

/// Lane and element within the lane's operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Lane.
    pub lane: usize,
    /// Which of the elements that it holds.
    pub element: usize,
}

impl Shape {
    /// Where element (i, k) of A lies; (k, j) of B lies where (j, k) of A does. In WMMA lanes from 16 on hold the same again.
    pub fn a(&self, i: usize, k: usize) -> Place {
        if self.wave == 32 {
            return Place { lane: i, element: k };
        }
        let each = self.k * self.m / LANES;
        Place { lane: i + self.m * (k / each), element: k % each }
    }

    /// Where element (i, j) of D lies, and of C.
    pub fn d(&self, i: usize, j: usize) -> Place {
        if self.wave == 32 {
            return Place { lane: j + 16 * (i % 2), element: i / 2 };
        }
        // rows come in groups of four; as many groups side by side as lanes hold
        let beside = LANES / self.n;
        Place { lane: j + self.n * (i / 4 % beside), element: i % 4 + 4 * (i / (4 * beside)) }
    }

    /// Registers of A or B, and of C or D.
    pub fn registers(&self) -> [usize; 2] {
        let held = if self.wave == 32 { self.k } else { self.k * self.m / LANES };
        let size = if self.element == Element::F32 { 4 } else { 2 };
        [held * size / 4, self.m * self.n / self.wave]
    }

    fn read(&self, registers: &[Lanes], at: Place, flush: bool) -> f32 {
        let x = if self.element == Element::F32 {
            f32::from_bits(registers[at.element][at.lane])
        } else {
            let bits = (registers[at.element / 2][at.lane] >> (16 * (at.element % 2))) as u16;
            if self.element == Element::F16 { f16::from_bits(bits).to_f32() } else { bf16::from_bits(bits).to_f32() }
        };
        let least = if self.element == Element::F16 { f16::MIN_POSITIVE.to_f32() } else { f32::MIN_POSITIVE };
        if flush && x.abs() < least { 0f32.copysign(x) } else { x }
    }

    /// D of one instruction. `flush`: subnormal inputs and results count as zero.
    pub fn multiply(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes], flush: bool) -> Vec<Lanes> {
        let Shape { m, n, k, .. } = *self;
        // A by columns, B by rows, so that the innermost loop runs along rows of D
        let mut x = vec![0f32; m * k];
        let mut y = vec![0f32; n * k];
        for p in 0..k {
            for i in 0..m {
                x[p * m + i] = self.read(a, self.a(i, p), flush);
            }
            for j in 0..n {
                y[p * n + j] = self.read(b, self.a(j, p), flush);
            }
        }
        let mut sums = vec![0f32; m * n];
        for i in 0..m {
            for j in 0..n {
                let at = self.d(i, j);
                sums[i * n + j] = f32::from_bits(c[at.element][at.lane]);
            }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function is compiled for
            unsafe { sum_wide(&mut sums, &x, &y, n, m) };
        } else {
            sum(&mut sums, &x, &y, n, m);
        }
        let mut d = vec![[0; LANES]; self.registers()[1]];
        for i in 0..m {
            for j in 0..n {
                let at = self.d(i, j);
                let r = sums[i * n + j];
                let r = if flush && r.is_subnormal() { 0f32.copysign(r) } else { r };
                d[at.element][at.lane] = r.to_bits();
            }
        }
        d
    }
}

#[inline(always)]
fn sum(sums: &mut [f32], x: &[f32], y: &[f32], n: usize, m: usize) {
    for (i, row) in sums.chunks_exact_mut(n).enumerate() {
        for (p, y) in y.chunks_exact(n).enumerate() {
            let a = x[p * m + i];
            for (s, &b) in row.iter_mut().zip(y) {
                *s = a.mul_add(b, *s);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn sum_wide(sums: &mut [f32], x: &[f32], y: &[f32], n: usize, m: usize) {
    sum(sums, x, y, n, m);
}

/// `v_mfma_f32_16x16x16_f16`, `v_mfma_f32_16x16x16bf16_1k`, `v_wmma_f32_16x16x16_bf16`
fn shape(name: &str, isa: Isa) -> Option<Shape> {
    let (rest, wave) = match (name.strip_prefix("v_mfma_f32_"), name.strip_prefix("v_wmma_f32_")) {
        (Some(r), None) if !isa.is_gfx11() => (r, 64),
        (None, Some(r)) if isa.is_gfx11() => (r, 32),
        _ => return None,
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != 'x')?;
    let sizes: Vec<usize> = rest[..end].split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [m, n, k] = sizes[..] else { return None };
    let element = match rest[end..].trim_start_matches('_') {
        "f16" => Element::F16,
        "bf16" | "bf16_1k" => Element::Bf16,
        "f32" => Element::F32,
        _ => return None,
    };
    // one block of 16 or 32 rows, of those that the ISAs have
    let known = match (element, wave) {
        (Element::F32, 64) => [(16, 4), (32, 2)].contains(&(m, k)),
        (Element::F32, _) => false,
        (_, 64) => [(16, 16), (32, 8)].contains(&(m, k)),
        _ => (m, k) == (16, 16),
    };
    (m == n && known).then_some(Shape { m, n, k, element, wave })
}

pub(crate) fn compile(line: &Line, isa: Isa) -> Compiled {
    let Some(shape) = shape(&line.mnemonic, isa) else { return Ok(None) };
    let [held, sums] = shape.registers();
    let vector = |i: usize, n: usize| match line.args.get(i).map(|a| (&a.operand, a.neg || a.abs)) {
        Some((&Operand::Vector(r, count), false)) if usize::from(count) == n => Ok(r as usize),
        o => Err(format!("operand {i} is {o:?}, not {n} registers")),
    };
    let (d, a, b) = (vector(0, sums)?, vector(1, held)?, vector(2, held)?);
    let c = match line.args.get(3).map(|a| &a.operand) {
        Some(Operand::Int(0)) => None,
        _ => Some(vector(3, sums)?),
    };
    let flush = isa == Isa::Gfx90a && shape.element != Element::F32;
    Ok(Some(Box::new(move |w, env| {
        if shape.wave == 32 && w.exec() != w.full {
            return Err("WMMA needs all lanes on".into());
        }
        // MFMA takes all lanes, on or not
        for r in (a..a + held).chain(b..b + held).chain(c.into_iter().flat_map(|c| c..c + sums)) {
            w.need(r as u16, w.full)?;
        }
        let zero;
        let c = match c {
            Some(c) => &w.v[c..c + sums],
            None => {
                zero = vec![[0; LANES]; sums];
                &zero
            }
        };
        let r = shape.multiply(&w.v[a..a + held], &w.v[b..b + held], c, flush);
        for (i, r) in r.into_iter().enumerate() {
            w.v[d + i] = r;
            w.known[d + i] |= w.full;
        }
        env.counts.matrix_macs += (shape.m * shape.n * shape.k) as u64;
        Ok(Flow::Next)
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Vec<Shape> {
        let all = [
            ("v_mfma_f32_16x16x16_f16", Isa::Gfx942),
            ("v_mfma_f32_32x32x8_bf16", Isa::Gfx942),
            ("v_mfma_f32_16x16x16bf16_1k", Isa::Gfx90a),
            ("v_mfma_f32_32x32x2f32", Isa::Gfx90a),
            ("v_mfma_f32_16x16x4f32", Isa::Gfx90a),
            ("v_wmma_f32_16x16x16_f16", Isa::Gfx1100),
        ];
        all.map(|(n, isa)| shape(n, isa).unwrap()).into()
    }

    #[test]
    fn every_place_is_taken_once() {
        for s in shapes() {
            let mut taken = std::collections::HashSet::new();
            for i in 0..s.m {
                for j in 0..s.n {
                    let at = s.d(i, j);
                    assert!(at.lane < s.wave && at.element < s.registers()[1] && taken.insert((at.lane, at.element)), "{s:?} D[{i}][{j}]");
                }
            }
            let mut taken = std::collections::HashSet::new();
            for i in 0..s.m {
                for k in 0..s.k {
                    let at = s.a(i, k);
                    assert!(at.lane < s.wave && taken.insert((at.lane, at.element)), "{s:?} A[{i}][{k}]");
                }
            }
        }
    }

    /// Single elements of the published tables.
    #[test]
    fn published_layouts() {
        let place = |lane, element| Place { lane, element };
        let of = |n: &str, isa| shape(n, isa).unwrap();
        let s = of("v_mfma_f32_16x16x16_f16", Isa::Gfx942);
        assert_eq!(
            (s.a(3, 5), s.a(15, 15), s.d(0, 7), s.d(6, 2), s.d(15, 15)),
            (place(19, 1), place(63, 3), place(7, 0), place(18, 2), place(63, 3))
        );
        let s = of("v_mfma_f32_32x32x8f16", Isa::Gfx90a);
        assert_eq!((s.a(3, 5), s.d(4, 0), s.d(8, 1), s.d(31, 31)), (place(35, 1), place(32, 0), place(1, 4), place(63, 15)));
        let s = of("v_mfma_f32_16x16x4f32", Isa::Gfx90a);
        assert_eq!((s.a(9, 2), s.registers()), (place(41, 0), [1, 4]));
        let s = of("v_wmma_f32_16x16x16_bf16", Isa::Gfx1100);
        assert_eq!((s.a(9, 2), s.d(5, 4), s.d(8, 0), s.registers()), (place(9, 2), place(20, 2), place(0, 4), [8, 8]));
        assert!(shape("v_mfma_f32_16x16x4_4b_f32", Isa::Gfx942).is_none() && shape("v_mfma_f32_16x16x16_f16", Isa::Gfx1100).is_none());
    }

    #[test]
    fn products_of_small_integers_are_exact() {
        for s in shapes() {
            let number = |seed: usize, i: usize, j: usize| ((seed + 7 * i + 3 * j) % 9) as f32 - 4.0;
            let mut ab = [vec![[0u32; LANES]; s.registers()[0]], vec![[0u32; LANES]; s.registers()[0]]];
            for (seed, registers) in ab.iter_mut().enumerate() {
                for i in 0..s.m {
                    for k in 0..s.k {
                        let (at, x) = (s.a(i, k), number(seed, i, k));
                        match s.element {
                            Element::F32 => registers[at.element][at.lane] = x.to_bits(),
                            e => {
                                let bits = if e == Element::F16 { f16::from_f32(x).to_bits() } else { bf16::from_f32(x).to_bits() };
                                registers[at.element / 2][at.lane] |= u32::from(bits) << (16 * (at.element % 2));
                            }
                        }
                    }
                }
            }
            let c = vec![[1f32.to_bits(); LANES]; s.registers()[1]];
            let d = s.multiply(&ab[0], &ab[1], &c, false);
            for i in 0..s.m {
                for j in 0..s.n {
                    let want: f32 = 1.0 + (0..s.k).map(|k| number(0, i, k) * number(1, j, k)).sum::<f32>();
                    let at = s.d(i, j);
                    assert_eq!(f32::from_bits(d[at.element][at.lane]), want, "{s:?} D[{i}][{j}]");
                }
            }
        }
    }
}
