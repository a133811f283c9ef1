//! Everything that must hold for one problem on one device.

use crate::exec::{Fault, Image, Options, Output, Runner};
use crate::generate::{Family, inputs, is_exact};
use crate::oracle::{Mismatch, Reference, Tolerance, agree};
use warpwave_core::{DType, Op, Plan, Target, Unsupported, Valid, Vendor};
use warpwave_hal::DeviceError;

/// What failed, with all that is needed to do it again.
#[derive(Debug, thiserror::Error)]
#[error("{problem} with {family} data of seed {seed}, plan {plan}: {what}")]
pub struct Failure {
    /// The problem string.
    pub problem: String,
    /// Data family.
    pub family: Family,
    /// Seed of the data.
    pub seed: u64,
    /// Tag of the plan.
    pub plan: String,
    /// What is wrong.
    pub what: Wrong,
}

/// See [`Failure`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages name them")]
pub enum Wrong {
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    #[error("{operand}: {mismatch}")]
    Value { operand: &'static str, mismatch: Mismatch },
    #[error("{operand}: a second run gave other bits")]
    NotRepeatable { operand: &'static str },
    #[error("{operand}: exact data, but another plan gave other bits than {other}")]
    PlansDiffer { operand: &'static str, other: String },
    #[error("{operand}: memory outside the tensors reaches the result")]
    OutsideRead { operand: &'static str },
    #[error("{operand}: written over {input}, other bits")]
    InPlace { operand: &'static str, input: &'static str },
    #[error("{operand}: element {index}: {what}")]
    Related { operand: &'static str, index: u64, what: &'static str },
    #[error("no plan's kernels are built: {0}")]
    NotBuilt(DeviceError),
}

/// Which checks beside the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Every plan, not only the first.
    pub plans: bool,
    /// Run each plan a second time, in memory that ends where a tensor does; fill guards and gaps otherwise and compare bits; write over an input.
    pub again: bool,
}

impl Depth {
    /// All.
    pub const ALL: Depth = Depth { plans: true, again: true };
}

/// What a check did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Runs of plans.
    pub runs: u64,
    /// Plans left out because the build lacks their kernels.
    pub not_built: u64,
}

/// Another value for guards and gaps: large, and finite in every type but f16.
fn loud(dtype: DType) -> f64 {
    if dtype == DType::F16 { 6e4 } else { 1e30 }
}

/// A number or the bits of a NaN's sign and payload do not matter; all else must be the same bits.
fn same_bits(a: &[Output], b: &[Output]) -> Option<usize> {
    a.iter()
        .zip(b)
        .find(|(x, y)| {
            x.bytes != y.bytes && x.values().iter().zip(y.values()).any(|(p, q)| p.to_bits() != q.to_bits() && !(p.is_nan() && q.is_nan()))
        })
        .map(|(x, _)| x.operand)
}

/// Runs a problem on generated data and applies every oracle.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(runner: Runner<'_>, op: &dyn Op, problem: &Valid, family: Family, seed: u64, depth: Depth) -> Result<Done, Box<Failure>> {
    let mut tag = String::from("none");
    run_checks(runner, op, problem, family, seed, depth, &mut tag)
        .map_err(|what| Box::new(Failure { problem: problem.to_string(), family, seed, plan: tag, what }))
}

fn run_checks(runner: Runner<'_>, op: &dyn Op, problem: &Valid, family: Family, seed: u64, depth: Depth, tag: &mut String) -> Result<Done, Wrong> {
    let mut done = Done::default();
    let options = Options::default();
    let plans = match op.plans(problem, runner.device().caps()) {
        Err(_) if is_beyond(problem, runner) => return Ok(done),
        r => r?,
    };
    let images = inputs(op, problem, family, seed, &options);
    let name = |o: usize| problem.signature.operands[o].name;
    let exact = is_exact(family, op, problem);
    let references: Vec<Reference<'_>> =
        problem.outputs().filter_map(|o| reference(op, problem, &images, o, runner.device().caps().target)).collect();
    let session = runner.session(op, problem, images.clone(), options.clone())?;
    let surrounded = |o: &Options| images.iter().map(|i| i.as_ref().map(|i| i.with_surroundings(o))).collect::<Vec<_>>();
    let tight = Options { tight: true, ..options.clone() };
    let second = if depth.again { Some(runner.session(op, problem, surrounded(&tight), tight)?) } else { None };
    let mut first: Option<(Vec<Output>, &Plan)> = None;
    let mut missing: Option<DeviceError> = None;
    for plan in plans.iter().take(if depth.plans { usize::MAX } else { 1 }) {
        tag.clone_from(&plan.tag);
        let outputs = match session.run(plan) {
            Err(Fault::Device(e @ DeviceError::KernelNotBuilt { .. })) => {
                done.not_built += 1;
                missing = Some(e);
                continue;
            }
            r => r?,
        };
        done.runs += 1;
        for (out, want) in outputs.iter().zip(&references) {
            let tolerance = if exact { Tolerance::Bits } else { Tolerance::Bound };
            if let Some(mismatch) = want.check(out, tolerance, &|_| true) {
                return Err(Wrong::Value { operand: name(out.operand), mismatch });
            }
        }
        if let Some(second) = &second {
            done.runs += 1;
            if let Some(o) = same_bits(&outputs, &second.run(plan)?) {
                return Err(Wrong::NotRepeatable { operand: name(o) });
            }
        }
        match &first {
            None => first = Some((outputs, plan)),
            Some((other, with)) if exact => {
                if let Some(o) = same_bits(other, &outputs) {
                    return Err(Wrong::PlansDiffer { operand: name(o), other: with.tag.clone() });
                }
            }
            Some(_) => {}
        }
    }
    let Some((outputs, plan)) = first else {
        return missing.map_or(Ok(done), |e| Err(Wrong::NotBuilt(e)));
    };
    if !depth.again {
        return Ok(done);
    }
    tag.clone_from(&plan.tag);
    // on the same queue, over what the first run left in caches and counters
    if let Some(o) = same_bits(&outputs, &session.run(plan)?) {
        return Err(Wrong::NotRepeatable { operand: name(o) });
    }
    done.runs += 2;
    let value = loud(problem.dtypes().first().copied().unwrap_or(DType::F32));
    let loud = Options { guard_value: value, gap_value: value, ..options.clone() };
    if let Some(o) = same_bits(&outputs, &runner.run(op, problem, plan, surrounded(&loud), loud)?) {
        return Err(Wrong::OutsideRead { operand: name(o) });
    }
    for out in problem.outputs() {
        for input in (0..problem.operands.len()).filter(|&i| i != out && images[i].is_some()) {
            let same = match (&problem.operands[out], &problem.operands[input]) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            };
            if same && op.in_place(problem, out, input) {
                let over = Options { alias: Some((out, input)), ..options.clone() };
                done.runs += 1;
                if same_bits(&outputs, &runner.run(op, problem, plan, images.clone(), over)?).is_some() {
                    return Err(Wrong::InPlace { operand: name(out), input: name(input) });
                }
            }
        }
    }
    Ok(done)
}

