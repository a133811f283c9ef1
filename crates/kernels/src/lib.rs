//! The ops of warpwave. Each is a Rust file (operands, rules, plans, instantiations), a float64 reference, and a C++20 template under
//! `include/warpwave/ops` that nvcc, hipcc and the host compiler build.
//!
//! Instantiations are a table: [`variants`]. Translation units are generated from it by [`translation_unit`] and never committed.
#![forbid(unsafe_code)]

mod activation;
mod column_sum;
mod dropout;
mod gate;
mod norm_bwd;
pub mod ops;
mod pointwise;
mod rope;
mod row_total;
mod rows;
mod unit;

pub use unit::translation_unit;
use warpwave_core::{Op, Param, Signature, Target, Variant};

/// The folder of the C++ templates: an include path.
pub const INCLUDE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Every op.
pub fn ops() -> &'static [&'static dyn Op] {
    ops::ALL
}

/// The op of a name.
pub fn op(name: &str) -> Option<&'static dyn Op> {
    ops().iter().copied().find(|o| o.signature().op == name)
}

/// The signature of an op's name: what [`Problem::parse`](warpwave_core::Problem::parse) asks for.
pub fn signature(name: &str) -> Option<Signature> {
    op(name).map(Op::signature)
}

/// Every instantiation for a target, each once, by name. Ops share some (`copy`).
pub fn variants(target: Target) -> Vec<Variant> {
    let mut all: Vec<Variant> = ops().iter().flat_map(|o| o.variants(target)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup_by(|a, b| a.id == b.id);
    all
}

/// The fields of a kernel's `Params`.
pub fn params(kernel: &str) -> &'static [Param] {
    ops().iter().map(|o| o.params(kernel)).find(|p| !p.is_empty()).unwrap_or(&[])
}
