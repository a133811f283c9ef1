//! One module for each op, one line for each in `ALL`.

use warpwave_core::Op;

pub mod attention;
pub mod log_softmax;
pub mod matmul;
pub mod roof;
pub mod softmax;
pub mod vector_add;

/// Every op.
pub(crate) static ALL: &[&dyn Op] =
    &[&vector_add::VectorAdd, &softmax::Softmax, &log_softmax::LogSoftmax, &matmul::Matmul, &attention::Attention, &roof::Roof];
