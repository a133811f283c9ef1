//! Runs a case and applies its rules.

use super::formula::Axes;
use super::schema::{Replaces, number, outputs, replaces};
use super::{Case, CaseReport, Formula, Rule, Summary};
use crate::check::{Depth, check};
use crate::exec;
use crate::exec::{Fault, Image, Output, Runner, Session, buffer_bytes, distinct};
use crate::generate::Family;
use crate::oracle::{Reference, Tolerance, agree, equal};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;
use toml::Value;
use warpwave_core::{AttrKind, AttrValue, DType, Op, Plan, Problem, Role, Source, Stage, TensorDesc, Valid, validate};
use warpwave_hal::{Device, DeviceError};

/// The largest cases that run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "as in the files")]
pub enum Size {
    Small,
    Medium,
    Big,
}

/// How cases are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Larger cases are skipped.
    pub largest: Size,
}

impl Default for Options {
    fn default() -> Self {
        Options { largest: Size::Big }
    }
}

/// What came of a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "result", content = "why")]
pub enum Outcome {
    /// Every rule holds, on every plan.
    Passed,
    /// A rule that does not hold.
    Failed(String),
    /// The build has no such op, or has it only as an experiment.
    Unsupported,
    /// Not run.
    Skipped(String),
}

enum Stop {
    Failed(String),
    Skipped(String),
}

impl From<String> for Stop {
    fn from(s: String) -> Self {
        Stop::Failed(s)
    }
}

/// One run of a case: its values with those of `vary` or `with` put in.
#[derive(Clone)]
struct Run {
    dtype: String,
    params: BTreeMap<String, u64>,
    flags: toml::Table,
    inputs: BTreeMap<String, Formula>,
    /// `q`: the output that rules call `out_q`.
    part: Option<&'static str>,
}

impl Run {
    /// Whether a rule means an output.
    fn means(&self, rule: &Rule, output: &str) -> bool {
        rule.text("of").is_none_or(|of| of == self.part.map_or(output.to_string(), |part| format!("{output}_{part}")))
    }

