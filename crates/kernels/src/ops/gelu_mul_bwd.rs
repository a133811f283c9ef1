//! Gradients of gelu_mul.

mod reference;

crate::gate::gate! {
    /// Gradients of [`GeluMul`](super::gelu_mul::GeluMul): `dgate = dy * up * gelu'(gate)`, `dup = dy * gelu(gate)`, each rounded once, for the same
    /// dtypes and strides. Each may be written over any of the inputs. No product overflows before the gradient does.
    GeluMulBwd, "gelu_mul_bwd", "ops/gate.h", BACKWARD, crate::activation::APPROXIMATE
}
