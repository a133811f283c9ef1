use crate::Outcome;
use crate::machine::{self, Machine};
use crate::ui::{self, out, outln};
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use std::sync::Arc;
use warpwave::Device;
use warpwave_conformance::cases::{self, Size};
use warpwave_conformance::suite::{self, Check, Report, Set, Status};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Device: cpu, cpu:64, cuda:0; `cuda` and `hip` mean all of theirs. May be repeated; all devices by default
    #[arg(long, short)]
    device: Vec<String>,
    /// Only this op; may be repeated
    #[arg(long)]
    op: Vec<String>,
    /// How much: seconds, minutes, or everything
    #[arg(long, value_enum, default_value = "quick")]
    set: SetArg,
    /// Only the recorded cases of this file; `textbook` and `field` are part of the program
    #[arg(long, value_name = "FILE")]
    cases: Option<String>,
    /// Seed of problems and data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out cases that need gigabytes
    #[arg(long)]
    skip_big: bool,
    /// Print JSON: a list of one report for each device
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SetArg {
    Quick,
    Ci,
    Full,
}

impl From<SetArg> for Set {
    fn from(set: SetArg) -> Set {
        match set {
            SetArg::Quick => Set::Quick,
            SetArg::Ci => Set::Ci,
            SetArg::Full => Set::Full,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    for op in &args.op {
        machine::op(op)?;
    }
    let machine = Machine::find();
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    if args.device.is_empty() {
        devices.clone_from(&machine.devices);
    }
    for name in &args.device {
        devices.extend(machine.all(name)?);
    }
    let mut reports = Vec::new();
    for device in devices {
        if !args.json {
            outln!("{}", ui::head(format!("{}: {}, {}", device.name(), device.model(), device.caps().target)));
        }
        let report = match &args.cases {
            Some(file) => recorded(args, &*device, file)?,
            None => everything(args, &*device),
        };
        if !args.json {
            print(&report);
        }
        reports.push(report);
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&reports)?);
    } else {
        let count = |s: Status| reports.iter().map(|r| r.count(s)).sum::<usize>();
        let (passed, failed) = (count(Status::Passed), count(Status::Failed));
        let text = format!("{passed} passed, {failed} failed");
        outln!("{}", if failed == 0 { ui::good(text) } else { ui::bad(text) });
    }
    Ok(if reports.iter().all(Report::ok) { Outcome::Passed } else { Outcome::Failed })
}

fn everything(args: &Args, device: &dyn Device) -> Report {
    let options = suite::Options { seed: args.seed, ops: args.op.clone(), skip_big: args.skip_big, ..suite::Options::new(args.set.into()) };
    let bar = ui::progress(0);
    let report = suite::suite(device, &options, &mut |c: &Check| {
        bar.set_message(c.name.clone());
        bar.inc_length(1);
        bar.inc(1);
    });
    bar.finish_and_clear();
    report
}

/// The cases of a file, by path or by the name of one that is part of the program.
fn load(file: &str) -> Result<Vec<cases::Case>> {
    let text = match file {
        "textbook" => cases::TEXTBOOK.to_owned(),
        "field" => cases::FIELD.to_owned(),
        path => std::fs::read_to_string(path).with_context(|| path.to_owned())?,
    };
    cases::parse(&text).map_err(|e| anyhow!("{file}: {e}"))
}

fn status(outcome: &cases::Outcome, op: &str) -> (Status, Vec<String>) {
    match outcome {
        cases::Outcome::Passed => (Status::Passed, Vec::new()),
        cases::Outcome::Failed(what) => (Status::Failed, vec![what.clone()]),
        cases::Outcome::Unsupported => (Status::Unsupported, vec![format!("no {op}")]),
        cases::Outcome::Skipped(why) => (Status::Skipped, vec![why.clone()]),
    }
}

fn recorded(args: &Args, device: &dyn Device, file: &str) -> Result<Report> {
    let chosen: Vec<cases::Case> = load(file)?.into_iter().filter(|c| args.op.is_empty() || args.op.contains(&c.op)).collect();
    let largest = match args.set {
        SetArg::Quick => Size::Small,
        SetArg::Full if !args.skip_big => Size::Big,
        _ => Size::Medium,
    };
    let bar = ui::progress(chosen.len() as u64);
    let mut checks = Vec::new();
    cases::run_all(device, &chosen, &cases::Options { largest }, &mut |r| {
        bar.set_message(r.id.clone());
        bar.inc(1);
        let (status, messages) = status(&r.outcome, &r.op);
        let failures = u64::from(status == Status::Failed);
        checks.push(Check { name: format!("case.{}", r.id), status, problems: 1, failures, runs: 0, not_built: 0, seconds: r.seconds, messages });
    });
    bar.finish_and_clear();
    let (name, target) = (device.name(), device.caps().target.to_string());
    Ok(Report { device: name, model: device.model(), target, set: args.set.into(), seed: args.seed, checks })
}

/// Failures with their messages, then one line for each group of checks.
fn print(report: &Report) {
    for c in report.checks.iter().filter(|c| c.status == Status::Failed) {
        outln!("{}: {} of {} problems failed", ui::bad(&c.name), c.failures, c.problems);
        c.messages.iter().for_each(|m| outln!("  {m}"));
    }
    let mut rows = vec![["checks", "passed", "failed", "unsupported", "skipped", "runs", "not built"].map(str::to_owned).to_vec()];
    let mut groups: Vec<&str> = Vec::new();
    for c in &report.checks {
        let group = c.name.split('.').next().unwrap_or(&c.name);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        let of: Vec<&Check> = report.checks.iter().filter(|c| c.name.split('.').next() == Some(group)).collect();
        let count = |s: Status| of.iter().filter(|c| c.status == s).count().to_string();
        let mut row = vec![group.to_owned()];
        row.extend([Status::Passed, Status::Failed, Status::Unsupported, Status::Skipped].map(count));
        row.push(of.iter().map(|c| c.runs).sum::<u64>().to_string());
        row.push(of.iter().map(|c| c.not_built).sum::<u64>().to_string());
        rows.push(row);
    }
    let mut sides = vec![ui::Side::Left];
    sides.resize(7, ui::Side::Right);
    out!("{}", ui::table(&rows, &sides));
}

/// One recorded case, for `run --cases`.
pub(crate) fn one_case(device: &dyn Device, file: &str, id: &str) -> Result<Outcome> {
    let mut all = load(file)?;
    let ids: Vec<String> = all.iter().map(|c| c.id.clone()).collect();
    all.retain(|c| c.id == id);
    if all.is_empty() {
        let near: Vec<&str> = ids.iter().filter(|i| i.contains(id)).take(5).map(String::as_str).collect();
        let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
        bail!("{file} has no case `{id}` among its {}{near}", ids.len());
    }
    let mut outcome = Outcome::Passed;
    cases::run_all(device, &all, &cases::Options { largest: Size::Big }, &mut |r| {
        let (status, messages) = status(&r.outcome, &r.op);
        let word = match status {
            Status::Passed => ui::good("passed"),
            Status::Failed => ui::bad("failed"),
            Status::Unsupported => "unsupported".into(),
            Status::Skipped => "skipped".into(),
        };
        outln!("{} on {}: {word} in {:.1} s", r.id, device.name(), r.seconds);
        messages.iter().for_each(|m| outln!("  {m}"));
        if status == Status::Failed {
            outcome = Outcome::Failed;
        }
    });
    Ok(outcome)
}