    fn replaced(&self, case: &Case, by: &toml::Table) -> Result<Run, String> {
        let mut run = self.clone();
        for (name, value) in by {
            match replaces(case, name, value).map_err(|e| format!("{name}: {e}"))? {
                Replaces::Param => {
                    run.params.insert(name.clone(), value.as_integer().unwrap_or(0) as u64);
                }
                Replaces::DType => run.dtype = value.as_str().unwrap_or_default().into(),
                Replaces::Input => {
                    run.inputs.insert(name.clone(), value.as_str().unwrap_or_default().parse()?);
                }
                Replaces::Flag if value.as_str() == Some("absent") => {
                    run.flags.remove(name);
                }
                Replaces::Flag => {
                    run.flags.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(run)
    }
}

/// Shape of an operand, and which axes index names stand for.
fn shape(op: &str, operand: &str, params: &BTreeMap<String, u64>) -> Result<Axes, String> {
    let p = |name: &str| params.get(name).copied();
    let need = |names: &[&str]| names.iter().map(|n| p(n).ok_or_else(|| format!("params: {n} is missing"))).collect::<Result<Vec<u64>, _>>();
    let known: &[&str] = match op {
        "vector_add" | "softmax" | "log_softmax" => &["n", "rows", "cols", "N", "C", "H", "W"],
        "matmul" => &["B", "M", "N", "K"],
        "rms_norm" | "rms_norm_bwd" | "add_rms_norm" | "layer_norm" => &["M", "N", "T", "Hh"],
        "relu_dropout" | "relu_dropout_bwd" | "dropout" | "dropout_bwd" | "gelu" | "gelu_bwd" => &["n"],
        "silu_mul" => &["rows", "F"],
        "rope" => &["T", "Hh", "D", "rot", "table_len"],
        _ => return Err(format!("the case runner has no shapes for {op}")),
    };
    if let Some(name) = params.keys().find(|k| !known.contains(&k.as_str())) {
        return Err(format!("params: {op} has no {name}"));
    }
    let shape = if op == "matmul" {
        let matrix: &[&str] = match operand {
            "a" => &["M", "K"],
            "b" => &["K", "N"],
            _ => &["M", "N"],
        };
        p("B").into_iter().chain(need(matrix)?).collect()
    } else if op.trim_end_matches("_bwd").ends_with("_norm") {
        match operand {
            "w" | "dw" | "gamma" | "beta" => need(&["N"])?,
            _ if p("T").is_some() => need(&["T", "Hh", "N"])?,
            _ => need(&["M", "N"])?,
        }
    } else if op == "silu_mul" {
        need(&["rows", "F"])?
    } else if op == "rope" {
        match operand {
            "pos" => need(&["T"])?,
            "cos" | "sin" => vec![need(&["table_len"])?[0], need(&["rot"])?[0] / 2],
            _ => need(&["T", "Hh", "D"])?,
        }
    } else if p("n").is_some() {
        need(&["n"])?
    } else if p("C").is_some() {
        need(&["N", "C", "H", "W"])?
    } else {
        need(&["rows", "cols"])?
    };
    let rank = shape.len();
    let batch = (op == "matmul" && rank == 3).then_some(0);
    Ok(Axes { r: row_axis(op, rank), b: batch, shape, ..Axes::default() })
}

/// What a case counts as rows: the last dimension but one; of rope the positions.
fn row_axis(op: &str, rank: usize) -> Option<usize> {
    if op == "rope" { rank.checked_sub(3) } else { rank.checked_sub(2) }
}

/// The runs that a run stands for: one for each of several tensors that an op takes in turn, with the name of the outputs that the rules mean.
fn parts(op: &str, run: Run) -> Vec<Run> {
    if op != "rope" || !run.inputs.contains_key("q") {
        return vec![run];
    }
    let part = |(name, heads): (&'static str, &str)| {
        let mut part = Run { part: Some(name), ..run.clone() };
        part.inputs = run.inputs.iter().filter(|(n, _)| *n == name || *n == "pos").map(|(n, f)| (n.replace(name, "x"), f.clone())).collect();
        part.flags = run.flags.iter().filter(|(n, _)| !["q_", "k_"].iter().any(|q| n.starts_with(q)) || n.starts_with(name)).fold(
            toml::Table::new(),
            |mut all, (n, v)| {
                all.insert(n.strip_prefix(name).filter(|rest| rest.starts_with('_')).map_or(n.clone(), |rest| format!("x{rest}")), v.clone());
                all
            },
        );
        part.params = run.params.iter().filter(|(n, _)| !n.starts_with('H') || *n == heads).map(|(n, v)| (n.replace(heads, "Hh"), *v)).collect();
        part
    };
    [("q", "Hq"), ("k", "Hkv")].map(part).into()
}

/// The operands that are views of one packed tensor of twice the width.
fn halves(op: &str, input: &str) -> Option<[&'static str; 2]> {
    (op == "silu_mul" && input == "gate_up").then_some(["gate", "up"])
}

/// Cosines (`turn` 0) or sines (1) of `rows` positions, as a caller of rope gives them: every angle in float64.
fn rope_table(p: &Problem, rot: u64, turn: u64) -> impl Fn(u64) -> f64 + Sync + use<> {
    let (base, half) = (p.float("base"), (rot / 2).max(1));
    move |i| {
        let angle = (i / half) as f64 * base.powf(-((i % half) as f64) / half as f64);
        if turn == 0 { angle.cos() } else { angle.sin() }
    }
}

/// A run made ready: problem, data, options.
struct Ready {
    problem: Problem,
    images: Vec<Option<Image>>,
    options: exec::Options,
}

/// Flags that the runner handles for every op; all others are attributes of the op.
const COMMON: [&str; 4] = ["alias", "gap_value", "out_prefill", "sample"];

fn ready(op: &dyn Op, run: &Run, guard: u64) -> Result<Ready, String> {
    let signature = op.signature();
    let mut options = exec::Options { guard, ..exec::Options::default() };
    let mut problem = Problem::new(signature);
    for (name, value) in &run.flags {
        if let Some(operand) = name.strip_suffix("_strides").or_else(|| name.strip_suffix("_offset")).or_else(|| name.strip_suffix("_dtype")) {
            if problem.index(operand).is_none() {
                return Err(format!("flags.{name}: {} has no operand {operand}", signature.op));
            }
            continue;
        }
        match name.as_str() {
            "alias" => options.alias = problem.index(value.as_str().unwrap_or_default()).and_then(|i| Some((problem.outputs().next()?, i))),
            "gap_value" => options.gap_value = number(value).unwrap_or(f64::NAN),
            "out_prefill" => options.prefill = number(value),
            "sample" => options.ranges = Some(ranges(value)),
            _ => {
                let spec = signature.attrs.iter().find(|a| a.name == name).ok_or_else(|| format!("flags.{name}: {} lacks it", signature.op))?;
                let attr = match spec.kind {
                    AttrKind::Int { .. } => value.as_integer().map(AttrValue::Int),
                    AttrKind::Float { .. } => number(value).map(AttrValue::Float),
                    AttrKind::Bool { .. } => value.as_bool().map(AttrValue::Bool),
                    kind @ AttrKind::Choice { .. } => value.as_str().and_then(|s| kind.parse(s)),
                };
                problem = problem.with_attr(name, attr.ok_or_else(|| format!("flags.{name}: {value} does not fit the attribute"))?);
            }
        }
    }
    if let Some(&rot) = run.params.get("rot").filter(|_| signature.op == "rope") {
        problem = problem.with_attr("rot", AttrValue::Int(rot as i64));
    }
    debug_assert!(COMMON.iter().all(|c| signature.attrs.iter().all(|a| a.name != *c)));
    for name in run.inputs.keys().filter(|name| halves(signature.op, name).is_none()) {
        if problem.index(name).is_none_or(|i| signature.operands[i].role == Role::Output) {
            return Err(format!("inputs.{name}: {} has no such input", signature.op));
        }
    }
    let mut images = Vec::new();
    for spec in signature.operands {
        let output = spec.role == Role::Output;
        let packed = run.inputs.iter().find_map(|(name, f)| Some((f, halves(signature.op, name)?.iter().position(|h| *h == spec.name)? as u64)));
        if let Some(turn) = ["cos", "sin"].iter().position(|n| *n == spec.name)
            && signature.op == "rope"
            && run.params.contains_key("table_len")
        {
            let desc = TensorDesc::contiguous(DType::F32, &shape(signature.op, spec.name, &run.params)?.shape);
            images.push(Some(Image::filled(&desc, &options, &rope_table(&problem, 2 * desc.shape[1], turn as u64))));
            problem = problem.with(spec.name, desc);
            continue;
        }
        let Some(formula) = run.inputs.get(spec.name).or(packed.map(|p| p.0)).map(Some).or(output.then_some(None)) else {
            if spec.role == Role::Input {
                return Err(format!("inputs.{} is missing", spec.name));
            }
            images.push(None);
            continue;
        };
        let axes = shape(signature.op, spec.name, &run.params)?;
        let flag = |property: &str| run.flags.get(&format!("{}_{property}", spec.name));
        let usual = if spec.name == "pos" { "i64" } else { &run.dtype };
        let dtype: DType = flag("dtype").and_then(Value::as_str).unwrap_or(usual).parse().map_err(|e| format!("{}: {e}", spec.name))?;
        let mut desc = TensorDesc::contiguous(dtype, &axes.shape);
        if let Some(strides) = flag("strides").and_then(Value::as_array) {
            desc.strides = strides.iter().filter_map(Value::as_integer).collect();
            if desc.strides.len() != desc.shape.len() {
                return Err(format!("flags.{}_strides: {} strides for {:?}", spec.name, strides.len(), desc.shape));
            }
        }
        desc.offset = flag("offset").and_then(Value::as_integer).unwrap_or(0) as u64;
        if let Some((f, half)) = packed {
            // a view of the packed tensor, whose formula runs over both halves
            let (n, row) = (axes.shape[axes.shape.len() - 1], axes.shape.len() - 1);
            let mut whole = axes.clone();
            whole.shape[row] *= 2;
            let f = f.over(&whole).map_err(|e| format!("inputs: {e}"))?;
            desc.strides = TensorDesc::contiguous(dtype, &whole.shape).strides;
            desc.offset += half * n;
            images.push(Some(Image::filled(&desc, &options, &|i| f(i / n.max(1) * 2 * n + half * n + i % n.max(1)))));
            problem = problem.with(spec.name, desc);
            continue;
        }
        images.push(match formula {
            None => None,
            Some(f) => {
                let cut = Axes { shape: distinct(&desc).shape, ..axes };
                let f = f.over(&cut).map_err(|e| format!("inputs.{}: {e}", spec.name))?;
                Some(Image::filled(&desc, &options, &f))
            }
        });
        problem = problem.with(spec.name, desc);
    }
    Ok(Ready { problem, images, options })
}

fn ranges(v: &Value) -> Vec<Range<u64>> {
    let at = |v: &Value, i: usize| v.get(i).and_then(Value::as_integer).unwrap_or(0) as u64;
    v.as_array().map_or(Vec::new(), |a| a.iter().map(|r| at(r, 0)..at(r, 1)).collect())
}

impl Rule {
    fn get(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }
    fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(number)
    }
    fn ints(&self, key: &str) -> Option<Vec<u64>> {
        Some(self.get(key)?.as_array()?.iter().filter_map(Value::as_integer).map(|x| x as u64).collect())
    }
    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
    fn applies(&self, run: usize) -> bool {
        self.ints("only").is_none_or(|all| all.contains(&(run as u64)))
    }

    /// Picks the elements that rows and cols name.
    fn selects(&self, shape: &[u64], row: Option<usize>) -> impl Fn(u64) -> bool + Sync + use<> {
        let (rows, cols) = (self.ints("rows"), self.ints("cols"));
        let n = shape.last().copied().unwrap_or(1).max(1);
        let (below, m) = row.map_or((n, 1), |a| (shape[a + 1..].iter().product::<u64>().max(1), shape[a].max(1)));
        move |i| {
            let (r, c) = (i / below % m, i % n);
            rows.as_ref().is_none_or(|all| all.contains(&r)) && cols.as_ref().is_none_or(|p| p.len() == 2 && (p[0]..=p[1]).contains(&c))
        }
    }

    /// Row-major numbers of the places in `at`.
    fn places(&self, shape: &[u64]) -> Result<Vec<u64>, String> {
        let Some(all) = self.get("at").and_then(Value::as_array) else { return Ok(Vec::new()) };
        all.iter()
            .map(|v| {
                let index: Vec<u64> = match v {
                    Value::Array(a) => a.iter().filter_map(Value::as_integer).map(|x| x as u64).collect(),
                    _ => return Ok(v.as_integer().unwrap_or(0) as u64),
                };
                if index.len() != shape.len() || index.iter().zip(shape).any(|(i, n)| i >= n) {
                    return Err(format!("{}: place {index:?} of {shape:?}", self.check));
                }
                Ok(index.iter().zip(shape).fold(0, |flat, (i, n)| flat * n + i))
            })
            .collect()
    }

    /// Whether `got` is `want` under the rule's tolerance.
    fn near(&self, dtype: DType, got: f64, want: f64) -> bool {
        let (abs, rel) = (self.number("abs"), self.number("rel"));
        if abs.is_none() && rel.is_none() {
            return equal(got, dtype.round(want));
        }
        equal(got, want) || (got - want).abs() <= abs.unwrap_or(0.0) + rel.unwrap_or(0.0) * want.abs()
    }

    /// Applies a rule that looks at one output.
    fn judge(&self, op: &str, name: &str, out: &Output, reference: &Reference<'_>) -> Result<(), String> {
        let check = &self.check;
        let selects = self.selects(&out.shape, row_axis(op, out.shape.len()));
        let at_fault = |i: u64, got: f64, want: f64| Err(format!("{check} of {name}: element {i}: got {got:e}, expected {want:e}"));
        match check.as_str() {
            "reference" | "bits" => {
                let tolerance = if check == "bits" {
                    Tolerance::Bits
                } else if self.number("abs").is_some() || self.number("rel").is_some() {
                    Tolerance::Stated { abs: self.number("abs").unwrap_or(0.0), rel: self.number("rel").unwrap_or(0.0) }
                } else {
                    Tolerance::Bound
                };
                match reference.check(out, tolerance, &selects) {
                    Some(m) => Err(format!("{check} of {name}: {m}")),
                    None => Ok(()),
                }
            }
            "values" => {
                let equals: Vec<f64> = self.get("equals").and_then(Value::as_array).map_or(Vec::new(), |a| a.iter().filter_map(number).collect());
                for (i, want) in self.places(&out.shape)?.into_iter().zip(equals) {
                    let got = out.get(i).ok_or_else(|| format!("values of {name}: element {i} lies outside the sample"))?;
                    if !self.near(out.dtype, got, want) {
                        return at_fault(i, got, want);
                    }
                }
                Ok(())
            }
            "all_equal" => {
                let (value, except) = (self.number("value").unwrap_or(f64::NAN), self.number("except"));
                match out.iter().find(|&(i, got)| selects(i) && except.is_none_or(|e| !equal(e, got)) && !self.near(out.dtype, got, value)) {
                    Some((i, got)) => at_fault(i, got, value),
                    None => Ok(()),
                }
            }
            "finite" => {
                let (lo, hi) = (self.number("lo").unwrap_or(f64::MIN), self.number("hi").unwrap_or(f64::MAX));
                match out.iter().find(|&(i, got)| selects(i) && !(got.is_finite() && (lo..=hi).contains(&got))) {
                    Some((i, got)) => Err(format!("finite of {name}: element {i}: got {got:e}, expected {lo:e} to {hi:e}")),
                    None => Ok(()),
                }
            }
            "nan_at" => {
                let places = self.places(&out.shape)?;
                let expected = |i: u64| if self.table.contains_key("at") { places.contains(&i) } else { selects(i) };
                match out.iter().find(|&(i, got)| got.is_nan() != expected(i)) {
                    Some((i, got)) => Err(format!("nan_at of {name}: element {i} is {got:e}")),
                    None => Ok(()),
                }
            }
            "rate" => self.rate(name, out),
            _ => Ok(()),
        }
    }

    /// The share of a token in a row of draws, or of non-zero elements.
    fn rate(&self, name: &str, out: &Output) -> Result<(), String> {
        let (p, n) = (self.number("p").unwrap_or(0.0), self.number("n").unwrap_or(1.0));
        let tokens = match (self.number("token"), self.ints("tokens")) {
            (Some(t), _) => Some((t, t)),
            (_, Some(t)) if t.len() == 2 => Some((t[0] as f64, t[1] as f64)),
            _ => None,
        };
        let row = self.number("row").unwrap_or(0.0) as u64;
        let width = if out.shape.len() > 1 { out.shape[out.shape.len() - 1].max(1) } else { 1 };
        let of_row = |i: u64| tokens.is_none() || width == 1 || i / width == row;
        let mut seen = 0.0;
        let mut hits = 0.0;
        for (_, got) in out.iter().filter(|&(i, _)| of_row(i)) {
            seen += 1.0;
            hits += f64::from(u8::from(tokens.map_or(got != 0.0, |(a, b)| (a..=b).contains(&got))));
        }
        if seen != n {
            return Err(format!("rate of {name}: {seen} draws, expected {n}"));
        }
        let reach = self.number("sigma").unwrap_or(5.0) * (p * (1.0 - p) / n).sqrt();
        if (hits / n - p).abs() <= reach { Ok(()) } else { Err(format!("rate of {name}: {}, expected {p} within {reach:.2e}", hits / n)) }
    }
}

/// Names a rule of the library as case files do.
fn snake(rule: warpwave_core::Rule) -> String {
    let mut out = String::new();
    for c in format!("{rule:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn session<'a>(runner: Runner<'a>, op: &'a dyn Op, problem: &'a Valid, ready: &Ready) -> Result<Session<'a>, Stop> {
    match runner.session(op, problem, ready.images.clone(), ready.options.clone()) {
        Ok(s) => Ok(s),
        Err(Fault::Device(e @ DeviceError::OutOfMemory { .. })) => Err(Stop::Skipped(e.to_string())),
        Err(e) => Err(Stop::Failed(e.to_string())),
    }
}

fn sources(ready: &Ready) -> Vec<Source<'_>> {
    ready.images.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect()
}

/// Whether the input that a rule names holds an index out of range.
fn holds_hostile(op: &dyn Op, p: &Problem, made: &Ready, rule: &Rule) -> bool {
    let of = |name: &str| {
        let o = p.index(name)?;
        let (indices, image) = (op.indices(p, o)?, made.images[o].as_ref()?);
        Some(image.dense().into_iter().any(|x| indices.is_hostile(x)))
    };
    rule.text("operand").and_then(of) == Some(true)
}

fn run_one(runner: Runner<'_>, op: &dyn Op, case: &Case, run: &Run, number_of_run: usize, big: bool) -> Result<(), Stop> {
    let rules: Vec<&Rule> = case.rules.iter().filter(|r| r.applies(number_of_run)).collect();
    let deferred = |r: &&Rule| r.check == "error" && r.get("deferred").and_then(Value::as_bool) == Some(true);
    let guard = rules.iter().filter_map(|r| r.number("guard")).fold(exec::GUARD as f64, f64::max) as u64;
    let made = ready(op, run, guard)?;
    let problem = validate(op, made.problem.clone());
    if let Some(rule) = rules.iter().find(|r| r.check == "error" && !deferred(r)) {
        let (operand, name) = (rule.text("operand").unwrap_or_default(), rule.text("rule").unwrap_or_default());
        return match problem {
            Ok(_) => Err(Stop::Failed(format!("accepted, expected an error of {operand}: {name}"))),
            Err(e) if e.operand == operand && snake(e.rule) == name => Ok(()),
            Err(e) => Err(Stop::Failed(format!("got the error `{e}`, expected one of {operand}: {name}"))),
        };
    }
    let problem = problem.map_err(|e| e.to_string())?;
    let need: u64 = problem.operands.iter().flatten().map(|d| buffer_bytes(d, &made.options)).sum();
    let memory = runner.device().caps().memory;
    if need > memory / 8 * 7 {
        return Err(Stop::Skipped(format!("needs {need} bytes of {memory} bytes of device memory")));
    }
    let plans = op.plans(&problem, runner.device().caps()).map_err(|e| e.to_string())?;
    let session = session(runner, op, &problem, &made)?;
    let references: Vec<Reference<'_>> = problem
        .outputs()
        .map(|o| {
            let all = std::iter::once(0..problem.operands[o].as_ref().map_or(0, TensorDesc::len)).collect();
            Reference::new(op, &problem, sources(&made), o, made.options.ranges.clone().unwrap_or(all))
        })
        .collect();
    let mut ran = 0;
    let mut missing = String::new();
    for plan in plans.iter().take(if big { 1 } else { usize::MAX }) {
        let outputs = match session.run(plan) {
            Err(Fault::Device(e @ DeviceError::KernelNotBuilt { .. })) => {
                missing = e.to_string();
                continue;
            }
            Err(Fault::Device(e @ DeviceError::OutOfMemory { .. })) => return Err(Stop::Skipped(e.to_string())),
            r => r.map_err(|e| format!("plan {}: {e}", plan.tag))?,
        };
        ran += 1;
        for rule in &rules {
            let fault = |e: String| Stop::Failed(format!("plan {}: {e}", plan.tag));
            for (out, reference) in outputs.iter().zip(&references) {
                let name = problem.signature.operands[out.operand].name;
                if run.means(rule, name) {
                    rule.judge(&case.op, name, out, reference).map_err(fault)?;
                }
            }
            match rule.check.as_str() {
                "same_as" => same_as(runner, op, case, run, rule, plan, &outputs, &references, guard).map_err(fault)?,
                // the runner has seen to it that the queue reports it
                "error" if holds_hostile(op, &problem, &made, rule) => {}
                "status" | "error" => return Err(Stop::Failed(format!("{}: {} has no error word", rule.check, case.op))),
                _ => {}
            }
        }
    }
    if ran == 0 { Err(Stop::Failed(missing)) } else { Ok(()) }
}

#[allow(clippy::too_many_arguments, reason = "what a run consists of")]
fn same_as(
    runner: Runner<'_>,
    op: &dyn Op,
    case: &Case,
    run: &Run,
    rule: &Rule,
    plan: &Plan,
    outputs: &[Output],
    references: &[Reference<'_>],
    guard: u64,
) -> Result<(), String> {
    let with = rule.get("with").and_then(Value::as_table).cloned().unwrap_or_default();
    let made = ready(op, &run.replaced(case, &with)?, guard)?;
    let problem = validate(op, made.problem.clone()).map_err(|e| e.to_string())?;
    let plans = op.plans(&problem, runner.device().caps()).map_err(|e| e.to_string())?;
    let plan = plans.iter().find(|p| p.tag == plan.tag).or(plans.first()).ok_or("no plan")?;
    let session = runner.session(op, &problem, made.images.clone(), made.options.clone()).map_err(|e| e.to_string())?;
    for _ in 1..rule.number("times").unwrap_or(2.0) as u64 {
        for ((out, first), reference) in session.run(plan).map_err(|e| e.to_string())?.iter().zip(outputs).zip(references) {
            let name = problem.signature.operands[out.operand].name;
            if rule.text("of").is_some_and(|of| of != name) {
                continue;
            }
            let selects = rule.selects(&out.shape, row_axis(&case.op, out.shape.len()));
            if rule.get("bits").and_then(Value::as_bool) == Some(false) {
                if let Some(i) = agree(out.dtype, &first.values(), &out.values(), reference.values()) {
                    return Err(format!("same_as of {name}: element {i} is farther from the first run's than the bound allows"));
                }
            } else if let Some((i, x)) =
                out.iter().find(|&(i, x)| selects(i) && first.get(i).is_none_or(|y| x.to_bits() != y.to_bits() && !equal(x, y)))
            {
                return Err(format!("same_as of {name}: element {i}: got {x:e}, before {:e}", first.get(i).unwrap_or(f64::NAN)));
            }
        }
    }
    Ok(())
}

/// The size that a case states.
fn size(case: &Case) -> Size {
    match case.size.as_bytes().first() {
        Some(b'b') => Size::Big,
        Some(b'm') => Size::Medium,
        _ => Size::Small,
    }
}

/// The device still works: a small sum.
fn probe(runner: Runner<'_>, seed: u64) -> Result<(), String> {
    let Some(op) = warpwave_kernels::op("vector_add") else { return Ok(()) };
    let mut problem = Problem::new(op.signature());
    for spec in problem.signature.operands {
        problem = problem.with(spec.name, TensorDesc::contiguous(DType::F32, &[1003]));
    }
    let problem = validate(op, problem).map_err(|e| e.to_string())?;
    check(runner, op, &problem, Family::Exact, seed, Depth { plans: false, again: false }).map(|_| ()).map_err(|e| format!("afterwards: {e}"))
}

/// Runs one case on a device.
pub fn run(device: &dyn Device, case: &Case, options: &Options) -> Outcome {
    let Some(op) = warpwave_kernels::op(&case.op).filter(|o| o.stage() == Stage::Stable) else {
        return Outcome::Unsupported;
    };
    if size(case) > options.largest {
        return Outcome::Skipped(format!("{} is larger than was asked for", case.size));
    }
    let runner = Runner::new(device);
    let first = Run { dtype: case.dtype.clone(), params: case.params.clone(), flags: case.flags.clone(), inputs: case.inputs.clone(), part: None };
    let mut outcome = Outcome::Passed;
    let unknown = case.rules.iter().filter_map(|r| r.text("of")).find(|of| !outputs(&case.op).contains(of));
    if let Some(of) = unknown {
        return Outcome::Failed(format!("no output {of}"));
    }
    for n in 0..=case.vary.len() {
        let result = if n == 0 { Ok(first.clone()) } else { first.replaced(case, &case.vary[n - 1]) };
        let all = |r: Run| parts(&case.op, r).iter().try_for_each(|r| run_one(runner, op, case, r, n, size(case) == Size::Big));
        match result.map_err(Stop::Failed).and_then(all) {
            Ok(()) => {}
            Err(Stop::Failed(what)) => {
                outcome = Outcome::Failed(if case.vary.is_empty() { what } else { format!("run {n}: {what}") });
                break;
            }
            Err(Stop::Skipped(why)) => {
                outcome = Outcome::Skipped(why);
                break;
            }
        }
    }
    match probe(runner, 1) {
        Err(e) if outcome == Outcome::Passed => Outcome::Failed(e),
        _ => outcome,
    }
}

/// Runs the cases of a file; `report` is called after each.
pub fn run_all(device: &dyn Device, cases: &[Case], options: &Options, report: &mut dyn FnMut(&CaseReport)) -> Summary {
    let mut summary = Summary::default();
    for case in cases {
        let start = Instant::now();
        let outcome = run(device, case, options);
        let one = CaseReport { id: case.id.clone(), op: case.op.clone(), outcome, seconds: start.elapsed().as_secs_f64() };
        report(&one);
        summary.cases.push(one);
    }
    summary
}
