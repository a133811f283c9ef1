//! What gated activations and their gradients share: one kernel, which is told the function.

use crate::pointwise::{Kernel, SPACE, check_same, layout, names, no_view, output, plans, usual_shapes, variants_by_dtype, view_args};
use crate::rows::{EXAMPLES, RowShape};
use warpwave_core::{
    Approx, Arg, ArgType, DType, DescError, DeviceCaps, OperandSpec, Param, Plan, Problem, Role, Source, Target, TensorDesc, Unsupported, Valid,
    Variant,
};

pub(crate) const KERNEL: Kernel = Kernel { name: "gate", header: "ops/gate.h", names: ["Gate", "GateConfig"], shapes: usual_shapes };
const GRADIENTS: Kernel = Kernel { shapes: gradient_shapes, ..KERNEL };

/// The gradients read three operands: with two accesses of each they took 94 registers (nvcc 13.5, sm_90a).
fn gradient_shapes(vec: u32) -> [RowShape; 2] {
    [RowShape::new(256, 1, 1, vec), RowShape::new(32, 4, 1, vec)]
}

const PARAMS: &[Param] = &[
    Param::new("gate", ArgType::Rows),
    Param::new("up", ArgType::Rows),
    Param::new("dy", ArgType::Rows),
    Param::new("out", ArgType::Rows),
    Param::new("dup", ArgType::Rows),
    SPACE[0],
    SPACE[1],
    SPACE[2],
    Param::new("function", ArgType::I32),
    Param::new("reserved", ArgType::I32),
];

/// Operands of a gated activation.
pub(crate) const FORWARD: &[OperandSpec] = &[
    OperandSpec { name: "gate", role: Role::Input, doc: "any shape" },
    OperandSpec { name: "up", role: Role::Input, doc: "the shape and dtype of gate" },
    OperandSpec { name: "out", role: Role::Output, doc: "the shape and dtype of gate" },
];
/// Operands of its gradients.
pub(crate) const BACKWARD: &[OperandSpec] = &[
    OperandSpec { name: "gate", role: Role::Input, doc: "what the forward read; any shape" },
    OperandSpec { name: "up", role: Role::Input, doc: "what the forward read; the shape and dtype of gate" },
    OperandSpec { name: "dy", role: Role::Input, doc: "the shape and dtype of gate" },
    OperandSpec { name: "dgate", role: Role::Output, doc: "the shape and dtype of gate" },
    OperandSpec { name: "dup", role: Role::Output, doc: "the shape and dtype of gate" },
];

/// `ww::Gate::Params::function`.
fn function(p: &Problem) -> i32 {
    match p.choice("approximate") {
        "" => 0,
        "erf" => 1,
        _ => 2,
    }
}

pub(crate) fn check(p: &Problem) -> Result<(), DescError> {
    check_same(p, false)
}

pub(crate) fn infer(p: Problem) -> Problem {
    let Some(gate) = p.operand("gate").cloned() else { return p };
    ["out", "dgate", "dup"].into_iter().fold(p, |p, name| crate::rows::or_contiguous(p, name, gate.dtype, &gate.shape))
}

pub(crate) fn plan_all(p: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported> {
    let (Some(gate), Ok(rows)) = (p.operand("gate"), layout(p, &names(p), output(p), false)) else { return Ok(Vec::new()) };
    let dtype = gate.dtype;
    let mut args = view_args(&names(p), &rows);
    let backward = args.len() == 5;
    if backward {
        args[3].0 = "out";
    } else {
        args.insert(2, ("dy", no_view()));
        args.push(("dup", no_view()));
    }
    let more = [("function", Arg::I32(function(p))), ("reserved", Arg::I32(0))];
    plans(p, caps, if backward { (GRADIENTS, ".bwd") } else { (KERNEL, "") }, &[dtype], rows, args, &more)
}

pub(crate) fn variants(target: Target) -> Vec<Variant> {
    let backward = variants_by_dtype(GRADIENTS, &[(".bwd", ", .backward = true")], target);
    [variants_by_dtype(KERNEL, &[("", ", .backward = false")], target), backward].concat()
}

pub(crate) fn params(kernel: &str) -> &'static [Param] {
    if kernel == KERNEL.name { PARAMS } else { &[] }
}

