//! What the gradients of norms share: how rows are cut, and the sums over rows that gradients of weights end with.

use crate::column_sum;
use crate::rows::{RowShape, floats, launch, variant, vec_of};
use warpwave_core::{
    Arg, BuildSet, DType, DeviceCaps, Family, KernelId, Plan, RowSpace, RowsView, Step, Target, TensorDesc, Variant, Vendor, Workspace, noise, normal,
};

/// A kernel of gradients: its name, header, template and config struct, and how many elements of 16 bits a thread holds of rows that are whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) header: &'static str,
    pub(crate) names: [&'static str; 2],
    pub(crate) ahead: u32,
}

/// How rows are cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    shape: RowShape,
    /// A row stays in registers; otherwise it is read again.
    hold: bool,
    /// Several blocks may share a row.
    span: bool,
    /// `ww::rows_lie::whole`: the next row is under way while it works.
    whole: bool,
}

/// Narrow rows first. More elements a thread spilled (nvcc 13.5).
fn cuts(kernel: Kernel, dtype: DType, target: Target) -> Vec<Cut> {
    let vec = vec_of(dtype);
    let hold = |threads, groups, chunks| Cut { shape: RowShape::new(threads, groups, chunks, vec), hold: true, span: false, whole: false };
    // with eight elements a thread rms_norm_bwd spilled on sm_100 (nvcc 13.5)
    let again_vec = if target == Target::Sm100 { vec.min(4) } else { vec };
    let again = Cut { shape: RowShape::new(256, 1, 1, again_vec), hold: false, ..hold(256, 1, 1) };
    if target.vendor() == Vendor::Cpu {
        return vec![hold(64, 1, 2), hold(256, 1, 4), again];
    }
    let chunks = match dtype {
        // two spilled scalar registers on gfx90a (clang 19)
        DType::F32 if target.vendor() == Vendor::Hip && kernel.ahead == 8 => 1,
        DType::F32 => 2,
        _ => kernel.ahead / vec,
    };
    let ahead = |threads, groups| Cut { whole: true, ..hold(threads, groups, chunks) };
    let per = if dtype == DType::F32 { 2 } else { 1 };
    vec![
        ahead(32, 4),
        ahead(128, 1),
        ahead(256, 1),
        Cut { span: target.vendor() == Vendor::Cuda, ..ahead(512, 1) },
        hold(32, 4, per),
        hold(128, 1, per),
        hold(512, 1, per),
        again,
    ]
}

impl Cut {
    fn id(self, kernel: Kernel, dtype: DType, target: Target) -> KernelId {
        let how = if self.hold { "hold" } else { "online" };
        KernelId { kernel: kernel.name, tag: format!("{dtype}.{}.{how}{}", self.shape.tag(), if self.whole { ".whole" } else { "" }), target }
    }

    fn variant(self, kernel: Kernel, dtype: DType, target: Target) -> Variant {
        let s = self.shape;
        let lie = if self.whole { "whole" } else { "anyhow" };
        let config = format!(
            ".type = ww::dtype::{dtype}, .threads = {}, .groups = {}, .chunks = {}, .vec = {}, .hold = {}, .span = {}, .lie = ww::rows_lie::{lie}",
            s.threads, s.groups, s.chunks, s.vec, self.hold, self.span
        );
        let set = if dtype == DType::BF16 && s.threads == 256 && self.hold { BuildSet::Ci } else { BuildSet::Full };
        variant(self.id(kernel, dtype, target), s, kernel.header, kernel.names, config, set)
    }
}

/// The instantiations of a kernel, and those of the sums.
pub(crate) fn variants(kernel: Kernel, target: Target) -> Vec<Variant> {
    let of = |d: DType| cuts(kernel, d, target).into_iter().map(move |c| c.variant(kernel, d, target));
    let mut all: Vec<Variant> = floats(target).iter().copied().flat_map(of).collect();
    all.extend(column_sum::variants(target));
    all
}

