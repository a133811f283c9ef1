//! The roof of a problem: the fastest plan of the `roof` op that moves as many bytes in the same way.

use super::measure::{Memory, Meter, Timed};
use anyhow::{Result, bail};
use std::time::Duration;
use warpwave::{DType, Op, Plan, Problem, TensorDesc};
use warpwave_core::{Role, Valid};
use warpwave_kernels::ops::roof::{COPY, READ, Roof, TWO_IN_ONE_OUT};

/// Bytes that a problem reads and writes at least; elements that a stride of 0 repeats count once.
pub(crate) fn traffic(problem: &Problem) -> (u64, u64) {
    let distinct =
        |d: &TensorDesc| d.shape.iter().zip(&d.strides).map(|(&n, &s)| if s == 0 { n.min(1) } else { n }).product::<u64>() * d.dtype.size();
    let (mut read, mut written) = (0, 0);
    for (spec, desc) in problem.signature.operands.iter().zip(&problem.operands) {
        let bytes = desc.as_ref().map_or(0, distinct);
        if spec.role == Role::Output { written += bytes } else { read += bytes }
    }
    // its output is never written
    if problem.signature.op == "roof" && problem.int("kind") == READ { (read, 0) } else { (read, written) }
}

/// The kind of traffic that is nearest, and its problem.
pub(crate) fn problem_of(read: u64, written: u64) -> Result<Valid> {
    let kind = if written * 8 <= read {
        READ
    } else if read * 2 >= written * 3 {
        TWO_IN_ONE_OUT
    } else {
        COPY
    };
    let tensors = [2, 1, 3][kind as usize];
    let n = (read + written).div_ceil(4 * tensors).max(1);
    let desc = TensorDesc::contiguous(DType::F32, &[n]);
    let mut problem = Problem::new(Roof.signature()).with("x", desc.clone()).with("out", desc.clone()).with_attr("kind", kind.into());
    if kind == TWO_IN_ONE_OUT {
        problem = problem.with("y", desc);
    }
    Ok(warpwave_core::validate(&Roof, problem)?)
}

/// The fastest shape, ready to be timed again.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) problem: Valid,
    pub(crate) plan: Plan,
    pub(crate) timed: Timed,
    _memory: Memory,
}

/// Tries every shape.
pub(crate) fn best(meter: &mut Meter<'_>, read: u64, written: u64, window: Duration) -> Result<Best> {
    let problem = problem_of(read, written)?;
    let memory = meter.memory(&Roof, &problem)?;
    let mut found: Option<(f64, Plan, Timed)> = None;
    let mut error = None;
    for plan in Roof.plans(&problem, meter.device.caps())? {
        // a build of a part of the variant table has some of the shapes
        let tried = meter.prepare(&Roof, &problem, &plan, &memory).and_then(|mut timed| Ok((meter.window(&mut timed, window)?.0, timed)));
        match tried {
            Ok((us, timed)) if found.as_ref().is_none_or(|f| us < f.0) => found = Some((us, plan, timed)),
            Ok(_) => {}
            Err(e) => error = Some(e),
        }
    }
    match (found, error) {
        (Some((_, plan, timed)), _) => Ok(Best { problem, plan, timed, _memory: memory }),
        (None, Some(e)) => Err(e),
        (None, None) => bail!("no plan for the roof"),
    }
}
