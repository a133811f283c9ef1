//! What elementwise ops share: rules, layouts, launches.

use crate::rows::{RowShape, expect, floats, launch, max_lead, rows_of, variant, vec_of};
use warpwave_core::{
    Arg, ArgType, BuildSet, DType, DescError, DeviceCaps, KernelId, Param, Plan, Problem, Role, RowSpace, RowsView, Rule, Step, Target, TensorDesc,
    Unsupported, Valid, Variant, Workspace,
};

/// A kernel of elementwise ops: its name, its header, its template and config struct; its shapes, by the elements of 16 bytes: one for large
/// problems, the most used, and one for small ones and short rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) header: &'static str,
    pub(crate) names: [&'static str; 2],
    pub(crate) shapes: fn(u32) -> [RowShape; 2],
}

/// The fields of every `Params` behind its operands.
pub(crate) const SPACE: [Param; 3] =
    [Param::new("space", ArgType::Space), Param::new("stretches", ArgType::I64), Param::new("programs", ArgType::I64)];

/// Two accesses of each operand in flight; and a warp.
pub(crate) fn usual_shapes(vec: u32) -> [RowShape; 2] {
    [RowShape::new(128, 1, 2, vec), RowShape::new(32, 4, 1, vec)]
}

fn id(kernel: Kernel, tag: &str, flag: &str, shape: RowShape, target: Target) -> KernelId {
    KernelId { kernel: kernel.name, tag: format!("{tag}.{}{flag}", shape.tag()), target }
}

/// The instantiations of a kernel for a dtype (or a pair) `tag`, a `flag` and the fields of its config before and behind those of the shape.
/// `common`: this is the most used.
pub(crate) fn variants(
    kernel: Kernel,
    (tag, flag): (&str, &str),
    vec: u32,
    [before, behind]: [&str; 2],
    common: bool,
    target: Target,
) -> Vec<Variant> {
    let one = |(i, s): (usize, RowShape)| {
        let fields = format!("{before}.threads = {}, .groups = {}, .chunks = {}, .vec = {}{behind}", s.threads, s.groups, s.chunks, s.vec);
        let set = if common && i == 0 { BuildSet::Ci } else { BuildSet::Full };
        variant(id(kernel, tag, flag, s, target), s, kernel.header, kernel.names, fields, set)
    };
    (kernel.shapes)(vec).into_iter().enumerate().map(one).collect()
}

/// The instantiations for each dtype of a target.
pub(crate) fn variants_by_dtype(kernel: Kernel, flags: &[(&str, &str)], target: Target) -> Vec<Variant> {
    let of = |d: DType, (flag, fields): (&str, &str)| {
        variants(kernel, (d.name(), flag), vec_of(d), [&format!(".type = ww::dtype::{d}, "), fields], d == DType::BF16, target)
    };
    floats(target).iter().flat_map(|&d| flags.iter().flat_map(move |&f| of(d, f))).collect()
}

/// Operands as an elementwise op sees them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) space: RowSpace,
    pub(crate) views: Vec<RowsView>,
    /// Of the operand that is written: how far before a row its tiling may begin.
    lead: u64,
}

fn expand(d: &TensorDesc, shape: &[u64]) -> TensorDesc {
    let mut out = d.clone();
    while out.rank() < shape.len() {
        out.shape.insert(0, 1);
        out.strides.insert(0, 0);
    }
    for (i, &n) in shape.iter().enumerate() {
        if out.shape[i] != n {
            out.shape[i] = n;
            out.strides[i] = 0;
        }
    }
    out
}

