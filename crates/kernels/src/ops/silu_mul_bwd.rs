//! Gradients of silu_mul.

mod reference;

crate::gate::gate! {
    /// Gradients of [`SiluMul`](super::silu_mul::SiluMul): `dgate = dy * up * silu'(gate)`, `dup = dy * silu(gate)`, each rounded once, for the same
    /// dtypes and strides. Each may be written over any of the inputs. No product overflows before the gradient does.
    SiluMulBwd, "silu_mul_bwd", "ops/gate.h", BACKWARD, &[]
}