/// Whether a device may do without a problem: float64 is the host's, and its examples are drawn for every device.
fn is_beyond(problem: &Valid, runner: Runner<'_>) -> bool {
    problem.dtypes().contains(&DType::F64) && runner.device().caps().target.vendor() != Vendor::Cpu
}

fn reference<'a>(op: &'a dyn Op, problem: &'a Valid, images: &'a [Option<Image>], output: usize, target: Target) -> Option<Reference<'a>> {
    let len = problem.operands[output].as_ref()?.len();
    let sources = images.iter().map(|i| i.as_ref().map_or(warpwave_core::Source::Dense(Vec::new()), |i| i.source_on(op, target))).collect();
    Some(Reference::new(op, problem, sources, output, std::iter::once(0..len).collect()))
}

/// Two devices on one problem: each within the bound, and no farther apart than the bound allows; exact data bit for bit.
///
/// # Errors
/// The first thing that is wrong.
pub fn compare(a: Runner<'_>, b: Runner<'_>, op: &dyn Op, problem: &Valid, family: Family, seed: u64) -> Result<Done, Box<Failure>> {
    let mut tag = String::from("none");
    let mut go = || -> Result<Done, Wrong> {
        let options = Options::default();
        let images = inputs(op, problem, family, seed, &options);
        let run = |r: Runner<'_>, tag: &mut String| -> Result<Vec<Output>, Wrong> {
            let plans = op.plans(problem, r.device().caps())?;
            let Some(plan) = plans.first() else { return Ok(Vec::new()) };
            *tag = format!("{} on {}", plan.tag, r.device().name());
            Ok(r.run(op, problem, plan, images.clone(), options.clone())?)
        };
        let (x, y) = (run(a, &mut tag)?, run(b, &mut tag)?);
        for (x, y) in x.iter().zip(&y) {
            let operand = problem.signature.operands[x.operand].name;
            let Some(want) = reference(op, problem, &images, x.operand, a.device().caps().target) else { continue };
            let tolerance = if is_exact(family, op, problem) { Tolerance::Bits } else { Tolerance::Bound };
            for out in [x, y] {
                if let Some(mismatch) = want.check(out, tolerance, &|_| true) {
                    return Err(Wrong::Value { operand, mismatch });
                }
            }
            if let Some(i) = agree(x.dtype, &x.values(), &y.values(), want.values()) {
                return Err(Wrong::Related { operand, index: i as u64, what: "the devices are farther apart than the bound allows" });
            }
        }
        Ok(Done { runs: 2, not_built: 0 })
    };
    go().map_err(|what| Box::new(Failure { problem: problem.to_string(), family, seed, plan: tag, what }))
}

