//! Devices and problems by name.

use crate::embedded::EMBEDDED;
use anyhow::{Result, anyhow, bail};
use std::sync::Arc;
use warpwave::{Device, DeviceCaps, DeviceError, Images, Op, Plan, Problem};
use warpwave_core::Valid;

/// What this machine has.
pub(crate) struct Machine {
    pub(crate) devices: Vec<Arc<dyn Device>>,
    /// AMD code executed on the CPU: no hardware, and used only where it is named.
    pub(crate) interpreted: Vec<Arc<dyn Device>>,
    pub(crate) missing: Vec<DeviceError>,
}

/// The places that kernels come from.
pub(crate) fn images() -> Arc<Images> {
    Arc::new(Images::standard(EMBEDDED))
}

/// The library that executes AMD code on the CPU: the one that the environment names, or else the one beside the program.
fn interpreter() -> Option<std::path::PathBuf> {
    if let Some(path) = std::env::var_os("WARPWAVE_HIP_INTERP_LIBRARY").filter(|p| !p.is_empty()) {
        return Some(path.into());
    }
    let beside = std::env::current_exe().ok()?.with_file_name("libamdhip64_interp.so");
    beside.is_file().then_some(beside)
}

#[cfg(feature = "hip")]
fn open_interpreter(library: &std::path::Path, missing: &mut Vec<DeviceError>) -> Vec<Arc<dyn Device>> {
    warpwave::interpreted_devices(library, images()).unwrap_or_else(|e| {
        missing.push(e);
        Vec::new()
    })
}

#[cfg(not(feature = "hip"))]
fn open_interpreter(_: &std::path::Path, _: &mut Vec<DeviceError>) -> Vec<Arc<dyn Device>> {
    Vec::new()
}

impl Machine {
    pub(crate) fn find() -> Self {
        let (devices, mut missing) = warpwave::devices_with(images());
        let interpreted = interpreter().map_or_else(Vec::new, |library| open_interpreter(&library, &mut missing));
        Machine { devices, interpreted, missing }
    }

    /// Hardware and host first, then what is interpreted.
    pub(crate) fn every(&self) -> impl Iterator<Item = &Arc<dyn Device>> {
        self.devices.iter().chain(&self.interpreted)
    }

    /// The devices of a name: one, or all of a backend where the number is left out.
    pub(crate) fn all(&self, name: &str) -> Result<Vec<Arc<dyn Device>>> {
        let name = if name == "cpu:32" { "cpu" } else { name };
        let exact: Vec<_> = self.every().filter(|d| d.name() == name).cloned().collect();
        if !exact.is_empty() {
            return Ok(exact);
        }
        let prefix = format!("{name}:");
        let backend: Vec<_> = self.every().filter(|d| d.name().starts_with(&prefix)).cloned().collect();
        if !backend.is_empty() {
            return Ok(backend);
        }
        let names: Vec<String> = self.every().map(|d| d.name()).collect();
        let family = name.split(':').next().unwrap_or(name);
        let why: Vec<String> = self.missing.iter().map(ToString::to_string).filter(|e| e.contains(&format!("no {family} "))).collect();
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        bail!("no device `{name}`{why}; there are {}", names.join(", "))
    }

    /// The device of a name; without one the first GPU, else the CPU.
    pub(crate) fn one(&self, name: Option<&str>) -> Result<Arc<dyn Device>> {
        match name {
            Some(name) => Ok(self.all(name)?[0].clone()),
            None => {
                let gpu = self.devices.iter().find(|d| !d.name().starts_with("cpu"));
                gpu.or(self.devices.first()).cloned().ok_or_else(|| anyhow!("no device at all"))
            }
        }
    }
}

/// A problem of the command line: its op, the checked problem, and the device behind `@`.
pub(crate) struct Asked {
    pub(crate) op: &'static dyn Op,
    pub(crate) problem: Valid,
    pub(crate) device: Option<String>,
}

/// Reads a problem string; outputs that are not given are inferred.
pub(crate) fn problem(text: &str) -> Result<Asked> {
    let (words, device) = match text.rsplit_once('@') {
        Some((words, device)) if !device.trim().is_empty() && !device.trim().contains(char::is_whitespace) => (words, Some(device.trim().to_owned())),
        Some(_) => bail!("`{text}`: expected a device behind `@`"),
        None => (text, None),
    };
    let problem = Problem::parse(words, &warpwave::signature).map_err(|e| anyhow!(explain(e)))?;
    let op = op(problem.signature.op)?;
    let problem = warpwave_core::validate(op, op.infer(problem)?)?;
    Ok(Asked { op, problem, device })
}

/// An op by name.
pub(crate) fn op(name: &str) -> Result<&'static dyn Op> {
    warpwave::op(name).ok_or_else(|| anyhow!(explain(format!("unknown op `{name}`"))))
}

/// Lists the ops where one is not known.
fn explain(error: String) -> String {
    if !error.starts_with("unknown op") {
        return error;
    }
    let names: Vec<&str> = warpwave_kernels::ops().iter().map(|o| o.signature().op).collect();
    format!("{error}; there are {}", names.join(", "))
}

/// The plans of a problem, or the one of a tag.
pub(crate) fn plans(op: &dyn Op, problem: &Valid, caps: &DeviceCaps, tag: Option<&str>) -> Result<Vec<Plan>> {
    let mut plans = op.plans(problem, caps)?;
    if plans.is_empty() {
        bail!("{} on {}: no variant fits", problem.signature.op, caps.target);
    }
    if let Some(tag) = tag {
        let tags: Vec<String> = plans.iter().map(|p| p.tag.clone()).collect();
        plans.retain(|p| p.tag == tag);
        if plans.is_empty() {
            bail!("no plan `{tag}` for {}; there are {}", **problem, tags.join(", "));
        }
    }
    Ok(plans)
}
