//! A result that lacks the last element, the last tile or one lane's share is outside the bound at the largest size of the suite.

use warpwave_conformance::bounds::{Loss, accepted};
use warpwave_core::DType;

#[test]
fn a_right_result_passes_and_a_faulty_one_does_not() {
    for name in ["vector_add", "softmax", "log_softmax", "matmul"] {
        let op = warpwave_kernels::op(name).unwrap();
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            assert_eq!(accepted(op, dtype, Loss::Nothing), Ok(Some(true)), "{name} {dtype}");
            for loss in Loss::FAULTS {
                assert_eq!(accepted(op, dtype, loss), Ok(Some(false)), "{name} {dtype} {loss:?}");
            }
        }
    }
}
