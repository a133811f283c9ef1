use crate::{Context, DType, DeviceBuffer, Error, TensorDesc, View};
use bytemuck::Pod;
use std::sync::Arc;
use warpwave_hal::Queue;

/// A host type that is the element type of a tensor.
pub trait Element: Pod {
    /// The element type.
    const DTYPE: DType;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}
impl Element for f64 {
    const DTYPE: DType = DType::F64;
}
impl Element for half::f16 {
    const DTYPE: DType = DType::F16;
}
impl Element for half::bf16 {
    const DTYPE: DType = DType::BF16;
}

/// Device memory with a descriptor: shape, strides, element type. Views share memory.
#[derive(Clone, Debug)]
pub struct Tensor {
    desc: TensorDesc,
    view: View,
    queue: Arc<dyn Queue + Sync>,
}

impl Tensor {
    pub(crate) fn new(desc: TensorDesc, view: View, queue: Arc<dyn Queue + Sync>) -> Self {
        Tensor { desc, view, queue }
    }

    /// Shape, strides, element type and placement.
    pub fn desc(&self) -> &TensorDesc {
        &self.desc
    }

    /// Where the first element lies.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Extents, slowest first.
    pub fn shape(&self) -> &[u64] {
        &self.desc.shape
    }

    /// The elements in row-major order, copied to the host once the work before is done.
    ///
    /// # Errors
    /// Another element type; what the device reports.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::DTYPE != self.desc.dtype {
            return Err(Error::Input(format!("a tensor of {} is not read as {}", self.desc.dtype, T::DTYPE)));
        }
        let span = self.desc.span().unwrap_or(0) as usize;
        let mut memory = vec![T::zeroed(); span];
        self.queue.download(&self.view.buffer, self.view.offset, bytemuck::cast_slice_mut(&mut memory))?;
        if self.desc.is_contiguous() {
            return Ok(memory);
        }
        Ok((0..self.desc.len()).map(|i| memory[self.desc.position(i) as usize]).collect())
    }

    /// The same memory with its dimensions in another order: `axes[i]` is the old number of new dimension i.
    ///
    /// # Errors
    /// `axes` is no permutation.
    pub fn permute(&self, axes: &[usize]) -> Result<Tensor, Error> {
        let mut seen = vec![false; self.desc.rank()];
        for &a in axes {
            match seen.get_mut(a) {
                Some(s) if !*s => *s = true,
                _ => return Err(Error::Input(format!("{axes:?} is no permutation of {} dimensions", self.desc.rank()))),
            }
        }
        if axes.len() != self.desc.rank() {
            return Err(Error::Input(format!("{axes:?} is no permutation of {} dimensions", self.desc.rank())));
        }
        let desc = TensorDesc {
            shape: axes.iter().map(|&a| self.desc.shape[a]).collect(),
            strides: axes.iter().map(|&a| self.desc.strides[a]).collect(),
            ..self.desc.clone()
        };
        Ok(Tensor { desc, ..self.clone() })
    }

    /// Elements `range` of dimension `axis`.
    ///
    /// # Errors
    /// The dimension or the range does not exist.
    pub fn slice(&self, axis: usize, range: std::ops::Range<u64>) -> Result<Tensor, Error> {
        let Some(&extent) = self.desc.shape.get(axis) else {
            return Err(Error::Input(format!("dimension {axis} of {}", self.desc)));
        };
        if range.start > range.end || range.end > extent {
            return Err(Error::Input(format!("elements {range:?} of an extent of {extent}")));
        }
        let skip = range.start * self.desc.strides[axis] as u64;
        let mut desc = self.desc.clone();
        desc.shape[axis] = range.end - range.start;
        desc.offset += skip;
        let view = View { buffer: self.view.buffer.clone(), offset: self.view.offset + skip * desc.dtype.size() };
        Ok(Tensor { desc, view, queue: self.queue.clone() })
    }
}

impl Context {
    /// A tensor with the given elements, row-major.
    ///
    /// # Errors
    /// As many elements as the shape has were not given; what the device reports.
    pub fn tensor<T: Element>(&self, elements: &[T], shape: &[u64]) -> Result<Tensor, Error> {
        let desc = TensorDesc::contiguous(T::DTYPE, shape);
        if desc.len() != elements.len() as u64 {
            return Err(Error::Input(format!("{} elements for shape {shape:?}", elements.len())));
        }
        let t = self.empty(&desc)?;
        self.queue().upload(&t.view.buffer, 0, bytemuck::cast_slice(elements))?;
        Ok(t)
    }

    /// A tensor of undefined contents.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(&self, desc: &TensorDesc) -> Result<Tensor, Error> {
        let bytes = desc
            .span()
            .and_then(|n| n.checked_add(desc.offset)?.checked_mul(desc.dtype.size()))
            .ok_or_else(|| Error::Input(format!("{desc} is too large")))?;
        let buffer: DeviceBuffer = self.device().allocate(bytes)?;
        Ok(Tensor::new(desc.clone(), View { buffer, offset: desc.offset * desc.dtype.size() }, self.shared_queue()))
    }
}
