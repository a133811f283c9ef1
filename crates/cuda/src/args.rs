//! The argument block of a launch: the fields that [`bind`](warpwave_hal::bind) laid out and, behind them, tensor maps.

use crate::driver::cu;
use cudarc::driver::sys;
use std::ffi::c_void;
use warpwave_core::{DType, TensorMap};
use warpwave_hal::{BoundLaunch, DeviceError};

/// What the block starts on a multiple of, as the tensor maps in it do.
const ALIGN: usize = 64;
/// Bytes of a tensor map.
const MAP: usize = 128;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

/// An argument block in memory aligned as its tensor maps are.
pub(crate) struct Block {
    lines: Vec<Line>,
    bytes: usize,
}

impl Block {
    /// Lays a block out; `encode` makes the bytes of a tensor map at an address.
    pub(crate) fn new(l: &BoundLaunch, mut encode: impl FnMut(u64, &TensorMap) -> Result<[u8; MAP], DeviceError>) -> Result<Self, DeviceError> {
        let at = if l.maps.is_empty() { None } else { l.kernel.target.maps_offset(l.args.len()) };
        let bytes = at.map_or(l.args.len(), |at| at + l.maps.len() * MAP);
        let mut block = Block { lines: vec![Line([0; ALIGN]); bytes.div_ceil(ALIGN)], bytes };
        block.write(0, &l.args);
        if let Some(at) = at {
            for (i, m) in l.maps.iter().enumerate() {
                // an unused map stays all zeroes: the kernel does not look at it
                if let Some(address) = m.address {
                    block.write(at + i * MAP, &encode(address, &m.map)?);
                }
            }
        }
        Ok(block)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        for (i, &byte) in bytes.iter().enumerate() {
            self.lines[(at + i) / ALIGN].0[(at + i) % ALIGN] = byte;
        }
    }

    /// Bytes of the block.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The block, aligned to 64 bytes.
    pub(crate) fn pointer(&mut self) -> *mut c_void {
        self.lines.as_mut_ptr().cast()
    }
}

/// A tensor map as the hardware reads it.
pub(crate) fn encode_map(device: &str, address: u64, map: &TensorMap) -> Result<[u8; MAP], DeviceError> {
    let dtype = match map.dtype {
        DType::F64 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DType::F32 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F16 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::I64 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::I32 => sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_INT32,
    };
    let swizzle = if map.swizzle128 {
        sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B
    } else {
        sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_NONE
    };
    let steps = [1u32; 4];
    let mut out = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the arrays are as long as the rank says: 4 extents, fastest first, 3 pitches in bytes from the second dimension on, 4 box extents
    // and 4 element steps; `out` is aligned as its type says. The address is only stored
    unsafe {
        cu!(
            device,
            cuTensorMapEncodeTiled(
                &mut out,
                dtype,
                4,
                std::ptr::without_provenance_mut(address as usize),
                map.dims.as_ptr(),
                map.strides.as_ptr(),
                map.boxes.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                // elements out of bounds read as 0
                sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
    }
    .map_err(|e| match e {
        DeviceError::Driver { device, call, what } => {
            let what = format!("{what}: {} {:?} pitch {:?} box {:?} at {address:#x}", map.dtype.name(), map.dims, map.strides, map.boxes);
            DeviceError::Driver { device, call, what }
        }
        e => e,
    })?;
    let mut bytes = [0; MAP];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(out.opaque) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwave_core::{KernelId, Target};
    use warpwave_hal::BoundMap;

    fn launch(target: Target, args: usize, maps: &[Option<u64>]) -> BoundLaunch {
        let map = TensorMap { buffer: None, dtype: DType::BF16, dims: [64, 8, 1, 1], strides: [128, 16, 16], boxes: [64, 8, 1, 1], swizzle128: true };
        BoundLaunch {
            kernel: KernelId { kernel: "test", tag: "bf16".into(), target },
            programs: 1,
            blocks: 1,
            threads: 128,
            cluster: 1,
            shared: 0,
            args: (0..args).map(|i| i as u8 | 1).collect(),
            maps: maps.iter().map(|&address| BoundMap { address, map: map.clone() }).collect(),
        }
    }

    fn bytes(block: &mut Block) -> Vec<u8> {
        assert!(block.pointer().addr().is_multiple_of(ALIGN));
        block.lines.iter().flat_map(|l| l.0).take(block.bytes).collect()
    }

    fn numbered(address: u64, _: &TensorMap) -> Result<[u8; MAP], DeviceError> {
        Ok([address as u8; MAP])
    }

    #[test]
    fn maps_follow_the_fields_on_the_next_multiple_of_64() {
        for (args, at) in [(64, 64), (72, 128), (200, 256)] {
            let l = launch(Target::Sm90a, args, &[Some(0xa0), None, Some(0xb0)]);
            let mut block = Block::new(&l, numbered).unwrap();
            assert_eq!(block.bytes(), at + 3 * MAP);
            let all = bytes(&mut block);
            assert_eq!(all[..args], l.args);
            assert!(all[args..at].iter().all(|&b| b == 0));
            assert_eq!(all[at..at + MAP], [0xa0; MAP]);
            assert_eq!(all[at + MAP..at + 2 * MAP], [0; MAP]);
            assert_eq!(all[at + 2 * MAP..], [0xb0; MAP]);
        }
    }

    #[test]
    fn without_maps_the_block_is_the_fields() {
        let l = launch(Target::Sm90a, 72, &[]);
        let mut block = Block::new(&l, numbered).unwrap();
        assert_eq!(bytes(&mut block), l.args);
        // a target without tensor maps ignores them
        let l = launch(Target::Sm80, 72, &[Some(1)]);
        let mut block = Block::new(&l, numbered).unwrap();
        assert_eq!(bytes(&mut block), l.args);
    }

    #[test]
    fn a_map_is_as_large_as_the_driver_says() {
        assert_eq!(size_of::<sys::CUtensorMap>(), MAP);
    }
}
