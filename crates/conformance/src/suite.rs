//! Everything, for one device.

use crate::bounds::{Loss, accepted, largest};
use crate::cases::{self, Outcome, Size};
use crate::check::{Depth, Done, Failure, check, relations};
use crate::exec::Runner;
use crate::generate::{Family, Grid, bytes, grid, problem};
use arbitrary::Unstructured;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;
use warpwave_core::{DType, Op, Stage, Valid};
use warpwave_hal::Device;

/// How much.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Seconds on one core.
    Quick,
    /// Minutes on two cores.
    Ci,
    /// The whole grid and every case: for GPUs, and on request.
    Full,
}

impl std::str::FromStr for Set {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "quick" => Ok(Set::Quick),
            "ci" => Ok(Set::Ci),
            "full" => Ok(Set::Full),
            _ => Err(format!("`{s}` is none of quick, ci, full")),
        }
    }
}

/// What to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How much.
    pub set: Set,
    /// Seed of random problems and data.
    pub seed: u64,
    /// Only these ops; empty: all.
    pub ops: Vec<String>,
    /// Leave out cases that need gigabytes.
    pub skip_big: bool,
}

impl Options {
    /// A set under the standard seed.
    pub fn new(set: Set) -> Self {
        Options { set, seed: 1, ops: Vec::new(), skip_big: false }
    }
}

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "plain")]
pub enum Status {
    Passed,
    Failed,
    Unsupported,
    Skipped,
}

/// One named check.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// `<op>.<check>`, or `case.<id>`.
    pub name: String,
    /// How it went.
    pub status: Status,
    /// Problems that were tried.
    pub problems: u64,
    /// Problems that are wrong.
    pub failures: u64,
    /// Runs of plans.
    pub runs: u64,
    /// Plans left out because the build lacks their kernels.
    pub not_built: u64,
    /// Wall time.
    pub seconds: f64,
    /// The first failures, or why it was skipped.
    pub messages: Vec<String>,
}

/// All checks of a device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// The maker's name for it.
    pub model: String,
    /// Target of its kernels.
    pub target: String,
    /// How much was asked for.
    pub set: Set,
    /// Seed of problems and data.
    pub seed: u64,
    /// In the order of running.
    pub checks: Vec<Check>,
}

impl Report {
    /// Checks of a status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|c| c.status == status).count()
    }

    /// Whether nothing failed.
    pub fn ok(&self) -> bool {
        self.count(Status::Failed) == 0
    }

    /// As JSON.
    ///
    /// # Errors
    /// None in practice.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.checks.iter().filter(|c| c.status == Status::Failed) {
            writeln!(f, "{}: {} of {} problems failed", c.name, c.failures, c.problems)?;
            c.messages.iter().try_for_each(|m| writeln!(f, "  {m}"))?;
        }
        let (passed, failed) = (self.count(Status::Passed), self.count(Status::Failed));
        write!(f, "{passed} passed, {failed} failed, {} unsupported", self.count(Status::Unsupported))?;
        match self.count(Status::Skipped) {
            0 => Ok(()),
            n => write!(f, ", {n} skipped"),
        }
    }
}

/// Failures that a report quotes for each check.
const QUOTED: usize = 5;

struct Suite<'a> {
    report: Report,
    progress: &'a mut dyn FnMut(&Check),
}

/// A piece of a check: what it did, or what is wrong.
type Piece = Result<Done, String>;

impl Suite<'_> {
    fn push(&mut self, check: Check) {
        (self.progress)(&check);
        self.report.checks.push(check);
    }

    fn over<T>(&mut self, name: String, problems: impl IntoIterator<Item = T>, mut each: impl FnMut(usize, T) -> Piece) {
        let start = Instant::now();
        let mut c = Check { name, status: Status::Passed, problems: 0, failures: 0, runs: 0, not_built: 0, seconds: 0.0, messages: Vec::new() };
        for (i, p) in problems.into_iter().enumerate() {
            c.problems += 1;
            match each(i, p) {
                Ok(done) => {
                    c.runs += done.runs;
                    c.not_built += done.not_built;
                }
                Err(what) => {
                    c.status = Status::Failed;
                    c.failures += 1;
                    if c.messages.len() < QUOTED {
                        c.messages.push(what);
                    }
                }
            }
        }
        c.seconds = start.elapsed().as_secs_f64();
        self.push(c);
    }
}

fn text(f: Box<Failure>) -> String {
    f.to_string()
}

/// Random problems of an op: `count` valid ones, each from its own seed.
pub fn random(op: &dyn Op, seed: u64, count: u64, most: u64) -> Vec<(u64, Valid)> {
    (0..count)
        .filter_map(|i| {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(i);
            let bytes = bytes(seed, 512);
            problem(op, &mut Unstructured::new(&bytes), most).ok().flatten().map(|p| (seed, p))
        })
        .collect()
}

