use crate::machine::{self, Machine};
use crate::ui::{self, out, outln};
use crate::{Outcome, verify};
use anyhow::{Context, Result, anyhow, bail};
use safetensors::{Dtype, tensor::TensorView};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use warpwave::{DType, Op, Plan};
use warpwave_conformance::exec::{Image, Options, Output, Runner};
use warpwave_conformance::generate::{self, Family};
use warpwave_conformance::oracle::{Reference, Tolerance};
use warpwave_core::{Source, Valid};

/// Operations that a reference may cost; of a larger problem, stretches of the result are checked.
const REFERENCE_FLOPS: u64 = 1 << 31;
/// Elements of such a stretch.
const STRETCH: u64 = 64;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The problem, as `softmax x=bf16[512,4096] axis=-1 @cuda:0`
    #[arg(required_unless_present = "cases", conflicts_with = "cases")]
    problem: Option<String>,
    /// Replay a recorded case of this file; `textbook` and `field` are part of the program
    #[arg(long, value_name = "FILE", requires = "id")]
    cases: Option<String>,
    /// Which case
    #[arg(long)]
    id: Option<String>,
    /// Device: cpu, cpu:64, cuda:0, ...; the first GPU by default, else the CPU
    #[arg(long, short)]
    device: Option<String>,
    /// Seed of the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What inputs hold: exact, normal, uniform, extreme, subnormal, spikes, nonfinite
    #[arg(long, default_value = "normal")]
    data: Family,
    /// Tag of the plan; the op's first choice by default
    #[arg(long)]
    plan: Option<String>,
    /// Write inputs and outputs to this file
    #[arg(long, value_name = "FILE.safetensors")]
    save: Option<PathBuf>,
    /// Show the plan before it runs
    #[arg(long)]
    print_plan: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let machine = Machine::find();
    if let (Some(file), Some(id)) = (&args.cases, &args.id) {
        let device = machine.one(args.device.as_deref())?;
        return verify::one_case(&*device, file, id);
    }
    let Some(text) = &args.problem else { bail!("no problem") };
    let asked = machine::problem(text)?;
    let device = machine.one(asked.device.as_deref().or(args.device.as_deref()))?;
    let plan = machine::plans(asked.op, &asked.problem, device.caps(), args.plan.as_deref())?.swap_remove(0);
    let problem = &asked.problem;
    outln!("{} @{}", **problem, device.name());
    if args.print_plan {
        out!("{plan}");
    } else {
        outln!("plan {}", plan.tag);
    }
    let options = Options::default();
    let inputs = generate::inputs(asked.op, problem, args.data, args.seed, &options);
    let start = Instant::now();
    let outputs = Runner::new(&*device).run(asked.op, problem, &plan, inputs.clone(), options)?;
    outln!("ran in {:.1} ms, transfers and checks of the guard bands included", start.elapsed().as_secs_f64() * 1e3);
    if let Some(path) = &args.save {
        save(path, problem, &plan, args, &device.name(), &inputs, &outputs)?;
        outln!("saved to {}", path.display());
    }
    check(asked.op, problem, &inputs, &outputs)
}

/// Compares with the reference and says how near it is.
fn check(op: &dyn Op, problem: &Valid, inputs: &[Option<Image>], outputs: &[Output]) -> Result<Outcome> {
    let mut outcome = Outcome::Passed;
    for output in outputs {
        let name = problem.signature.operands[output.operand].name;
        let part = sample(output, op.flops(problem));
        let sources = inputs.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect();
        let reference = Reference::new(op, problem, sources, output.operand, part.ranges.clone());
        let of = if part.len() == output.len() { String::new() } else { format!(" of {}", output.len()) };
        match reference.check(&part, Tolerance::Bound, &|_| true) {
            None => {
                let share = |(at, want): (usize, &warpwave_core::Approx)| {
                    let limit = want.error + output.dtype.unit_roundoff() * want.value.abs() + output.dtype.min_subnormal();
                    let share = (part.value(at) - want.value).abs() / limit;
                    if share.is_finite() { share } else { 0.0 }
                };
                let worst = reference.values().iter().enumerate().map(share).fold(0.0, f64::max);
                outln!("{name}: {} elements{of} {}, the worst at {:.0} % of it", part.len(), ui::good("within the bound"), 100.0 * worst);
            }
            Some(mismatch) => {
                outcome = Outcome::Failed;
                outln!("{name}: {}: {mismatch} of {} compared", ui::bad("wrong"), part.len());
            }
        }
    }
    Ok(outcome)
}

/// All of an output, or stretches spread over it where the whole reference would take too long.
fn sample(output: &Output, flops: u64) -> Output {
    let len = output.len() as u64;
    let stretches = (len as f64 * REFERENCE_FLOPS as f64 / flops.max(1) as f64 / STRETCH as f64) as u64;
    if flops <= REFERENCE_FLOPS || stretches * STRETCH >= len {
        return output.clone();
    }
    let count = stretches.max(4);
    let step = (len - STRETCH) / (count - 1);
    let ranges: Vec<_> = (0..count).map(|i| if i + 1 == count { len - STRETCH..len } else { i * step..i * step + STRETCH.min(step) }).collect();
    let size = output.dtype.size() as usize;
    let bytes = ranges.iter().flat_map(|r| output.bytes[r.start as usize * size..r.end as usize * size].iter().copied()).collect();
    Output { ranges, bytes, ..output.clone() }
}

fn save(path: &Path, problem: &Valid, plan: &Plan, args: &Args, device: &str, inputs: &[Option<Image>], outputs: &[Output]) -> Result<()> {
    let dtype = |d: DType| match d {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
    };
    let mut tensors: Vec<(String, DType, Vec<usize>, Vec<u8>)> = Vec::new();
    let extents = |shape: &[u64]| shape.iter().map(|&n| n as usize).collect::<Vec<_>>();
    for (o, image) in inputs.iter().enumerate() {
        let Some(image) = image else { continue };
        let d = image.desc();
        let size = d.dtype.size() as usize;
        let mut bytes = vec![0; d.len() as usize * size];
        image.dense().iter().zip(bytes.chunks_exact_mut(size)).for_each(|(&x, e)| d.dtype.encode(x, e));
        tensors.push((problem.signature.operands[o].name.into(), d.dtype, extents(&d.shape), bytes));
    }
    for o in outputs {
        tensors.push((problem.signature.operands[o.operand].name.into(), o.dtype, extents(&o.shape), o.bytes.clone()));
    }
    let views: Result<Vec<_>> = tensors
        .iter()
        .map(|(name, d, shape, bytes)| Ok((name.clone(), TensorView::new(dtype(*d), shape.clone(), bytes).map_err(|e| anyhow!("{name}: {e}"))?)))
        .collect();
    let about = [
        ("problem", problem.to_string()),
        ("plan", plan.tag.clone()),
        ("device", device.into()),
        ("seed", args.seed.to_string()),
        ("data", args.data.to_string()),
    ];
    let about: HashMap<String, String> = about.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    safetensors::serialize_to_file(views?, Some(about), path).with_context(|| path.display().to_string())
}
