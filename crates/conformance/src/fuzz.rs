//! What the fuzz targets do: bytes to a case, the case to a verdict, the case to text that a person reads and a plain test runs again.
//!
//! A target is a name and an input; [`run`] is all of its glue. The text of an input is
//! - `differential`: a problem string, then ` | family=spikes seed=7 device=cpu:64 schedule=late`;
//! - `plan`: a problem string, then ` | target=sm_90a units=132 shared_memory=232448 max_cluster=8`;
//! - `problem_string`: the string as JSON; `cases`: the file; `pack`: the bytes in hexadecimal.

use crate::cases;
use crate::check::{Depth, check};
use crate::exec::Runner;
use crate::generate::{Family, problem};
use arbitrary::{Result as Taken, Unstructured};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Arc, LazyLock, Once};
use warpwave_core::{AttrKind, AttrValue, Buffer, DType, DeviceCaps, Op, Plan, Problem, Stage, Step, Target, TensorDesc, Valid, Variant, validate};
use warpwave_hal::images::{MAGIC, Pack};
use warpwave_hal::{Device, DeviceError};

/// Every fuzz target.
pub const TARGETS: [&str; 5] = ["differential", "plan", "problem_string", "cases", "pack"];
/// Where the text of the input goes instead of a run, for promoting a crash.
pub const DESCRIBE: &str = "WARPWAVE_FUZZ_DESCRIBE";

/// Opens the device of a name under a schedule, both as a case names them.
pub type Open<'a> = &'a dyn Fn(&str, &str) -> Result<Box<dyn Device>, DeviceError>;

/// For targets that run nothing.
///
/// # Errors
/// Always.
pub fn no_device(_: &str, _: &str) -> Result<Box<dyn Device>, DeviceError> {
    Err(DeviceError::NoDriver { backend: "none", what: "this target has no device".into() })
}

/// One input of a fuzz target. Panics on what a regression would show; the message holds the input's text.
pub fn run(target: &str, data: &[u8], open: Open<'_>) {
    static ONE_THREAD: Once = Once::new();
    // on the calling thread: a report's stack then leads to the case, and small problems cost no wake-ups. Fails where a pool exists: no harm.
    ONE_THREAD.call_once(|| drop(rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global()));
    let Some(case) = Case::decode(target, data) else {
        return count("rejected");
    };
    if let Some(path) = std::env::var_os(DESCRIBE) {
        if let Err(e) = std::fs::write(&path, format!("{case}\n")) {
            eprintln!("{}: {e}", path.display());
        }
        return;
    }
    if let Err(what) = case.run(open) {
        panic!("{what}\n{case}");
    }
}

/// Runs the text of an input again. Lines at its head that begin with `#` are remarks.
///
/// # Errors
/// Text that is none of the target's, or what is wrong.
pub fn replay(target: &str, text: &str, open: Open<'_>) -> Result<(), Box<dyn Error>> {
    let body: String = text.lines().skip_while(|l| l.starts_with('#')).flat_map(|l| [l, "\n"]).collect();
    Case::parse(target, &body)?.run(open)
}

thread_local! {
    static COUNTS: RefCell<Counts> = RefCell::default();
}

