//! Shared memory of a workgroup, with what was written since when and by whom.

use crate::wave::Trap;

/// Two bytes of shared memory: who wrote and who read them last, and in which stretch between barriers.
#[derive(Clone, Copy, Default)]
struct Cell {
    written: bool,
    writer: u16,
    wrote: u32,
    reader: u16,
    read: u32,
}

/// Read by several waves.
const MANY: u16 = u16::MAX;

pub(crate) struct Lds {
    bytes: Vec<u8>,
    cells: Vec<Cell>,
    /// Counts barriers, from 1 on.
    epoch: u32,
    races: bool,
    unknown: bool,
}

impl Lds {
    pub(crate) fn new(bytes: usize, races: bool, unknown: bool) -> Lds {
        // a pattern, so that what nobody wrote does not pass for zeros
        Lds { bytes: vec![0xd5; bytes], cells: vec![Cell::default(); bytes.div_ceil(2)], epoch: 1, races, unknown }
    }

    pub(crate) fn barrier(&mut self) {
        self.epoch += 1;
    }

    fn range(&self, at: u32, bytes: u32) -> Result<std::ops::Range<usize>, Trap> {
        let (from, to) = (at as usize, at as usize + bytes as usize);
        if to > self.bytes.len() {
            return Err(format!("{bytes} bytes at {at:#x} of shared memory, which has {}", self.bytes.len()));
        }
        let align = bytes.min(16).next_power_of_two();
        if !at.is_multiple_of(align.min(8)) {
            return Err(format!("{bytes} bytes at {at:#x} of shared memory: not a multiple of {}", align.min(8)));
        }
        Ok(from..to)
    }

    pub(crate) fn load(&mut self, at: u32, out: &mut [u8], wave: usize) -> Result<(), Trap> {
        let range = self.range(at, out.len() as u32)?;
        for c in &mut self.cells[range.start / 2..range.end.div_ceil(2)] {
            if self.unknown && !c.written {
                return Err(format!("reads shared memory at {at:#x} that nobody wrote"));
            }
            if self.races && c.wrote == self.epoch && c.writer != wave as u16 {
                return Err(format!("reads shared memory at {at:#x} that wave {} wrote since the last barrier", c.writer));
            }
            c.reader = if c.read == self.epoch && c.reader != wave as u16 { MANY } else { wave as u16 };
            c.read = self.epoch;
        }
        out.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    pub(crate) fn store(&mut self, at: u32, data: &[u8], wave: usize) -> Result<(), Trap> {
        let range = self.range(at, data.len() as u32)?;
        for c in &mut self.cells[range.start / 2..range.end.div_ceil(2)] {
            if self.races && c.wrote == self.epoch && c.writer != wave as u16 {
                return Err(format!("writes shared memory at {at:#x} that wave {} wrote since the last barrier", c.writer));
            }
            if self.races && c.read == self.epoch && c.reader != wave as u16 {
                let by = if c.reader == MANY { "other waves".to_owned() } else { format!("wave {}", c.reader) };
                return Err(format!("writes shared memory at {at:#x} that {by} read since the last barrier"));
            }
            (c.written, c.writer, c.wrote) = (true, wave as u16, self.epoch);
        }
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    /// An atomic read and write: no race with others of its kind.
    pub(crate) fn atomic(&mut self, at: u32, f: impl Fn(u32) -> u32) -> Result<u32, Trap> {
        let range = self.range(at, 4)?;
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[range.clone()]);
        let old = u32::from_le_bytes(word);
        for c in &mut self.cells[range.start / 2..range.end.div_ceil(2)] {
            if self.unknown && !c.written {
                return Err(format!("reads shared memory at {at:#x} that nobody wrote"));
            }
        }
        self.bytes[range].copy_from_slice(&f(old).to_le_bytes());
        Ok(old)
    }
}