/// Whether each row of an operand begins on 16 bytes and takes up a multiple of them.
pub(crate) fn whole(desc: &TensorDesc, view: &RowsView, space: &RowSpace) -> bool {
    let on_16 = |elements: i64| (elements as u64).wrapping_mul(desc.dtype.size()).is_multiple_of(16);
    view.stride == 1
        && desc.alignment() >= 16
        && on_16(space.n as i64)
        && view.outer.iter().zip(space.outer).all(|(&stride, n)| n <= 1 || on_16(stride))
}

/// A gradient of a weight: the field of `Params` that takes its parts, where it is written, its dtype.
pub(crate) type WeightGradient = (&'static str, RowsView, DType);

/// The plans of a kernel over rows, best first. `before`, `behind`: the fields of `Params` around the parts, `space`, `rows`, `per` and `programs`.
pub(crate) fn plans(
    kernel: Kernel,
    dtype: DType,
    (space, whole): (&RowSpace, bool),
    [before, behind]: [&[(&'static str, Arg)]; 2],
    gradients: &[WeightGradient],
    caps: &DeviceCaps,
) -> Vec<Plan> {
    let rows = space.rows();
    // a row of parts begins anywhere: only where its width is a multiple of 16 bytes do all begin on one
    let lead = 16 / dtype.accumulator().size();
    let need = if space.n.is_multiple_of(lead) { space.n } else { space.n + lead - 1 };
    let plan = |c: Cut| {
        let cluster = if c.hold { need.div_ceil(c.shape.tile()).next_power_of_two() } else { 1 };
        if c.whole && !whole || cluster > if c.span { u64::from(caps.max_cluster) } else { 1 } {
            return None;
        }
        // as many parts as groups run at once: a block that stays has its weights at hand
        let parts = (u64::from(caps.units) * u64::from(512 / c.shape.threads)).div_ceil(cluster).clamp(1, rows);
        let per = rows.div_ceil(parts);
        let parts = rows.div_ceil(per);
        let mut workspace = Workspace::default();
        let mut all = before.to_vec();
        let mut sums = Vec::new();
        for (field, ..) in gradients {
            let part = workspace.push(field, parts * space.n * dtype.accumulator().size());
            all.push((field, Arg::Rows(RowsView { buffer: Some(part), stride: 1, outer: [0, 0, space.n as i64] })));
            sums.push(part);
        }
        all.extend([
            ("space", Arg::Space(space.clone())),
            ("rows", Arg::I64(rows as i64)),
            ("per", Arg::I64(per as i64)),
            ("programs", Arg::I64(parts as i64)),
        ]);
        all.extend_from_slice(behind);
        let id = c.id(kernel, dtype, caps.target);
        let tag = if cluster > 1 { format!("{}.c{cluster}", id.tag) } else { id.tag.clone() };
        let mut steps = vec![Step::Launch(launch(id, c.shape, parts, cluster as u32, all))];
        for (part, (_, out, to)) in sums.into_iter().zip(gradients) {
            steps.extend(column_sum::steps(Some(part), parts, space.n, out.clone(), *to, caps.target, &mut workspace));
        }
        Some(Plan { tag, target: caps.target, steps, workspace })
    };
    cuts(kernel, dtype, caps.target).into_iter().filter_map(plan).collect()
}

/// The plan for no rows: gradients of weights are sums of nothing.
pub(crate) fn no_rows(n: u64, gradients: &[WeightGradient], caps: &DeviceCaps) -> Plan {
    let mut workspace = Workspace::default();
    let sum = |(_, out, to): &WeightGradient| column_sum::steps(None, 0, n, out.clone(), *to, caps.target, &mut workspace);
    let steps = gradients.iter().flat_map(sum).collect();
    Plan { tag: "no rows".into(), target: caps.target, steps, workspace }
}

/// What every operand but x holds where data are extreme: gradients and weights are multiplied, and their products must hold in float32.
pub(crate) fn sample(operand: usize, family: Family, seed: u64, i: u64) -> Option<f64> {
    (family == Family::Extreme && operand > 0).then(|| normal(seed, i) * f64::powi(2.0, (noise(seed, i) % 25) as i32 - 12))
}