/// How often each kind of input was seen; printed when the process ends well.
#[derive(Default)]
struct Counts(BTreeMap<&'static str, u64>);

impl Drop for Counts {
    fn drop(&mut self) {
        let total = self.0.values().sum::<u64>().max(1);
        let shares: Vec<String> = self.0.iter().map(|(k, n)| format!("{k} {:.1} %", *n as f64 * 100.0 / total as f64)).collect();
        // nobody is left to tell
        let _ = writeln!(std::io::stderr(), "shares: {}", shares.join(", "));
    }
}

fn count(what: &'static str) {
    COUNTS.with_borrow_mut(|c| *c.0.entry(what).or_insert(0) += 1);
}

/// A decoded input.
#[derive(Debug)]
enum Case {
    Differential(Differential),
    Plan { problem: Problem, caps: DeviceCaps },
    ProblemString(String),
    Cases(String),
    Pack(Vec<u8>),
}

/// A run of every plan on the CPU.
#[derive(Debug)]
struct Differential {
    problem: Valid,
    family: Family,
    seed: u64,
    device: String,
    schedule: String,
    /// Also run twice, over other surroundings, and in place.
    again: bool,
}

impl Case {
    fn decode(target: &str, data: &[u8]) -> Option<Case> {
        let mut u = Unstructured::new(data);
        let text = || std::str::from_utf8(data).ok().map(str::to_owned);
        match target {
            "differential" => differential(&mut u).ok().flatten().map(Case::Differential),
            "plan" => any_problem(&mut u).ok().flatten().map(|(problem, caps)| Case::Plan { problem, caps }),
            "problem_string" => text().map(Case::ProblemString),
            "cases" => text().map(Case::Cases),
            "pack" => Some(Case::Pack(pack(data))),
            _ => None,
        }
    }

    fn parse(target: &str, text: &str) -> Result<Case, Box<dyn Error>> {
        let line = text.trim();
        let problem = |s: &str| Problem::parse(s, &warpwave_kernels::signature);
        Ok(match target {
            "differential" => {
                let (p, run) = line.split_once(" | ").ok_or("no ` | ` behind the problem")?;
                let p = problem(p)?;
                let op = warpwave_kernels::op(p.signature.op).ok_or("no such op")?;
                let (mut family, mut seed, mut device, mut schedule) = (None, None, None, None);
                for word in run.split_whitespace() {
                    match word.split_once('=') {
                        Some(("family", v)) => family = Some(v.parse()?),
                        Some(("seed", v)) => seed = Some(v.parse()?),
                        Some(("device", v)) => device = Some(v.to_owned()),
                        Some(("schedule", v)) => schedule = Some(v.to_owned()),
                        _ => return Err(format!("`{word}` is none of family=, seed=, device=, schedule=").into()),
                    }
                }
                Case::Differential(Differential {
                    problem: op.infer(p).and_then(|p| validate(op, p))?,
                    family: family.ok_or("no family")?,
                    seed: seed.ok_or("no seed")?,
                    device: device.ok_or("no device")?,
                    schedule: schedule.ok_or("no schedule")?,
                    again: true,
                })
            }
            "plan" => {
                let (p, run) = line.split_once(" | ").ok_or("no ` | ` behind the problem")?;
                let mut caps = DeviceCaps::typical(Target::Host32);
                for word in run.split_whitespace() {
                    match word.split_once('=') {
                        Some(("target", v)) => caps = DeviceCaps::typical(v.parse()?),
                        Some(("units", v)) => caps.units = v.parse()?,
                        Some(("shared_memory", v)) => caps.shared_memory = v.parse()?,
                        Some(("max_cluster", v)) => caps.max_cluster = v.parse()?,
                        _ => return Err(format!("`{word}` is none of target=, units=, shared_memory=, max_cluster=").into()),
                    }
                }
                Case::Plan { problem: problem(p)?, caps }
            }
            "problem_string" => Case::ProblemString(serde_json::from_str(line)?),
            "cases" => Case::Cases(text.to_owned()),
            "pack" => {
                let digits: Vec<u8> = line.bytes().filter(u8::is_ascii_hexdigit).collect();
                let byte = |pair: &[u8]| Ok::<u8, Box<dyn Error>>(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
                Case::Pack(digits.chunks(2).map(byte).collect::<Result<_, _>>()?)
            }
            _ => return Err(format!("no fuzz target `{target}`").into()),
        })
    }

    fn run(&self, open: Open<'_>) -> Result<(), Box<dyn Error>> {
        match self {
            Case::Differential(d) => {
                count(d.problem.signature.op);
                let op = warpwave_kernels::op(d.problem.signature.op).ok_or("no such op")?;
                let device = device(&d.device, &d.schedule, open)?;
                check(Runner::new(&*device), op, &d.problem, d.family, d.seed, Depth { plans: true, again: d.again })?;
                Ok(())
            }
            Case::Plan { problem, caps } => plan(problem, caps),
            Case::ProblemString(s) => {
                let Ok(p) = Problem::parse(s, &warpwave_kernels::signature) else {
                    count("refused");
                    return Ok(());
                };
                let printed = p.to_string();
                let again = Problem::parse(&printed, &warpwave_kernels::signature).map_err(|e| format!("`{printed}` is not read back: {e}"))?;
                if again.to_string() != printed {
                    return Err(format!("`{printed}` is read back as `{again}`").into());
                }
                plan(&p, &DeviceCaps::typical(Target::ALL[s.len() % Target::ALL.len()]))
            }
            Case::Cases(text) => {
                count(if cases::parse(text).is_ok() { "accepted" } else { "refused" });
                Ok(())
            }
            Case::Pack(bytes) => {
                let Ok(pack) = Pack::read(bytes, "fuzz") else {
                    count("refused");
                    return Ok(());
                };
                count("accepted");
                for v in table(pack.manifest.target).values().take(8) {
                    // whatever is wrong with an image is an error, not a panic
                    let _ = pack.image(&v.id);
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Differential(d) => {
                let Differential { problem, family, seed, device, schedule, .. } = d;
                write!(f, "{} | family={family} seed={seed} device={device} schedule={schedule}", **problem)
            }
            Case::Plan { problem, caps } => {
                let DeviceCaps { target, units, shared_memory, max_cluster, .. } = caps;
                write!(f, "{problem} | target={target} units={units} shared_memory={shared_memory} max_cluster={max_cluster}")
            }
            Case::ProblemString(s) => f.write_str(&serde_json::to_string(s).map_err(|_| fmt::Error)?),
            Case::Cases(s) => f.write_str(s),
            Case::Pack(bytes) => bytes.chunks(32).enumerate().try_for_each(|(i, row)| {
                if i > 0 {
                    f.write_char('\n')?;
                }
                row.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }),
        }
    }
}

/// By name and schedule.
type Devices = HashMap<(String, String), Arc<dyn Device>>;

/// Opened once for each name and schedule.
fn device(name: &str, schedule: &str, open: Open<'_>) -> Result<Arc<dyn Device>, DeviceError> {
    thread_local! {
        static DEVICES: RefCell<Devices> = RefCell::default();
    }
    let key = (name.to_owned(), schedule.to_owned());
    if let Some(d) = DEVICES.with_borrow(|all| all.get(&key).cloned()) {
        return Ok(d);
    }
    let d: Arc<dyn Device> = open(name, schedule)?.into();
    DEVICES.with_borrow_mut(|all| all.insert(key, d.clone()));
    Ok(d)
}

/// Elements of the largest operand at most: mostly a tile or two, now and then more than the widest one.
const MOST: [u64; 8] = [16, 96, 320, 700, 1100, 2300, 4500, 9000];

fn differential(u: &mut Unstructured<'_>) -> Taken<Option<Differential>> {
    let stable: Vec<&'static dyn Op> = warpwave_kernels::ops().iter().copied().filter(|o| o.stage() == Stage::Stable).collect();
    let op = *u.choose(&stable)?;
    let family = *u.choose(&Family::ALL)?;
    let seed = u.arbitrary::<u8>()?.into();
    let device = if u.arbitrary()? { "cpu:64" } else { "cpu" }.into();
    let schedule = match u.int_in_range(0..=7u8)? {
        0..=2 => "late".into(),
        3 => "eager".into(),
        n => n.to_string(),
    };
    let again = u.ratio(1, 4)?;
    let most = *u.choose(&MOST)?;
    // a product costs its inner dimension for each element
    let most = if op.signature().op == "matmul" { most / 2 } else { most };
    Ok(problem(op, u, most)?.map(|problem| Differential { problem, family, seed, device, schedule, again }))
}

/// A descriptor that need not make sense.
fn wild(u: &mut Unstructured<'_>) -> Taken<TensorDesc> {
    let dtype = *u.choose(&DType::ALL)?;
    let rank = u.int_in_range(0..=9usize)?;
    let extent = |u: &mut Unstructured<'_>| -> Taken<u64> {
        Ok(match u.int_in_range(0..=9u8)? {
            0..=4 => u.int_in_range(0..=70)?,
            5 | 6 => u.int_in_range(0..=5000)?,
            7 => 1 << u.int_in_range(0..=63u32)?,
            8 => (1u64 << u.int_in_range(0..=63u32)?) - 1,
            _ => u.arbitrary()?,
        })
    };
    let shape: Vec<u64> = (0..rank).map(|_| extent(u)).collect::<Taken<_>>()?;
    let mut desc = TensorDesc::contiguous(dtype, &shape);
    if u.ratio(1, 3)? {
        desc.strides = (0..rank).map(|_| Ok(extent(u)? as i64)).collect::<Taken<_>>()?;
    }
    if u.ratio(1, 20)? {
        desc.strides.pop();
    }
    if u.ratio(1, 3)? {
        desc.offset = extent(u)?;
    }
    Ok(desc)
}

/// Any problem of any op, and a device of any target: legal ones of every size, and others.
fn any_problem(u: &mut Unstructured<'_>) -> Taken<Option<(Problem, DeviceCaps)>> {
    let op = *u.choose(warpwave_kernels::ops())?;
    let signature = op.signature();
    let mut caps = DeviceCaps::typical(*u.choose(&Target::ALL)?);
    if u.ratio(1, 4)? {
        caps.units = u.int_in_range(1..=400)?;
        caps.max_cluster = *u.choose(&[1, 2, 4, 8, 16])?;
        caps.shared_memory += u.int_in_range(0..=1u32 << 17)?;
    }
    let kind = u.int_in_range(0..=3u8)?;
    let most = 1 << u.int_in_range(4..=44u32)?;
    let mut p = match if kind < 2 { problem(op, u, most)? } else { None } {
        Some(p) => (*p).clone(),
        None => Problem::new(signature),
    };
    if kind == 0 {
        return Ok(Some((p, caps)));
    }
    let shared = wild(u)?;
    for slot in &mut p.operands {
        match u.int_in_range(0..=7u8)? {
            0 => *slot = Some(wild(u)?),
            1 => *slot = None,
            2..=4 if kind >= 2 => *slot = Some(shared.clone()),
            // one dimension of one operand changed, or swapped
            5 if slot.is_some() => {
                let other = wild(u)?;
                if let Some(d) = slot.as_mut().filter(|d| d.rank() > 0) {
                    let at = u.int_in_range(0..=d.rank() - 1)?;
                    d.shape[at] = other.shape.first().copied().unwrap_or(0);
                    d.strides[at] = other.strides.first().copied().unwrap_or(1);
                }
            }
            6 => {
                if let Some(d) = slot.as_mut().filter(|d| d.rank() > 1) {
                    let at = u.int_in_range(0..=d.rank() - 2)?;
                    d.shape.swap(at, at + 1);
                    d.strides.swap(at, at + 1);
                }
            }
            _ => {}
        }
    }
    for (value, spec) in p.attrs.iter_mut().zip(signature.attrs) {
        if u.ratio(1, 4)? {
            *value = match spec.kind {
                AttrKind::Int { min, max, .. } if u.ratio(3, 4)? => AttrValue::Int(u.int_in_range(min..=max)?),
                AttrKind::Int { .. } => AttrValue::Int(u.arbitrary()?),
                AttrKind::Float { .. } => AttrValue::Float(u.arbitrary()?),
                AttrKind::Bool { .. } => AttrValue::Bool(u.arbitrary()?),
                AttrKind::Choice { all, .. } => AttrValue::Choice(u.choose(all)?),
            };
        }
    }
    Ok(Some((p, caps)))
}

/// The kernel pack of an input: `j` and a manifest, `f` and what is packed, or any bytes.
fn pack(data: &[u8]) -> Vec<u8> {
    let inside = match data {
        [b'j', json @ ..] => [&(json.len() as u64).to_le_bytes(), json].concat(),
        [b'f', all @ ..] => all.to_vec(),
        all => return all.to_vec(),
    };
    // a zstd frame with its size in four bytes, and one raw block
    let mut out = MAGIC.to_vec();
    out.extend([0x28, 0xb5, 0x2f, 0xfd, 0xa0]);
    out.extend((inside.len() as u32).to_le_bytes());
    out.extend(&((inside.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    out.extend(inside);
    out
}

/// The variants of a target, by name.
fn table(target: Target) -> &'static BTreeMap<String, Variant> {
    type Tables = HashMap<Target, BTreeMap<String, Variant>>;
    static ALL: LazyLock<Tables> = LazyLock::new(|| {
        let one = |t: Target| (t, warpwave_kernels::variants(t).into_iter().map(|v| (v.id.to_string(), v)).collect());
        Target::ALL.into_iter().map(one).collect()
    });
    &ALL[&target]
}

/// Infers, validates and plans; every plan must be well formed.
fn plan(problem: &Problem, caps: &DeviceCaps) -> Result<(), Box<dyn Error>> {
    let op = warpwave_kernels::op(problem.signature.op).ok_or("no such op")?;
    let Ok(valid) = op.infer(problem.clone()).and_then(|p| validate(op, p)) else {
        count("refused");
        return Ok(());
    };
    count(problem.signature.op);
    let printed = valid.to_string();
    let again = Problem::parse(&printed, &warpwave_kernels::signature).map_err(|e| format!("`{printed}` is not read back: {e}"))?;
    if again.to_string() != printed {
        return Err(format!("`{printed}` is read back as `{again}`").into());
    }
    if let Ok(plans) = op.plans(&valid, caps) {
        for p in &plans {
            well_formed(&valid, p, caps).map_err(|e| format!("plan {}: {e}", p.tag))?;
        }
    }
    Ok(())
}

/// Whether a plan's kernels are in the variant table, its arguments those of their `Params`, its buffers those of the problem and its workspace.
///
/// # Errors
/// What is wrong.
pub fn well_formed(problem: &Valid, plan: &Plan, caps: &DeviceCaps) -> Result<(), String> {
    let known = |b: Buffer| match b {
        Buffer::Operand(i) => problem.operands.get(i).is_some_and(Option::is_some),
        Buffer::Workspace(i) => i < plan.workspace.slices.len(),
        Buffer::Error => true,
    };
    let mut end = 0;
    for s in &plan.workspace.slices {
        if s.offset < end || !s.offset.is_multiple_of(256) {
            return Err(format!("workspace {}: at {}, the one before ends at {end}", s.name, s.offset));
        }
        end = s.offset.checked_add(s.bytes).ok_or_else(|| format!("workspace {}: overflows", s.name))?;
    }
    if plan.target != caps.target {
        return Err(format!("for {}, not for {}", plan.target, caps.target));
    }
    for step in &plan.steps {
        let l = match step {
            Step::Launch(l) => l,
            Step::Fill(fill) => {
                let room = match fill.buffer {
                    Buffer::Workspace(i) => plan.workspace.slices.get(i).map(|s| s.bytes),
                    Buffer::Error => None,
                    Buffer::Operand(i) => problem.operands.get(i).and_then(Option::as_ref).and_then(|d| d.span()?.checked_mul(d.dtype.size())),
                };
                if room.is_none_or(|r| r < fill.bytes) {
                    return Err(format!("fills {} bytes of {room:?}", fill.bytes));
                }
                continue;
            }
        };
        let id = l.kernel.to_string();
        let v = table(plan.target).get(&id).ok_or_else(|| format!("{id} is not in the variant table"))?;
        if (v.threads, v.shared) != (l.threads, l.shared) {
            return Err(format!("{id}: {} threads and {} bytes shared; the table has {} and {}", l.threads, l.shared, v.threads, v.shared));
        }
        let fields = warpwave_kernels::params(l.kernel.kernel);
        if !fields.iter().map(|p| (p.name, p.ty)).eq(l.args.iter().map(|(n, a)| (*n, a.ty()))) {
            return Err(format!("{id}: the arguments are not the fields of its Params"));
        }
        if l.blocks == 0 || l.programs == 0 || i64::try_from(l.programs).is_err() || l.cluster == 0 || l.cluster > caps.max_cluster {
            return Err(format!("{id}: {} programs, {} blocks, clusters of {}", l.programs, l.blocks, l.cluster));
        }
        if !l.blocks.is_multiple_of(u64::from(l.cluster)) || l.shared > caps.shared_memory {
            return Err(format!("{id}: {} blocks in clusters of {}, {} bytes shared", l.blocks, l.cluster, l.shared));
        }
        let buffers = l.args.iter().filter_map(|(_, a)| a.buffer()).chain(l.maps.iter().filter_map(|m| m.buffer));
        if let Some(b) = buffers.into_iter().find(|b| !known(*b)) {
            return Err(format!("{id}: no {b:?}"));
        }
        for m in l.maps.iter().filter(|m| m.buffer.is_some()) {
            // what the driver asks of a tensor map; extents and pitches of its unused dimensions included
            let dims = m.dims.iter().all(|&d| (1..=1 << 32).contains(&d));
            let strides = m.strides.iter().all(|&s| s.is_multiple_of(16) && s < 1 << 40);
            let boxes = m.boxes.iter().all(|&b| (1..=256).contains(&b)) && u64::from(m.boxes[0]) * m.dtype.size() % 16 == 0;
            if !dims || !strides || !boxes {
                return Err(format!("{id}: no tensor map: {m:?}"));
            }
        }
    }
    Ok(())
}
