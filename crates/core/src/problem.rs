use crate::{DType, TensorDesc};
use std::fmt;

/// Whether an op reads or writes an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub enum Role {
    Input,
    /// An input that may be left out.
    OptionalInput,
    Output,
}

/// One operand of an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct OperandSpec {
    pub name: &'static str,
    pub role: Role,
    /// One line of shape and meaning.
    pub doc: &'static str,
}

/// The kind and default of an attribute.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub enum AttrKind {
    Int {
        default: i64,
        min: i64,
        max: i64,
    },
    Float {
        default: f64,
    },
    Bool {
        default: bool,
    },
    /// One of some names.
    Choice {
        default: &'static str,
        all: &'static [&'static str],
    },
}

/// One attribute of an op.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct AttrSpec {
    pub name: &'static str,
    pub kind: AttrKind,
    /// One line of meaning.
    pub doc: &'static str,
}

/// The value of an attribute.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub enum AttrValue {
    Int(i64),
    Float(f64),
    Bool(bool),
    Choice(&'static str),
}

impl From<i64> for AttrValue {
    fn from(x: i64) -> Self {
        AttrValue::Int(x)
    }
}
impl From<f64> for AttrValue {
    fn from(x: f64) -> Self {
        AttrValue::Float(x)
    }
}
impl From<&'static str> for AttrValue {
    fn from(x: &'static str) -> Self {
        AttrValue::Choice(x)
    }
}
impl From<bool> for AttrValue {
    fn from(x: bool) -> Self {
        AttrValue::Bool(x)
    }
}

impl fmt::Display for AttrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrValue::Int(x) => write!(f, "{x}"),
            AttrValue::Float(x) => write!(f, "{x:?}"),
            AttrValue::Bool(x) => write!(f, "{x}"),
            AttrValue::Choice(x) => f.write_str(x),
        }
    }
}

impl AttrKind {
    /// The value where none is given.
    pub const fn default(self) -> AttrValue {
        match self {
            AttrKind::Int { default, .. } => AttrValue::Int(default),
            AttrKind::Float { default } => AttrValue::Float(default),
            AttrKind::Bool { default } => AttrValue::Bool(default),
            AttrKind::Choice { default, .. } => AttrValue::Choice(default),
        }
    }

    /// The value that a word stands for.
    pub fn parse(self, s: &str) -> Option<AttrValue> {
        Some(match self {
            AttrKind::Int { .. } => AttrValue::Int(s.parse().ok()?),
            AttrKind::Float { .. } => AttrValue::Float(s.parse().ok()?),
            AttrKind::Bool { .. } => AttrValue::Bool(s.parse().ok()?),
            AttrKind::Choice { all, .. } => AttrValue::Choice(all.iter().find(|c| **c == s)?),
        })
    }
}

/// The operands and attributes of an op.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct Signature {
    pub op: &'static str,
    pub operands: &'static [OperandSpec],
    pub attrs: &'static [AttrSpec],
}

/// An op with descriptors for its operands and values for its attributes: what is to be computed, without any memory.
///
/// Prints as one line, the *problem string*, and is read back from it:
/// `softmax x=bf16[512,4096]:8192,1 out=bf16[512,4096] axis=-1`.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// Names and order of what follows.
    pub signature: Signature,
    /// One entry for each operand of the signature; `None` where an optional one is left out.
    pub operands: Vec<Option<TensorDesc>>,
    /// One value for each attribute of the signature.
    pub attrs: Vec<AttrValue>,
}

impl Problem {
    /// A problem without operands, all attributes at their defaults.
    pub fn new(signature: Signature) -> Self {
        Problem { signature, operands: vec![None; signature.operands.len()], attrs: signature.attrs.iter().map(|a| a.kind.default()).collect() }
    }

    /// Number of an operand. The name must be one of the signature.
    pub fn index(&self, operand: &str) -> Option<usize> {
        self.signature.operands.iter().position(|o| o.name == operand)
    }