pub(crate) fn example(p: Problem, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Problem {
    let gate = TensorDesc::contiguous(EXAMPLES[pick(EXAMPLES.len())], &[outer, &[n]].concat());
    let mut p = names(&p).into_iter().fold(p, |p, name| p.with(name, gate.clone()));
    if pick(3) == 1 {
        // halves of a packed [..., 2n]
        for (name, half) in [("gate", 0), ("up", 1), ("dgate", 0), ("dup", 1)] {
            let Some(i) = p.index(name) else { continue };
            let mut view = TensorDesc::contiguous(gate.dtype, &[outer, &[2 * n]].concat()).with_offset(half * n);
            view.shape.clone_from(&gate.shape);
            p.operands[i] = Some(view);
        }
    }
    if pick(2) == 1 { p.with_attr("approximate", "tanh".into()) } else { p }
}

/// A function's value and its largest error, of an element in a dtype.
pub(crate) type Bounded = fn(DType, f64) -> (f64, f64);

/// Values of `out`, or of the gradient `output`, with error bounds, given the function and its derivative. A product adds a rounding for each
/// factor; the first of a gradient's may lose what lies below the subnormals.
pub(crate) fn reference(
    p: &Problem,
    inputs: &[Source<'_>],
    output: usize,
    ranges: &[std::ops::Range<u64>],
    [act, slope]: [Bounded; 2],
) -> Vec<Approx> {
    let dtype = p.operand("gate").map_or(DType::F32, |d| d.dtype);
    let (u, least) = (dtype.accumulator().unit_roundoff(), dtype.accumulator().min_subnormal());
    let one = |i| {
        let (gate, up) = (inputs[0].get(i), inputs[1].get(i));
        let (value, error) = if p.signature.operands[output].name == "dgate" {
            let dy = inputs[2].get(i);
            let (f, error) = slope(dtype, gate);
            let value = f * up * dy;
            (value, dy.abs() * (up.abs() * error + 2.0 * least) + 4.0 * u * value.abs())
        } else {
            let by = if output == 2 { up } else { inputs[2].get(i) };
            let (f, error) = act(dtype, gate);
            (f * by, by.abs() * error + 2.0 * u * (f * by).abs())
        };
        Approx { value, error: if error.is_finite() { error + 2.0 * least } else { 0.0 } }
    };
    ranges.iter().flat_map(Clone::clone).map(one).collect()
}

/// Implements `Op` for a gated activation or its gradients.
macro_rules! gate {
    ($(#[$doc:meta])* $type:ident, $name:literal, $header:literal, $operands:ident, $attrs:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $type;

        const SIGNATURE: warpwave_core::Signature = warpwave_core::Signature { op: $name, operands: crate::gate::$operands, attrs: $attrs };

        impl warpwave_core::Op for $type {
            fn signature(&self) -> warpwave_core::Signature {
                SIGNATURE
            }

            fn infer(&self, p: warpwave_core::Problem) -> Result<warpwave_core::Problem, warpwave_core::DescError> {
                Ok(crate::gate::infer(p))
            }

            fn check(&self, p: &warpwave_core::Problem) -> Result<(), warpwave_core::DescError> {
                crate::gate::check(p)
            }

            fn plans(
                &self,
                p: &warpwave_core::Valid,
                caps: &warpwave_core::DeviceCaps,
            ) -> Result<Vec<warpwave_core::Plan>, warpwave_core::Unsupported> {
                crate::gate::plan_all(p, caps)
            }

            fn variants(&self, target: warpwave_core::Target) -> Vec<warpwave_core::Variant> {
                debug_assert_eq!($header, crate::gate::KERNEL.header);
                crate::gate::variants(target)
            }

            fn params(&self, kernel: &str) -> &'static [warpwave_core::Param] {
                crate::gate::params(kernel)
            }

            fn reference(
                &self,
                p: &warpwave_core::Problem,
                inputs: &[warpwave_core::Source<'_>],
                output: usize,
                ranges: &[std::ops::Range<u64>],
            ) -> Vec<warpwave_core::Approx> {
                reference::reference(p, inputs, output, ranges)
            }

            fn in_place(&self, _: &warpwave_core::Problem, _: usize, _: usize) -> bool {
                true
            }

            fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<warpwave_core::Problem> {
                Some(crate::gate::example(warpwave_core::Problem::new(SIGNATURE), outer, n, pick))
            }
        }
    };
}
pub(crate) use gate;
