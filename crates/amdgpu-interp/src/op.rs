//! Instructions, ready to run: the text of one becomes a closure over its operands.

use crate::text::{Arg, Line, Operand, VCC};
use crate::wave::{Env, Flow, Trap, Use, Wave};
use crate::{Isa, salu, valu, vmem};

pub(crate) type Exec = Box<dyn Fn(&mut Wave, &mut Env<'_>) -> Result<Flow, Trap> + Send + Sync>;

/// For counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Scalar,
    Vector,
    Matrix,
    Memory,
}

pub(crate) struct Inst {
    pub(crate) exec: Exec,
    pub(crate) class: Class,
    /// Registers whose loads must be done.
    pub(crate) uses: Box<[Use]>,
    /// Vector registers that are written, each with those whose lanes must be known for its own to be.
    pub(crate) flows: Box<[(u16, Box<[u16]>)]>,
    pub(crate) pc: u64,
    pub(crate) text: Box<str>,
}

/// What a group of instructions makes of a line: `None` where it is none of them.
pub(crate) type Compiled = Result<Option<Exec>, String>;

fn uses(args: &[Arg]) -> Vec<Use> {
    let one = |a: &Arg| match a.operand {
        Operand::Vector(first, count) => Some(Use { vector: true, first, count }),
        Operand::Scalar(first, count) => Some(Use { vector: false, first, count }),
        _ => None,
    };
    args.iter().filter_map(one).collect()
}

/// Of an instruction on each lane by itself.
fn flows(line: &Line) -> Vec<(u16, Box<[u16]>)> {
    let Some(Operand::Vector(to, count)) = line.args.first().map(|a| &a.operand) else { return Vec::new() };
    let sources: Vec<Use> = uses(&line.args[1..]).into_iter().filter(|u| u.vector).collect();
    let all: Box<[u16]> = sources.iter().flat_map(|u| u.first..u.first + u.count).collect();
    if *count < 2 {
        return vec![(*to, all)];
    }
    // the lower half of a sum, a product or a move needs no upper halves: the compiler leaves them out where nobody asks for the rest
    let low = ["v_mad_u64_u32", "v_mad_i64_i32", "v_lshl_add_u64", "v_lshlrev_b64", "v_mov_b64"].contains(&line.mnemonic.as_str());
    let first: Box<[u16]> = if low { sources.iter().map(|u| u.first).collect() } else { all.clone() };
    // halves that a modifier chooses are not followed
    let packed = line.mnemonic.starts_with("v_pk_");
    (0..*count).filter(|_| !packed).map(|i| (to + i, if i == 0 { first.clone() } else { all.clone() })).collect()
}

/// Compiles one instruction at an address. `target`: the place of an instruction so many bytes behind this one.
pub(crate) fn compile(line: &Line, isa: Isa, pc: u64, target: &dyn Fn(i64) -> Option<usize>) -> Result<Inst, String> {
    let name = line.mnemonic.as_str();
    let (exec, class) = if let Some(e) = salu::compile(line, pc, target)? {
        (e, Class::Scalar)
    } else if let Some(e) = vmem::compile(line, isa)? {
        (e, Class::Memory)
    } else if let Some(e) = crate::matrix::compile(line, isa)? {
        (e, Class::Matrix)
    } else if let Some(e) = valu::compile(line, isa)? {
        (e, Class::Vector)
    } else {
        return Err("an instruction that is not known".into());
    };
    if let Some(rest) = line.unused() {
        return Err(format!("modifier `{rest}`"));
    }
    let mut all = uses(&line.args);
    if name == "v_div_fmas_f32" || name == "v_div_fmas_f64" {
        all.push(Use { vector: false, first: VCC, count: 2 });
    }
    // a choice between two values is known where the chosen one is; what reads a lane of another, or its own old value, is left out too
    let chosen = name.starts_with("v_cndmask")
        || line.encoding == "dpp"
        || name.contains("lane")
        || name.starts_with("v_swap")
        || name.starts_with("v_movrel");
    let flows = if class == Class::Vector && !chosen { flows(line) } else { Vec::new() };
    Ok(Inst { exec, class, uses: all.into(), flows: flows.into(), pc: 0, text: "".into() })
}

/// Two instructions that read before either writes: VOPD of gfx11.
pub(crate) fn compile_dual(x: &Line, y: &Line, isa: Isa) -> Result<Inst, String> {
    let none = |_| None;
    let single = |l: &Line| -> Result<Inst, String> {
        let base = l.mnemonic.strip_prefix("v_dual_").ok_or("not a dual instruction")?;
        let mut args = l.args.clone();
        if base == "cndmask_b32" {
            args.push(Arg { operand: Operand::Scalar(VCC, 1), neg: false, abs: false, sext: false });
        }
        compile(&l.renamed(&format!("v_{base}"), args), isa, 0, &none)
    };
    let (a, b) = (single(x)?, single(y)?);
    let Some(Operand::Vector(to, 1)) = x.args.first().map(|a| &a.operand) else { return Err("no destination".into()) };
    let (to, first, second) = (*to as usize, a.exec, b.exec);
    let exec: Exec = Box::new(move |w, env| {
        let (old, known) = (w.v[to], w.known[to]);
        first(w, env)?;
        let (new, new_known) = (std::mem::replace(&mut w.v[to], old), std::mem::replace(&mut w.known[to], known));
        second(w, env)?;
        (w.v[to], w.known[to]) = (new, new_known);
        Ok(Flow::Next)
    });
    let uses = [a.uses, b.uses].concat().into();
    Ok(Inst { exec, class: Class::Vector, uses, flows: Box::default(), pc: 0, text: "".into() })
}