    /// The same problem with an operand given. A name that the op does not know is ignored.
    pub fn with(mut self, operand: &str, desc: TensorDesc) -> Self {
        if let Some(i) = self.index(operand) {
            self.operands[i] = Some(desc);
        }
        self
    }

    /// The same problem with an attribute set. A name that the op does not know, or a value of another kind, is ignored.
    pub fn with_attr(mut self, name: &str, value: AttrValue) -> Self {
        if let Some(i) = self.signature.attrs.iter().position(|a| a.name == name)
            && std::mem::discriminant(&self.attrs[i]) == std::mem::discriminant(&value)
        {
            self.attrs[i] = value;
        }
        self
    }

    /// The descriptor of an operand, where it is given.
    pub fn operand(&self, name: &str) -> Option<&TensorDesc> {
        self.operands[self.index(name)?].as_ref()
    }

    fn attr(&self, name: &str) -> Option<AttrValue> {
        Some(self.attrs[self.signature.attrs.iter().position(|a| a.name == name)?])
    }

    /// An integer attribute; 0 for a name that the op does not know.
    pub fn int(&self, name: &str) -> i64 {
        if let Some(AttrValue::Int(x)) = self.attr(name) { x } else { 0 }
    }

    /// A floating-point attribute; 0 for a name that the op does not know.
    pub fn float(&self, name: &str) -> f64 {
        if let Some(AttrValue::Float(x)) = self.attr(name) { x } else { 0.0 }
    }

    /// A boolean attribute; false for a name that the op does not know.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attr(name), Some(AttrValue::Bool(true)))
    }

    /// A choice; empty for a name that the op does not know.
    pub fn choice(&self, name: &str) -> &'static str {
        if let Some(AttrValue::Choice(x)) = self.attr(name) { x } else { "" }
    }

    /// Numbers of the operands that are written.
    pub fn outputs(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.operands.len()).filter(|&i| self.signature.operands[i].role == Role::Output)
    }

    /// Bytes that a perfect implementation moves: each input read once (stride-0 dimensions once), each output written once.
    pub fn bytes_moved(&self) -> u64 {
        self.operands
            .iter()
            .flatten()
            .map(|d| d.shape.iter().zip(&d.strides).map(|(&n, &s)| if s == 0 { n.min(1) } else { n }).product::<u64>() * d.dtype.size())
            .sum()
    }

    /// Reads a problem string; `find` looks an op's signature up by name.
    ///
    /// # Errors
    /// A message that names the word at fault.
    pub fn parse(s: &str, find: &dyn Fn(&str) -> Option<Signature>) -> Result<Self, String> {
        let mut words = s.split_whitespace();
        let op = words.next().ok_or("an empty problem string")?;
        let mut problem = Problem::new(find(op).ok_or_else(|| format!("unknown op `{op}`"))?);
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: expected name=value"))?;
            if let Some(i) = problem.index(name) {
                problem.operands[i] = Some(value.parse().map_err(|e| format!("{name}: {e}"))?);
            } else if let Some(i) = problem.signature.attrs.iter().position(|a| a.name == name) {
                problem.attrs[i] =
                    problem.signature.attrs[i].kind.parse(value).ok_or_else(|| format!("{name}: `{value}` is no value of this attribute"))?;
            } else {
                return Err(format!("{op} has no operand or attribute `{name}`"));
            }
        }
        Ok(problem)
    }

    /// The element types of the operands that are given, each once, in order.
    pub fn dtypes(&self) -> Vec<DType> {
        let mut all: Vec<DType> = Vec::new();
        for d in self.operands.iter().flatten() {
            if !all.contains(&d.dtype) {
                all.push(d.dtype);
            }
        }
        all
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.signature.op)?;
        for (spec, desc) in self.signature.operands.iter().zip(&self.operands) {
            if let Some(desc) = desc {
                write!(f, " {}={desc}", spec.name)?;
            }
        }
        for (spec, value) in self.signature.attrs.iter().zip(&self.attrs) {
            // bit equality, so that a NaN default is a default
            if value.to_string() != spec.kind.default().to_string() {
                write!(f, " {}={value}", spec.name)?;
            }
        }
        Ok(())
    }
}
