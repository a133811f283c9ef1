//! One module for each op, one line for each in `ALL`.

use warpwave_core::Op;

pub mod add_rms_norm;
pub mod attention;
pub mod gelu;
pub mod gelu_bwd;
pub mod gelu_mul;
pub mod gelu_mul_bwd;
pub mod layer_norm;
pub mod log_softmax;
pub mod matmul;
pub mod relu;
pub mod relu_bwd;
pub mod relu_squared;
pub mod relu_squared_bwd;
pub mod rms_norm;
pub mod rms_norm_bwd;
pub mod roof;
pub mod rope;
pub mod rope_bwd;
pub mod silu;
pub mod silu_bwd;
pub mod silu_mul;
pub mod silu_mul_bwd;
pub mod softmax;
pub mod vector_add;

/// Every op.
pub(crate) static ALL: &[&dyn Op] = &[
    &vector_add::VectorAdd,
    &softmax::Softmax,
    &log_softmax::LogSoftmax,
    &rms_norm::RmsNorm,
    &rms_norm_bwd::RmsNormBwd,
    &add_rms_norm::AddRmsNorm,
    &layer_norm::LayerNorm,
    &matmul::Matmul,
    &attention::Attention,
    &relu::Relu,
    &relu_bwd::ReluBwd,
    &relu_squared::ReluSquared,
    &relu_squared_bwd::ReluSquaredBwd,
    &silu::Silu,
    &silu_bwd::SiluBwd,
    &gelu::Gelu,
    &gelu_bwd::GeluBwd,
    &silu_mul::SiluMul,
    &silu_mul_bwd::SiluMulBwd,
    &gelu_mul::GeluMul,
    &gelu_mul_bwd::GeluMulBwd,
    &rope::Rope,
    &rope_bwd::RopeBwd,
    &roof::Roof,
];
