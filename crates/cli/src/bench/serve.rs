//! One window at a time, on demand: a benchmark of several programs lets each run in turn.
//!
//! Commands, one a line; each is answered by one JSON object:
//! - a problem string: makes it ready, answers plan, tags of all plans, bytes and operations
//! - `plan TAG`: another plan of that problem
//! - `go [MS]`: one window, answers microseconds of a run
//! - `roof [MS]`: one window of the roof of the same bytes
//! - `free`: gives the problem's memory back
//! - `quit`

use super::about;
use super::is_gpu;
use super::measure::{Memory, Meter, Timed};
use super::roof;
use crate::Outcome;
use crate::machine::{self, Asked};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::Duration;
use warpwave::{Device, Plan};

const HELP: &str = "PROBLEM | plan TAG | go [MS] | roof [MS] | free | quit";

struct Ready {
    asked: Asked,
    memory: Memory,
    plans: Vec<Plan>,
    timed: Timed,
    roof: Option<roof::Best>,
}

pub(crate) fn run(device: &dyn Device, input: impl BufRead) -> Result<Outcome> {
    let mut meter = Meter::new(device)?;
    let mut ready: Option<Ready> = None;
    say(&json!({
        "device": device.name(), "model": device.model(), "target": device.caps().target,
        "driver": about::driver(&device.name()), "gpu": is_gpu(device), "date": about::date(),
    }))?;
    for line in input.lines() {
        let line = line?;
        let line = line.trim();
        if line == "quit" {
            break;
        }
        if !line.is_empty() {
            say(&answer(&mut meter, &mut ready, line).unwrap_or_else(|e| json!({ "error": format!("{e:#}") })))?;
        }
    }
    Ok(Outcome::Passed)
}

fn say(value: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

fn answer(meter: &mut Meter<'_>, ready: &mut Option<Ready>, line: &str) -> Result<Value> {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(w, r)| (w, r.trim()));
    let window = || -> Result<Duration> {
        let ms = if rest.is_empty() { Ok(500) } else { rest.parse() };
        Ok(Duration::from_millis(ms.map_err(|_| anyhow!("`{rest}` is no number of milliseconds"))?))
    };
    match word {
        "help" => Ok(json!({ "commands": HELP })),
        "free" => {
            *ready = None;
            Ok(json!({ "free": true }))
        }
        "plan" => {
            let r = ready.as_mut().context("no problem yet")?;
            let plan = r.plans.iter().find(|p| p.tag == rest).with_context(|| format!("no plan `{rest}`"))?;
            r.timed = meter.prepare(r.asked.op, &r.asked.problem, plan, &r.memory)?;
            Ok(json!({ "ready": r.asked.problem.to_string(), "plan": rest, "estimate_us": r.timed.estimate, "method": r.timed.method(meter) }))
        }
        "go" => {
            let r = ready.as_mut().context("no problem yet")?;
            let (us, runs) = meter.window(&mut r.timed, window()?)?;
            r.timed.estimate = us.max(0.05);
            let (clock, power) = about::clock_and_power(&meter.device.name()).unzip();
            Ok(json!({ "us": us, "runs": runs, "clock_mhz": clock, "power_w": power }))
        }
        "roof" => {
            let window = window()?;
            let r = ready.as_mut().context("no problem yet")?;
            let (read, written) = roof::traffic(&r.asked.problem);
            if r.roof.is_none() {
                r.roof = Some(roof::best(meter, read, written, Duration::from_millis(20))?);
            }
            let best = r.roof.as_mut().context("no roof")?;
            let (us, runs) = meter.window(&mut best.timed, window)?;
            Ok(json!({ "us": us, "runs": runs, "plan": best.plan.tag, "problem": best.problem.to_string() }))
        }
        _ => {
            // the memory of the problem before goes first
            *ready = None;
            let asked = machine::problem(line)?;
            let plans = machine::plans(asked.op, &asked.problem, meter.device.caps(), None)?;
            let memory = meter.memory(asked.op, &asked.problem)?;
            let timed = meter.prepare(asked.op, &asked.problem, &plans[0], &memory)?;
            let (read, written) = roof::traffic(&asked.problem);
            let tags: Vec<&str> = plans.iter().map(|p| p.tag.as_str()).collect();
            let reply = json!({
                "ready": asked.problem.to_string(), "plan": plans[0].tag, "plans": tags, "bytes": read + written,
                "flops": asked.op.flops(&asked.problem), "estimate_us": timed.estimate, "method": timed.method(meter),
            });
            *ready = Some(Ready { asked, memory, plans, timed, roof: None });
            Ok(reply)
        }
    }
}