/// Rows of some operands, each repeated to the shape of `out`. The dimensions are taken in the order of out's strides, unless `ordered` asks for
/// row-major numbers.
///
/// # Errors
/// More outer dimensions than three.
pub(crate) fn layout(p: &Problem, names: &[&'static str], out: &'static str, ordered: bool) -> Result<Layout, DescError> {
    let mut q = p.clone();
    let shape = p.operand(out).map(|d| d.shape.clone()).unwrap_or_default();
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if let Some(d) = p.operand(out).filter(|_| !ordered) {
        order.sort_by_key(|&i| std::cmp::Reverse(if d.shape[i] == 1 { i64::MAX } else { d.strides[i] }));
    }
    for d in q.operands.iter_mut().flatten() {
        let wide = expand(d, &shape);
        d.shape = order.iter().map(|&i| wide.shape[i]).collect();
        d.strides = order.iter().map(|&i| wide.strides[i]).collect();
    }
    let (space, views) = rows_of(&q, names, true)?;
    let at = names.iter().position(|n| *n == out);
    let lead = at.and_then(|i| Some(max_lead(q.operand(out)?, &views[i], &space))).unwrap_or(0);
    Ok(Layout { space, views, lead })
}

/// Checks that all operands that are given are of one dtype and of the shape of the first.
pub(crate) fn check_same(p: &Problem, ordered: bool) -> Result<(), DescError> {
    let mut given = p.signature.operands.iter().zip(&p.operands).filter_map(|(s, d)| Some((s, d.as_ref()?)));
    let Some((first, x)) = given.next() else { return Ok(()) };
    expect(p, first.name, floats(Target::Host32), &x.shape)?;
    for (spec, _) in given {
        expect(p, spec.name, &[x.dtype], &x.shape)?;
    }
    layout(p, &names(p), output(p), ordered).map(|_| ())
}

/// Names of all operands, in order.
pub(crate) fn names(p: &Problem) -> Vec<&'static str> {
    p.signature.operands.iter().map(|o| o.name).collect()
}

/// The name of the operand that is written.
pub(crate) fn output(p: &Problem) -> &'static str {
    p.signature.operands.iter().find(|o| o.role == Role::Output).map_or("", |o| o.name)
}

/// Gives the output, where it is left out, the dtype of the first operand and a shape.
pub(crate) fn infer(p: Problem, shape: Option<Vec<u64>>) -> Problem {
    let Some(x) = p.operands.iter().flatten().next().cloned() else { return p };
    let name = output(&p);
    crate::rows::or_contiguous(p, name, x.dtype, shape.as_deref().unwrap_or(&x.shape))
}

