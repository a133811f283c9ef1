mod about;
mod measure;
mod roof;
mod serve;
mod suites;

use crate::Outcome;
use crate::machine::{self, Asked, Machine};
use crate::ui::{self, Side, outln};
use anyhow::{Context, Result, bail};
use measure::{Memory, Meter, Settings, Timed, median};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use suites::{Row, Suite};
use warpwave::{Device, Plan};
use warpwave_core::Vendor;

/// Measure problems beside the roof of the same bytes
///
/// A row gives the median over the rounds of the mean time of a run in a window, its spread, and the roof: the fastest kernel that only moves
/// as many bytes, timed in turn with it. On a GPU, runs below 100 µs are replayed as a graph, longer ones timed by events; copies of the
/// operands that together exceed the L2 take turns. On the CPU it is wall-clock time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Problems, as `softmax x=bf16[512,4096]`
    problems: Vec<String>,
    /// Device: cpu, cpu:64, cuda:0, ...; the first GPU by default, else the CPU
    #[arg(long, short)]
    device: Option<String>,
    /// Rows of this suite
    #[arg(long, value_enum)]
    suite: Vec<Suite>,
    /// Only rows of this op
    #[arg(long)]
    op: Option<String>,
    /// Only the plan of this tag
    #[arg(long)]
    plan: Option<String>,
    /// Time every plan of a problem
    #[arg(long, conflicts_with = "plan")]
    all_plans: bool,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of a window in milliseconds; 500 for products and attention, 100 for the rest
    #[arg(long)]
    window_ms: Option<u64>,
    /// Warm-up before the first round in milliseconds; as long as a window by default
    #[arg(long)]
    warmup_ms: Option<u64>,
    /// Do without the roof
    #[arg(long)]
    no_roof: bool,
    /// Append one JSON object for each row to this file; - is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Read commands from the standard input, time one window at each `go`, answer in JSON lines; `help` lists the commands
    #[arg(long, conflicts_with_all = ["problems", "suite", "op", "plan", "all_plans", "json"])]
    serve: bool,
}

/// One row, as it is recorded.
#[derive(Serialize)]
struct Record<'a> {
    date: String,
    device: String,
    model: String,
    driver: Option<&'a str>,
    target: warpwave::Target,
    problem: String,
    plan: String,
    method: String,
    /// Median of the rounds.
    us: f64,
    rounds_us: &'a [f64],
    /// Largest less smallest, over the median.
    spread: f64,
    bytes: u64,
    gb_per_s: f64,
    flops: u64,
    tflop_per_s: Option<f64>,
    roof_us: Option<f64>,
    roof_plan: Option<&'a str>,
    roof_ratio: Option<f64>,
    clock_mhz: Option<f64>,
    power_w: Option<f64>,
}

/// A problem, and the end of the tag of a second plan to time beside the first.
type Wanted = (Asked, Option<&'static str>);

/// A plan of a problem that is to be timed.
struct Item {
    asked: Asked,
    plan: Plan,
}

const HEAD: [&str; 9] = ["problem", "plan", "µs", "±%", "TFLOP/s", "GB/s", "bytes", "roof µs", "ratio"];
const SIDES: [Side; 9] = [Side::Left, Side::Left, Side::Right, Side::Right, Side::Right, Side::Right, Side::Right, Side::Right, Side::Right];

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let machine = Machine::find();
    if args.serve {
        let device = machine.one(args.device.as_deref())?;
        return serve::run(&*device, std::io::stdin().lock());
    }
    let mut rows: Vec<Row> = args.problems.iter().map(Row::new).collect();
    rows.extend(args.suite.iter().flat_map(|s| s.rows()));
    if let Some(op) = &args.op {
        machine::op(op)?;
        rows.retain(|r| r.problem.split_whitespace().next() == Some(op.as_str()));
    }
    if rows.is_empty() {
        bail!("nothing to measure: give problems, or --suite memory, matmul, attention or smoke");
    }
    // all problems are read before the first is timed
    let mut by_device: Vec<(Arc<dyn Device>, Vec<Wanted>)> = Vec::new();
    for row in &rows {
        let asked = machine::problem(&row.problem)?;
        let device = machine.one(asked.device.as_deref().or(args.device.as_deref()))?;
        match by_device.iter_mut().find(|(d, _)| d.name() == device.name()) {
            Some((_, list)) => list.push((asked, row.also)),
            None => by_device.push((device, vec![(asked, row.also)])),
        }
    }
    let mut json: Option<Box<dyn Write>> = match &args.json {
        None => None,
        Some(path) if path.as_os_str() == "-" => Some(Box::new(std::io::stdout())),
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            Some(Box::new(file.with_context(|| path.display().to_string())?))
        }
    };
    let quiet = args.json.as_ref().is_some_and(|p| p.as_os_str() == "-");
    let mut failed = 0;
    for (device, asked) in by_device {
        failed += measure_all(args, &*device, asked, quiet, &mut json)?;
    }
    Ok(if failed == 0 { Outcome::Passed } else { Outcome::Failed })
}

