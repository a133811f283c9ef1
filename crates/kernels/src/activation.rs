//! What activations and their gradients share: one kernel, which is told the function.

use crate::pointwise::{Kernel, SPACE, check_same, layout, names, no_view, output, plans, usual_shapes, variants_by_dtype, view_args};
use crate::rows::EXAMPLES;
use warpwave_core::{
    Approx, Arg, ArgType, AttrKind, AttrSpec, DType, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Source, Target, TensorDesc,
    Unsupported, Valid, Variant,
};

pub(crate) const KERNEL: Kernel =
    Kernel { name: "activation", header: "ops/activation.h", names: ["Activation", "ActivationConfig"], shapes: usual_shapes };

const PARAMS: &[Param] = &[
    Param::new("x", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("function", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

/// Operands of an activation.
pub(crate) const FORWARD: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of x" },
];
/// Operands of a gradient.
pub(crate) const BACKWARD: &[OperandSpec] = &[
    OperandSpec { name: "x", role: Role::Input, doc: "what the activation read; any shape" },
    OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of x" },
    OperandSpec { name: "dx", role: Role::Output, doc: "the shape and dtype of x" },
];
/// The attribute of gelu.
pub(crate) const APPROXIMATE: &[AttrSpec] =
    &[AttrSpec { name: "approximate", kind: AttrKind::Choice { default: "erf", all: &["erf", "tanh"] }, doc: "erf: exact; tanh: by tanh" }];

/// `ww::Activation::Params::function`.
pub(crate) fn function(p: &Problem) -> i32 {
    match p.signature.op.trim_end_matches("_bwd") {
        "relu" => 0,
        "relu_squared" => 1,
        "silu" => 2,
        _ if p.choice("approximate") == "erf" => 3,
        _ => 4,
    }
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    check_same(p, false)
}

pub(crate) fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(x), Ok(rows)) = (p.operand("x"), layout(p, &names(p), output(p), false)) else { return Ok(Vec::new()) };
    let dtype = x.dtype;
    let mut args = view_args(&names(p), &rows);
    let backward = args.len() == 3;
    if backward {
        args[2].0 = "out";
    } else {
        args.insert(1, ("dy", no_view()));
    }
    let more = [("function", Arg::I32(function(p))), ("reserved", Arg::I32(0))];
    plans(p, caps, (KERNEL, if backward { ".bwd" } else { "" }), &[dtype], rows, args, &more)
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    variants_by_dtype(KERNEL, &[("", ", .backward = false"), (".bwd", ", .backward = true")], target)
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    if kernel == KERNEL.name { PARAMS } else { &[] }
}

pub(crate) fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let x = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &[outer, &[n]].concat());
    let p = names(&p).into_iter().fold(p, |p, name| p.with(name, x.clone()));
    if pick(2) == 1 { p.with_attr("approximate", "tanh".into()) } else { p }
}

/// Values of a function of each element by itself, with error bounds; `of` gives the value and its largest error, given the dtype of x.
pub(crate) fn each(p: &Problem, inputs: &[Source<'_>], ranges: &[std::ops::Range<u64>], of: impl Fn(DType, f64, f64) -> (f64, f64)) -> Vec<Approx> {
    let dtype = p.operand("x").map_or(DType::F32, |d| d.dtype);
    let dy = |i| if p.index("dy").is_some() { inputs[1].get(i) } else { 1.0 };
    let one = |i| {
        let (value, error) = of(dtype, inputs[0].get(i), dy(i));
        Approx { value, error: if error.is_finite() { error } else { 0.0 } }
    };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}

/// Implements `Op` for an activation or its gradient.
macro_rules! activation {
    ($(#[$doc:meta])* $type:ident, $name:literal, $header:literal, $operands:ident, $attrs:expr, exact $exact:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $type;

        const SIGNATURE: warpwave_core::Signature = warpwave_core::Signature { op: $name, operands: crate::activation::$operands, attrs: $attrs };

        impl warpwave_core::Op for $type {
            fn signature(&self) -> warpwave_core::Signature {
                SIGNATURE
            }

            fn infer(&self, p: warpwave_core::Problem) -> Result<warpwave_core::Problem, warpwave_core::DescError> {
                Ok(crate::pointwise::infer(p, None))
            }

            fn check(&self, p: &warpwave_core::Problem) -> Result<(), warpwave_core::DescError> {
                crate::activation::check(p)
            }

            fn plans(
                &self,
                p: &warpwave_core::Valid,
                caps: &warpwave_core::DeviceCaps,
            ) -> Result<Vec<warpwave_core::Plan>, warpwave_core::Unsupported> {
                crate::activation::plan_all(p, caps)
            }

            fn variants(&self, target: warpwave_core::Target) -> Vec<warpwave_core::Variant> {
                debug_assert_eq!($header, crate::activation::KERNEL.header);
                crate::activation::variants(target)
            }

            fn params(&self, kernel: &str) -> &'static [warpwave_core::Param] {
                crate::activation::params(kernel)
            }

            fn reference(
                &self,
                p: &warpwave_core::Problem,
                inputs: &[warpwave_core::Source<'_>],
                _: usize,
                ranges: &[std::ops::Range<u64>],
            ) -> Vec<warpwave_core::Approx> {
                reference::reference(p, inputs, ranges)
            }

            fn in_place(&self, _: &warpwave_core::Problem, _: usize, _: usize) -> bool {
                true
            }

            fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<warpwave_core::Problem> {
                Some(crate::activation::example(warpwave_core::Problem::new(SIGNATURE), outer, n, pick))
            }

            fn exact(&self, _: &warpwave_core::Problem) -> bool {
                $exact
            }
        }
    };
}
pub(crate) use activation;