/// The plans of a problem: one launch of each shape of a kernel. `dtypes`: of what the kernel computes on; `args` goes before the space, `more`
/// behind.
pub(crate) fn plans(
    p: &Valid,
    caps: &DeviceCaps,
    (kernel, flag): (Kernel, &str),
    dtypes: &[DType],
    layout: Layout,
    args: Vec<(&'static str, Arg)>,
    more: &[(&'static str, Arg)],
) -> Result<Vec<Plan>, Unsupported> {
    if p.operand(output(p)).is_none_or(TensorDesc::is_empty) {
        return Ok(vec![Plan::empty(caps.target)]);
    }
    if let Some(d) = dtypes.iter().find(|d| !floats(caps.target).contains(d)) {
        return Err(Unsupported { op: p.signature.op, target: caps.target, what: format!("no kernel for {d}") });
    }
    let vec = dtypes.iter().map(|&d| vec_of(d)).max().unwrap_or(1);
    let tag = dtypes.iter().map(|d| d.name()).collect::<Vec<_>>().join("-");
    let Layout { space, lead, .. } = layout;
    let mut shapes = (kernel.shapes)(vec);
    // small ones: more blocks, so that every multiprocessor has some; and short rows
    if space.n < shapes[0].tile() || space.n * space.rows() < u64::from(caps.units) * 8 * shapes[0].tile() {
        shapes.reverse();
    }
    let plan = |shape: RowShape| {
        let stretches = (space.n + lead).div_ceil(shape.tile());
        let programs = space.rows() * stretches;
        let mut all = args.clone();
        all.extend([("space", Arg::Space(space.clone())), ("stretches", Arg::I64(stretches as i64)), ("programs", Arg::I64(programs as i64))]);
        all.extend_from_slice(more);
        let step = launch(id(kernel, &tag, flag, shape, caps.target), shape, programs, 1, all);
        Plan { tag: shape.tag(), target: caps.target, steps: vec![Step::Launch(step)], workspace: Workspace::default() }
    };
    Ok(shapes.map(plan).into())
}

/// The shape that operands have together, dimensions of extent 1 repeated.
///
/// # Errors
/// Extents that differ.
pub(crate) fn broadcast(p: &Problem, names: &[&'static str]) -> Result<Vec<u64>, DescError> {
    let mut all: Vec<u64> = Vec::new();
    for &name in names {
        let Some(d) = p.operand(name) else { continue };
        let missing = d.rank().saturating_sub(all.len());
        all.splice(0..0, std::iter::repeat_n(1, missing));
        let skip = all.len() - d.rank();
        for (a, &n) in all[skip..].iter_mut().zip(&d.shape) {
            if *a == 1 {
                *a = n;
            } else if n != 1 && n != *a {
                return Err(DescError {
                    operand: name,
                    rule: Rule::ShapeMatches,
                    got: d.to_string(),
                    expected: format!("an extent of 1 or {a}, not {n}"),
                });
            }
        }
    }
    Ok(all)
}

/// The arguments of some views, by name.
pub(crate) fn view_args(names: &[&'static str], layout: &Layout) -> Vec<(&'static str, Arg)> {
    names.iter().copied().zip(layout.views.iter().cloned().map(Arg::Rows)).collect()
}

/// A view of nothing, for a field that a kernel does not use.
pub(crate) fn no_view() -> Arg {
    Arg::Rows(RowsView { buffer: None, stride: 1, outer: [0; 3] })
}

/// Implements `Op` for an elementwise op of a family: a module with `KERNEL`,
/// `PARAMS`, `infer`, `check`, `plan_all`, `variants`, `example`, `in_place` and `exact`. Behind a semicolon: more of `Op`.
macro_rules! pointwise {
    ($(#[$doc:meta])* $type:ident, $name:literal, $header:literal, $($family:ident)::+, $operands:ident, $attrs:ident $(; $($more:tt)*)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $type;

        const SIGNATURE: warpwave_core::Signature =
            warpwave_core::Signature { op: $name, operands: crate::$($family)::+::$operands, attrs: crate::$($family)::+::$attrs };

        impl warpwave_core::Op for $type {
            fn signature(&self) -> warpwave_core::Signature {
                SIGNATURE
            }

            fn infer(&self, p: warpwave_core::Problem) -> Result<warpwave_core::Problem, warpwave_core::DescError> {
                crate::$($family)::+::infer(p)
            }

            fn check(&self, p: &warpwave_core::Problem) -> Result<(), warpwave_core::DescError> {
                crate::$($family)::+::check(p)
            }

            fn plans(
                &self,
                p: &warpwave_core::Valid,
                caps: &warpwave_core::DeviceCaps,
            ) -> Result<Vec<warpwave_core::Plan>, warpwave_core::Unsupported> {
                crate::$($family)::+::plan_all(p, caps)
            }

            fn variants(&self, target: warpwave_core::Target) -> Vec<warpwave_core::Variant> {
                debug_assert_eq!($header, crate::$($family)::+::KERNEL.header);
                crate::$($family)::+::variants(target)
            }

            fn params(&self, kernel: &str) -> &'static [warpwave_core::Param] {
                if kernel == crate::$($family)::+::KERNEL.name { crate::$($family)::+::PARAMS } else { &[] }
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

            fn in_place(&self, p: &warpwave_core::Problem, output: usize, input: usize) -> bool {
                crate::$($family)::+::in_place(p, output, input)
            }

            fn example(&self, outer: &[u64], n: u64, pick: &mut dyn FnMut(usize) -> usize) -> Option<warpwave_core::Problem> {
                Some(crate::$($family)::+::example(warpwave_core::Problem::new(SIGNATURE), outer, n, pick))
            }

            fn exact(&self, p: &warpwave_core::Problem) -> bool {
                crate::$($family)::+::exact(p)
            }

            $($($more)*)?
        }
    };
}
pub(crate) use pointwise;
