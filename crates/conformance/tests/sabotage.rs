//! A device that does something wrong is found out: each oracle is seen red once.

use std::sync::atomic::{AtomicU32, Ordering};
use warpwave_conformance::check::{Depth, Wrong, check};
use warpwave_conformance::exec::{Fault, GUARD, Runner};
use warpwave_conformance::generate::Family;
use warpwave_core::{DType, DeviceCaps, Op, Problem, TensorDesc, Valid, validate};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};
use warpwave_hal::{Device, DeviceBuffer, DeviceError, Event, Graph, Queue, Work};

/// What happens after each run of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Crime {
    None,
    WriteBefore,
    WriteBehind,
    WriteGap,
    WriteInput,
    LeaveLast,
    WrongLast,
    ReadGuard,
    OtherBits,
}

#[derive(Debug)]
struct Faulty {
    device: CpuDevice,
    crime: Crime,
}

#[derive(Debug)]
struct FaultyQueue {
    queue: Box<dyn Queue>,
    crime: Crime,
    runs: AtomicU32,
}

impl Device for Faulty {
    fn name(&self) -> String {
        format!("{:?}", self.crime)
    }
    fn model(&self) -> String {
        self.device.model()
    }
    fn caps(&self) -> &DeviceCaps {
        self.device.caps()
    }
    fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        self.device.allocate(bytes)
    }
    unsafe fn borrow_memory(&self, address: u64, bytes: u64) -> DeviceBuffer {
        // SAFETY: the caller's promise, passed on
        unsafe { self.device.borrow_memory(address, bytes) }
    }
    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(FaultyQueue { queue: self.device.queue()?, crime: self.crime, runs: AtomicU32::new(0) }))
    }
}

/// Rows and columns of the tensors, elements between rows.
const ROWS: u64 = 3;
const COLS: u64 = 37;
const PITCH: u64 = 41;

impl Queue for FaultyQueue {
    fn upload(&self, to: &DeviceBuffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.queue.upload(to, offset, bytes)
    }
    fn download(&self, from: &DeviceBuffer, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.queue.download(from, offset, out)
    }
    fn fill(&self, to: &DeviceBuffer, offset: u64, bytes: u64, value: u8) -> Result<(), DeviceError> {
        self.queue.fill(to, offset, bytes, value)
    }
    unsafe fn run(&self, work: &Work) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise, passed on
        unsafe { self.queue.run(work) }?;
        let [x, .., out] = work.memory() else { return Ok(()) };
        let first = GUARD * 4;
        let last = first + ((ROWS - 1) * PITCH + COLS - 1) * 4;
        let value = 123.25f32.to_le_bytes();
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        match self.crime {
            Crime::None => Ok(()),
            Crime::WriteBefore => self.upload(out, first - 4, &value),
            Crime::WriteBehind => self.upload(out, last + 4, &value),
            Crime::WriteGap => self.upload(out, first + COLS * 4, &value),
            Crime::WriteInput => self.upload(x, first + 8, &value),
            Crime::LeaveLast => self.fill(out, last, 4, 0xff),
            Crime::WrongLast => self.upload(out, last, &value),
            Crime::ReadGuard => {
                let mut guard = f32::NAN.to_le_bytes();
                // there is none where the memory ends with the tensor
                if last + 8 <= x.bytes() {
                    self.download(x, last + 4, &mut guard)?;
                }
                let leak = if f32::from_le_bytes(guard).is_nan() { 0.0 } else { f32::MIN_POSITIVE / 2.0 };
                self.add(out, last, leak)
            }
            Crime::OtherBits => {
                let mut bits = [0; 4];
                self.download(out, last, &mut bits)?;
                bits[0] ^= u8::from(run > 0);
                self.upload(out, last, &bits)
            }
        }
    }
    fn record(&self) -> Result<Box<dyn Event>, DeviceError> {
        self.queue.record()
    }
    fn wait(&self, event: &dyn Event) -> Result<(), DeviceError> {
        self.queue.wait(event)
    }
    fn error_word(&self) -> u64 {
        self.queue.error_word()
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.queue.sync()
    }
    fn capture(&self, body: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<Box<dyn Graph>, DeviceError> {
        self.queue.capture(body)
    }
}

impl FaultyQueue {
    fn add(&self, out: &DeviceBuffer, at: u64, x: f32) -> Result<(), DeviceError> {
        let mut old = [0; 4];
        self.download(out, at, &mut old)?;
        self.upload(out, at, &(f32::from_le_bytes(old) + x).to_le_bytes())
    }
}

fn softmax() -> (&'static dyn Op, Valid) {
    let op = warpwave_kernels::op("softmax").unwrap();
    let desc = TensorDesc::contiguous(DType::F32, &[ROWS, COLS]).with_strides(&[PITCH as i64, 1]);
    (op, validate(op, Problem::new(op.signature()).with("x", desc.clone()).with("out", desc)).unwrap())
}

fn verdict(crime: Crime, family: Family) -> Result<(), Wrong> {
    let device = Faulty { device: CpuDevice::new(WarpWidth::W32, Schedule::Late), crime };
    let (op, problem) = softmax();
    check(Runner::new(&device), op, &problem, family, 1, Depth::ALL).map(|_| ()).map_err(|f| f.what)
}

#[test]
fn every_crime_is_found_out() {
    assert!(verdict(Crime::None, Family::Normal).is_ok());
    assert!(verdict(Crime::None, Family::Exact).is_ok());
    let outside = |crime, at: i64| {
        let found = verdict(crime, Family::Normal);
        assert!(matches!(&found, Err(Wrong::Fault(Fault::Outside { elements, .. })) if *elements == at), "{crime:?}: {found:?}");
    };
    outside(Crime::WriteBefore, -1);
    outside(Crime::WriteBehind, ((ROWS - 1) * PITCH + COLS) as i64);
    outside(Crime::WriteGap, COLS as i64);
    let last = ROWS * COLS - 1;
    assert!(matches!(verdict(Crime::WriteInput, Family::Normal), Err(Wrong::Fault(Fault::InputChanged { elements: 2, .. }))));
    assert!(matches!(verdict(Crime::LeaveLast, Family::Normal), Err(Wrong::Fault(Fault::NotWritten { index, .. })) if index == last));
    assert!(matches!(verdict(Crime::WrongLast, Family::Normal), Err(Wrong::Value { mismatch, .. }) if mismatch.index == last && mismatch.count == 1));
    // 2^-127 beside a 0 of a one-hot row: only bits show it
    assert!(matches!(verdict(Crime::ReadGuard, Family::Exact), Err(Wrong::OutsideRead { .. })));
    // one unit in the last place is inside the bound too
    assert!(matches!(verdict(Crime::OtherBits, Family::Normal), Err(Wrong::NotRepeatable { .. })));
}