/// Times all rows of one device; returns how many failed.
fn measure_all(args: &Args, device: &dyn Device, asked: Vec<Wanted>, quiet: bool, json: &mut Option<Box<dyn Write>>) -> Result<usize> {
    let mut meter = Meter::new(device)?;
    let driver = about::driver(&device.name());
    let mut items = Vec::new();
    for (asked, also) in asked {
        let plans = machine::plans(asked.op, &asked.problem, device.caps(), args.plan.as_deref())?;
        let extra = also.and_then(|end| plans.iter().skip(1).position(|p| p.tag.ends_with(end)).map(|i| i + 1));
        let pick = |i: usize| i == 0 || args.all_plans || args.plan.is_some() || Some(i) == extra;
        for (_, plan) in plans.into_iter().enumerate().filter(|(i, _)| pick(*i)) {
            items.push(Item { asked: Asked { op: asked.op, problem: asked.problem.clone(), device: None }, plan });
        }
    }
    let width = |text: &dyn Fn(&Item) -> usize| items.iter().map(text).max().unwrap_or(0);
    let widths = [width(&|i| short(i).chars().count()), width(&|i| i.plan.tag.len()), 10, 5, 7, 7, 10, 10, 5];
    if !quiet {
        let driver = driver.as_ref().map_or(String::new(), |d| format!(", driver {d}"));
        outln!("{}", ui::dim(format!("{}: {}, {}{driver}, {}", device.name(), device.model(), device.caps().target, about::date())));
        outln!("{}", ui::head(ui::line(&HEAD.map(str::to_owned), &widths, &SIDES)));
    }
    let bar = ui::progress(items.len() as u64);
    let mut roofs: HashMap<(u64, u64), Option<roof::Best>> = HashMap::new();
    let mut memory: Option<(String, Memory)> = None;
    let mut failed = 0;
    for item in &items {
        bar.set_message(short(item));
        let name = item.asked.problem.to_string();
        if memory.as_ref().is_none_or(|(of, _)| *of != name) {
            // what the last problem held goes before the next asks for more
            drop(memory.take());
            roofs.clear();
            memory = Some((name, meter.memory(item.asked.op, &item.asked.problem)?));
        }
        let Some((_, memory)) = &memory else { continue };
        match measure(args, &mut meter, item, memory, &mut roofs) {
            Ok(m) => {
                let record = record(device, driver.as_deref(), item, &m);
                if let Some(out) = json {
                    writeln!(out, "{}", serde_json::to_string(&record)?)?;
                    out.flush()?;
                }
                if !quiet {
                    bar.suspend(|| outln!("{}", ui::line(&cells(item, &record), &widths, &SIDES)));
                }
            }
            Err(e) => {
                failed += 1;
                let row = ui::line(&[short(item), item.plan.tag.clone()], &widths, &SIDES);
                bar.suspend(|| anstream::eprintln!("{row}  {}: {e:#}", ui::bad("failed")));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(failed)
}

struct Measured {
    method: String,
    rounds: Vec<f64>,
    /// Median and plan.
    roof: Option<(f64, String)>,
    clock_and_power: Option<(f64, f64)>,
}

fn settings(args: &Args, flops: u64, cpu: bool) -> Settings {
    let window = Duration::from_millis(args.window_ms.unwrap_or(if flops > 0 && !cpu { 500 } else { 100 }));
    let warmup = args.warmup_ms.map_or(if cpu { Duration::ZERO } else { window }, Duration::from_millis);
    Settings { warmup, window, rounds: args.rounds.max(1) }
}

/// The plan and its roof in turn, round by round.
fn measure(
    args: &Args,
    meter: &mut Meter<'_>,
    item: &Item,
    memory: &Memory,
    roofs: &mut HashMap<(u64, u64), Option<roof::Best>>,
) -> Result<Measured> {
    let problem = &item.asked.problem;
    let settings = settings(args, item.asked.op.flops(problem), meter.is_cpu());
    let mut timed: Timed = meter.prepare(item.asked.op, problem, &item.plan, memory)?;
    let key = roof::traffic(problem);
    if !args.no_roof && key.0 + key.1 > 0 && !roofs.contains_key(&key) {
        let trial = if meter.is_cpu() { Duration::from_millis(5) } else { Duration::from_millis(20) };
        // without roof kernels the row still stands
        let best = roof::best(meter, key.0, key.1, trial);
        if let Err(e) = &best {
            anstream::eprintln!("{}", ui::dim(format!("no roof: {e:#}")));
        }
        roofs.insert(key, best.ok());
    }
    let mut roof = roofs.get_mut(&key).and_then(Option::as_mut);
    let start = Instant::now();
    while start.elapsed() < settings.warmup {
        meter.window(&mut timed, settings.warmup / 4)?;
    }
    // the warm-up knows the time of a run better than the first few did
    timed.estimate = meter.window(&mut timed, settings.window / 10)?.0.max(0.05);
    let (mut rounds, mut roof_rounds) = (Vec::new(), Vec::new());
    let mut clocks = Vec::new();
    for _ in 0..settings.rounds {
        rounds.push(meter.window(&mut timed, settings.window)?.0);
        clocks.extend(about::clock_and_power(&meter.device.name()));
        if let Some(best) = &mut roof {
            roof_rounds.push(meter.window(&mut best.timed, settings.window.min(Duration::from_millis(100)))?.0);
        }
    }
    let middle = |f: fn(&(f64, f64)) -> f64| median(&clocks.iter().map(f).collect::<Vec<_>>());
    Ok(Measured {
        method: timed.method(meter),
        rounds,
        roof: roof.map(|best| (median(&roof_rounds), best.plan.tag.clone())),
        clock_and_power: (!clocks.is_empty()).then(|| (middle(|c| c.0), middle(|c| c.1))),
    })
}

/// The problem string without outputs: they are as the op infers them in all but odd cases, and the record has them.
fn short(item: &Item) -> String {
    let text = item.asked.problem.to_string();
    text.split(' ').filter(|w| !w.starts_with("out=") && !w.starts_with("lse=")).collect::<Vec<_>>().join(" ")
}

fn record<'a>(device: &dyn Device, driver: Option<&'a str>, item: &Item, m: &'a Measured) -> Record<'a> {
    let problem = &item.asked.problem;
    let us = median(&m.rounds);
    let (read, written) = roof::traffic(problem);
    let flops = item.asked.op.flops(problem);
    let (low, high) = m.rounds.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &x| (l.min(x), h.max(x)));
    Record {
        date: about::date(),
        device: device.name(),
        model: device.model(),
        driver,
        target: device.caps().target,
        problem: problem.to_string(),
        plan: item.plan.tag.clone(),
        method: m.method.clone(),
        us,
        rounds_us: &m.rounds,
        spread: (high - low) / us,
        bytes: read + written,
        gb_per_s: (read + written) as f64 / us / 1e3,
        flops,
        tflop_per_s: (flops > 0).then(|| flops as f64 / us / 1e6),
        roof_us: m.roof.as_ref().map(|r| r.0),
        roof_plan: m.roof.as_ref().map(|r| r.1.as_str()),
        roof_ratio: m.roof.as_ref().map(|r| us / r.0),
        clock_mhz: m.clock_and_power.map(|c| c.0),
        power_w: m.clock_and_power.map(|c| c.1),
    }
}

fn cells(item: &Item, r: &Record<'_>) -> Vec<String> {
    let number = |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format!("{x:.digits$}"));
    // a CPU gives fractions
    let rate = |x: f64| if x < 10.0 { format!("{x:.3}") } else { format!("{x:.0}") };
    vec![
        short(item),
        r.plan.clone(),
        format!("{:.2}", r.us),
        format!("{:.1}", 100.0 * r.spread),
        r.tflop_per_s.map_or("-".into(), rate),
        rate(r.gb_per_s),
        ui::bytes(r.bytes),
        number(r.roof_us, 2),
        number(r.roof_ratio, 2),
    ]
}

/// Whether a device is a GPU.
fn is_gpu(device: &dyn Device) -> bool {
    device.caps().target.vendor() != Vendor::Cpu
}