/// Relations between results of related inputs, where the op has any: a row's bits do not depend on other rows; a product scales exactly by a
/// power of two; a softmax does not change when its input is shifted.
///
/// # Errors
/// The first relation that does not hold.
pub fn relations(runner: Runner<'_>, op: &dyn Op, problem: &Valid, seed: u64) -> Result<Done, Box<Failure>> {
    let mut tag = String::from("none");
    let family = Family::Normal;
    related(runner, op, problem, seed, &mut tag).map_err(|what| Box::new(Failure { problem: problem.to_string(), family, seed, plan: tag, what }))
}

fn related(runner: Runner<'_>, op: &dyn Op, problem: &Valid, seed: u64, tag: &mut String) -> Result<Done, Wrong> {
    let options = Options::default();
    let plans = match op.plans(problem, runner.device().caps()) {
        Err(_) if is_beyond(problem, runner) => return Ok(Done::default()),
        r => r?,
    };
    let Some(plan) = plans.first() else { return Ok(Done::default()) };
    tag.clone_from(&plan.tag);
    let images = inputs(op, problem, Family::Normal, seed, &options);
    let Some(input) = images.iter().position(Option::is_some) else { return Ok(Done::default()) };
    let Some((desc, image)) = problem.operands[input].as_ref().zip(images[input].as_ref()) else { return Ok(Done::default()) };
    let is_matmul = problem.signature.op == "matmul";
    let rows_alone = is_matmul || !problem.signature.attrs.iter().any(|a| a.name == "axis");
    let along_last = rows_alone || matches!(problem.int("axis"), -1) || problem.int("axis") == desc.rank() as i64 - 1;
    if desc.rank() < 2 || desc.is_empty() || !along_last || desc.strides.contains(&0) || !desc.dtype.is_float() {
        return Ok(Done::default());
    }
    // the rows of out are columns of x
    if problem.signature.op == "transpose" {
        return Ok(Done::default());
    }
    let mut done = Done { runs: 1, not_built: 0 };
    let base = runner.run(op, problem, plan, images.clone(), options.clone())?;
    let mut again = |f: &(dyn Fn(u64) -> f64 + Sync)| -> Result<Vec<Output>, Wrong> {
        let mut images = images.clone();
        images[input] = Some(Image::filled(desc, &options, f));
        done.runs += 1;
        Ok(runner.run(op, problem, plan, images, options.clone())?)
    };
    let n = desc.shape[desc.rank() - 1];
    // other rows change, and hold what would spoil a row that reads them
    let keep = desc.len() / n.max(1) / 2;
    let one = again(&|i| {
        if i / n == keep {
            image.get(i)
        } else if i % 3 == 0 {
            f64::NAN
        } else {
            1e4
        }
    })?;
    // a sum over the rows, or one value for each, is no row
    for (out, was) in
        one.iter().zip(&base).filter(|(o, _)| o.shape.len() == desc.rank() && o.shape[..o.shape.len() - 1] == desc.shape[..desc.rank() - 1])
    {
        let width = out.shape[out.shape.len() - 1];
        for i in keep * width..(keep + 1) * width {
            if out.get(i).map(f64::to_bits) != was.get(i).map(f64::to_bits) {
                return Err(Wrong::Related { operand: problem.signature.operands[out.operand].name, index: i, what: "depends on other rows" });
            }
        }
    }
    if is_matmul && problem.float("beta") == 0.0 {
        let scaled = again(&|i| 4.0 * image.get(i))?;
        let dtype = base[0].dtype;
        let least = if dtype == DType::F16 { 6.2e-5 } else { f64::from(f32::MIN_POSITIVE) };
        for ((i, x), (_, y)) in base[0].iter().zip(scaled[0].iter()) {
            if (x.abs() >= least || x == 0.0) && y != dtype.round(4.0 * x) {
                return Err(Wrong::Related { operand: "out", index: i, what: "4 a does not give 4 times the product" });
            }
        }
    }
    if !is_matmul && problem.signature.op.ends_with("softmax") {
        // on multiples of 1/8 below 16 a shift by 16 is exact in every type
        let grid = |i: u64| (image.get(i) * 8.0).round().clamp(-64.0, 64.0) / 8.0;
        let plain = again(&grid)?;
        let shifted = again(&|i| grid(i) + 16.0)?;
        let mut images = images.clone();
        images[input] = Some(Image::filled(desc, &options, &grid));
        let Some(want) = reference(op, problem, &images, plain[0].operand, runner.device().caps().target) else { return Ok(done) };
        if let Some(i) = agree(plain[0].dtype, &plain[0].values(), &shifted[0].values(), want.values()) {
            return Err(Wrong::Related { operand: "out", index: i as u64, what: "changes when the input is shifted" });
        }
    }
    Ok(done)
}
