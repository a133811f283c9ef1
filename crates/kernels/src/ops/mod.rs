//! One module for each op, one line for each in `ALL`.

use warpwave_core::Op;

pub mod add;
pub mod add_rms_norm;
pub mod add_rms_norm_bwd;
pub mod attention;
pub mod cast;
pub mod cross_entropy;
pub mod cross_entropy_bwd;
pub mod dropout;
pub mod dropout_bwd;
pub mod elementwise;
pub mod fill;
pub mod gelu;
pub mod gelu_bwd;
pub mod gelu_mul;
pub mod gelu_mul_bwd;
pub mod layer_norm;
pub mod layer_norm_bwd;
pub mod log_softmax;
pub mod log_softmax_bwd;
pub mod matmul;
pub mod relu;
pub mod relu_bwd;
pub mod relu_dropout;
pub mod relu_dropout_bwd;
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
pub mod softmax_bwd;
pub mod transpose;
pub mod vector_add;

/// Every op.
pub(crate) static ALL: &[&dyn Op] = &[
    &vector_add::VectorAdd,
    &softmax::Softmax,
    &log_softmax::LogSoftmax,
    &softmax_bwd::SoftmaxBwd,
    &log_softmax_bwd::LogSoftmaxBwd,
    &cross_entropy::CrossEntropy,
    &cross_entropy_bwd::CrossEntropyBwd,
    &rms_norm::RmsNorm,
    &rms_norm_bwd::RmsNormBwd,
    &add_rms_norm::AddRmsNorm,
    &add_rms_norm_bwd::AddRmsNormBwd,
    &layer_norm::LayerNorm,
    &layer_norm_bwd::LayerNormBwd,
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
    &cast::Cast,
    &fill::Fill,
    &add::Add,
    &transpose::Transpose,
    &elementwise::Elementwise,
    &dropout::Dropout,
    &dropout_bwd::DropoutBwd,
    &relu_dropout::ReluDropout,
    &relu_dropout_bwd::ReluDropoutBwd,
    &silu_mul::SiluMul,
    &silu_mul_bwd::SiluMulBwd,
    &gelu_mul::GeluMul,
    &gelu_mul_bwd::GeluMulBwd,
    &rope::Rope,
    &rope_bwd::RopeBwd,
    &roof::Roof,
];