fn has_indices(op: &dyn Op, p: &Valid) -> bool {
    (0..p.operands.len()).any(|o| p.operands[o].is_some() && op.indices(p, o).is_some())
}

/// Runs the suite on a device; `progress` is called after each check.
pub fn suite(device: &dyn Device, options: &Options, progress: &mut dyn FnMut(&Check)) -> Report {
    let runner = Runner::new(device);
    let target = device.caps().target;
    let report =
        Report { device: device.name(), model: device.model(), target: target.to_string(), set: options.set, seed: options.seed, checks: Vec::new() };
    let mut suite = Suite { report, progress };
    let wanted = |op: &str| options.ops.is_empty() || options.ops.iter().any(|o| o == op);
    let (size, randoms, most, related) = match options.set {
        Set::Quick => (Grid { most: 1 << 13, full: false }, 60, 1 << 12, 12),
        Set::Ci => (Grid { most: 1 << 21, full: false }, 600, 1 << 15, 100),
        Set::Full => (Grid { most: 1 << 22, full: true }, 3000, 1 << 18, 400),
    };
    for &op in warpwave_kernels::ops() {
        let name = op.signature().op;
        if op.stage() != Stage::Stable || !wanted(name) {
            continue;
        }
        if options.set >= Set::Ci {
            for loss in [Loss::Nothing, Loss::LastElement, Loss::LastTile, Loss::Lane] {
                suite.over(format!("{name}.bound.{loss:?}").to_lowercase(), [DType::F32, DType::F16, DType::BF16], |_, dtype| {
                    match accepted(op, dtype, loss) {
                        Ok(Some(ok)) if ok != (loss == Loss::Nothing) => Err(format!("{name} {dtype} without {loss:?}: accepted is {ok}")),
                        Ok(_) => Ok(Done::default()),
                        Err(e) => Err(e.to_string()),
                    }
                });
            }
        }
        // every eighth problem with everything, the others on all plans; data families one after the other
        const FAMILIES: [Family; 4] = [Family::Exact, Family::Spikes, Family::Uniform, Family::Exact];
        suite.over(format!("{name}.grid"), grid(op, target, size), |i, p| {
            let depth = Depth { plans: true, again: i % 8 == 0 };
            check(runner, op, &p, FAMILIES[i % 4], options.seed + i as u64, depth).map_err(text)
        });
        for (f, family) in Family::ALL.into_iter().enumerate() {
            let problems = random(op, options.seed + 100 * f as u64, randoms / Family::ALL.len() as u64, most);
            // only where there are indices
            if family == Family::Hostile && !problems.iter().any(|(_, p)| has_indices(op, p)) {
                continue;
            }
            suite.over(format!("{name}.random.{family}"), problems, |_, (seed, p)| check(runner, op, &p, family, seed, Depth::ALL).map_err(text));
        }
        let problems = random(op, options.seed + 7777, related, most);
        suite.over(format!("{name}.relations"), problems, |_, (seed, p)| relations(runner, op, &p, seed).map_err(text));
        if options.set >= Set::Ci {
            let problems = DType::ALL.into_iter().filter_map(|d| largest(op, d).ok().flatten());
            suite.over(format!("{name}.largest"), problems, |_, p| check(runner, op, &p, Family::Spikes, options.seed, Depth::ALL).map_err(text));
        }
    }
    let largest = match options.set {
        Set::Quick => Size::Small,
        Set::Full if !options.skip_big => Size::Big,
        _ => Size::Medium,
    };
    for file in [cases::TEXTBOOK, cases::FIELD] {
        let all = match cases::parse(file) {
            Ok(all) => all,
            Err(e) => {
                suite.over("cases".into(), [e], |_, e| Err(e.to_string()));
                continue;
            }
        };
        let chosen: Vec<cases::Case> = all.into_iter().filter(|c| wanted(&c.op)).collect();
        cases::run_all(device, &chosen, &cases::Options { largest }, &mut |r| {
            let (status, messages) = match &r.outcome {
                Outcome::Passed => (Status::Passed, Vec::new()),
                Outcome::Failed(what) => (Status::Failed, vec![what.clone()]),
                Outcome::Unsupported => (Status::Unsupported, vec![format!("no {}", r.op)]),
                Outcome::Skipped(why) => (Status::Skipped, vec![why.clone()]),
            };
            let failures = u64::from(status == Status::Failed);
            suite.push(Check { name: format!("case.{}", r.id), status, problems: 1, failures, runs: 0, not_built: 0, seconds: r.seconds, messages });
        });
    }
    suite.report
}
