use crate::{Approx, DescError, DeviceCaps, Family, Param, Plan, Problem, Role, Rule, Signature, Source, Target, Tuning, Variant};
use std::fmt::Debug;
use std::ops::Range;

/// How far an op is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Held by the conformance suite.
    Stable,
    /// Compiled and tried; may change, and the case runner does not count it as part of the build.
    Experimental,
}

/// A problem that passed every check of its op.
#[derive(Clone, PartialEq, Debug)]
pub struct Valid(Problem);

impl std::ops::Deref for Valid {
    type Target = Problem;
    fn deref(&self) -> &Problem {
        &self.0
    }
}

/// A valid problem that no kernel of the device's target computes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op} on {target}: {what}")]
#[allow(missing_docs, reason = "the message names them")]
pub struct Unsupported {
    pub op: &'static str,
    pub target: Target,
    pub what: String,
}

/// What an operand of indices may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indices {
    /// Indices are 0 to so many, less 1.
    pub count: u64,
    /// A value that stands for no index.
    pub skip: Option<i64>,
}

impl Indices {
    /// Whether a value is neither an index nor stands for none: what a kernel reports.
    pub fn is_hostile(&self, x: f64) -> bool {
        self.skip.is_none_or(|s| s as f64 != x) && !(x >= 0.0 && x < self.count as f64)
    }
}

/// An operation: everything that the rest of warpwave knows of it.
pub trait Op: Debug + Send + Sync {
    /// Names of the op, its operands, its attributes.
    fn signature(&self) -> Signature;

    /// How far it is.
    fn stage(&self) -> Stage {
        Stage::Stable
    }

    /// Descriptors of the outputs that are not given, from those of the inputs, as the op would allocate them.
    ///
    /// # Errors
    /// Inputs that do not fit together.
    fn infer(&self, problem: Problem) -> Result<Problem, DescError>;

    /// The op's own rules; those that hold for every tensor were checked before.
    ///
    /// # Errors
    /// The first rule that is broken.
    fn check(&self, problem: &Problem) -> Result<(), DescError>;

    /// Every way to compute a problem on a device, best first by the op's cost rule. Pure and total.
    ///
    /// # Errors
    /// No kernel of the target does.
    fn plans(&self, problem: &Valid, caps: &DeviceCaps) -> Result<Vec<Plan>, Unsupported>;

    /// The instantiations that the op's plans can name on a target.
    fn variants(&self, target: Target) -> Vec<Variant>;

    /// The fields of `Params` of each kernel that the op's variants name.
    fn params(&self, kernel: &str) -> &'static [Param];

    /// Float64 reference values of the elements `ranges` (row-major numbers) of output `output` (operand number), in order, with their
    /// error bounds. `inputs` has one entry for each operand; those that are not read may be empty.
    fn reference(&self, problem: &Problem, inputs: &[Source<'_>], output: usize, ranges: &[Range<u64>]) -> Vec<Approx>;

    /// Whether output `output` may be written over input `input` (operand numbers) when both lie at the same elements of memory.
    fn in_place(&self, _problem: &Problem, _output: usize, _input: usize) -> bool {
        false
    }

    /// A contiguous problem for tests, of `outer` × `n` elements in the op's main operand, where `n` is the dimension that the kernels tile.
    /// `pick(k)` chooses one of `k` alternatives: dtypes first, then attributes and optional operands, the plain one being 0. `None`: the op
    /// has generators of its own.
    fn example(&self, _outer: &[u64], _n: u64, _pick: &mut dyn FnMut(usize) -> usize) -> Option<Problem> {
        None
    }

    /// Element number `i` of input `operand` under a data family and seed, where it is not drawn as for any tensor of reals: indices,
    /// probabilities, a statistic that an earlier op saved.
    fn sample(&self, _problem: &Problem, _operand: usize, _family: Family, _seed: u64, _i: u64) -> Option<f64> {
        None
    }

    /// What input `operand` may hold where it holds indices: others are skipped and reported
    /// ([`DeviceError::IndexOutOfRange`](../warpwave_hal/enum.DeviceError.html)), as the data of [`Family::Hostile`] try. `None`: it holds none.
    fn indices(&self, _problem: &Problem, _operand: usize) -> Option<Indices> {
        None
    }

    /// Whether 16-bit operands go through matrix instructions: what those do with subnormals is then the op's
    /// ([`Target::matrix_flushes_subnormals`]).
    fn multiplies_matrices(&self) -> bool {
        false
    }

    /// Whether data of [`Family::Exact`] make every sum exact, so that the result is the reference rounded once.
    fn exact(&self, _problem: &Problem) -> bool {
        false
    }

    /// What an element of the main operand holds where a reduction counts it as if it were not there: what a lost element is replaced by when
    /// the op's error bound is tested. `None`: an element reaches only its own output.
    fn neutral(&self) -> Option<f64> {
        None
    }

    /// Multiplications and additions that the problem asks for; 0 for an op that is judged by bytes.
    fn flops(&self, _problem: &Problem) -> u64 {
        0
    }
}

/// Checks a problem: first what holds for every tensor, then the op's own rules.
///
/// # Errors
/// The first rule that is broken, with operand, got and expected.
pub fn validate(op: &dyn Op, problem: Problem) -> Result<Valid, DescError> {
    for (spec, desc) in problem.signature.operands.iter().zip(&problem.operands) {
        match desc {
            Some(d) => d.check(spec.name, spec.role == Role::Output)?,
            None if spec.role == Role::OptionalInput => {}
            None => {
                return Err(DescError { operand: spec.name, rule: Rule::Present, got: "nothing".into(), expected: spec.doc.into() });
            }
        }
    }
    for (spec, value) in problem.signature.attrs.iter().zip(&problem.attrs) {
        if let (crate::AttrKind::Int { min, max, .. }, crate::AttrValue::Int(x)) = (spec.kind, value)
            && !(min..=max).contains(x)
        {
            return Err(DescError { operand: spec.name, rule: Rule::ValueInRange, got: x.to_string(), expected: format!("{min} to {max}") });
        }
        if let (crate::AttrKind::Choice { all, .. }, crate::AttrValue::Choice(x)) = (spec.kind, value)
            && !all.contains(x)
        {
            return Err(DescError { operand: spec.name, rule: Rule::ValueInRange, got: (*x).into(), expected: all.join(", ") });
        }
    }
    op.check(&problem)?;
    Ok(Valid(problem))
}

/// The plan for a problem: the one that the tuning table names, if it is among the op's, otherwise the op's first choice.
///
/// # Errors
/// No kernel of the target computes the problem.
pub fn plan(op: &dyn Op, problem: &Valid, caps: &DeviceCaps, tuning: &Tuning) -> Result<Plan, Unsupported> {
    let mut plans = op.plans(problem, caps)?;
    if plans.is_empty() {
        return Err(Unsupported { op: problem.signature.op, target: caps.target, what: "no variant fits".into() });
    }
    let wanted = tuning.get(&problem.to_string()).and_then(|tag| plans.iter().position(|p| p.tag == tag));
    Ok(plans.swap_remove(wanted.unwrap_or(0)))
}
