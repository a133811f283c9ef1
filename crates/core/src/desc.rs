use crate::DType;
use std::fmt;

/// The largest number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;
/// Every allocation starts on a multiple of so many bytes.
pub(crate) const ALLOCATION_ALIGN: u64 = 256;

/// The shape, layout and placement of a tensor: everything a plan may know of it.
///
/// Strides and offset count elements. The offset is the distance from an address aligned to 256 bytes to the first element; it decides which
/// accesses are aligned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorDesc {
    /// Element type.
    pub dtype: DType,
    /// Extent of each dimension, slowest first.
    pub shape: Vec<u64>,
    /// Elements from one index to the next, for each dimension; 0 repeats.
    pub strides: Vec<i64>,
    /// Elements between an address aligned to 256 bytes and the first element.
    pub offset: u64,
}

impl TensorDesc {
    /// A row-major tensor without gaps, at the start of an allocation.
    pub fn contiguous(dtype: DType, shape: &[u64]) -> Self {
        let mut strides = vec![1i64; shape.len()];
        for i in (0..shape.len().saturating_sub(1)).rev() {
            // saturates only where validate refuses the size anyway
            strides[i] = strides[i + 1].saturating_mul(i64::try_from(shape[i + 1].max(1)).unwrap_or(i64::MAX));
        }
        TensorDesc { dtype, shape: shape.to_vec(), strides, offset: 0 }
    }

    /// The same tensor with other strides.
    pub fn with_strides(mut self, strides: &[i64]) -> Self {
        self.strides = strides.to_vec();
        self
    }

    /// The same tensor, `offset` elements behind an aligned address.
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; saturates instead of overflowing.
    pub fn len(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d))
    }

    /// Whether some extent is 0.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Elements from the first one to behind the last one that an index reaches (0 for an empty tensor), or `None` where that overflows.
    /// Assumes strides that are not negative, as [`validate`](crate::validate) demands.
    pub fn span(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        let mut last = 0u64;
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((d - 1).checked_mul(u64::try_from(s).ok()?)?)?;
        }
        last.checked_add(1)
    }

    /// The largest power of two, at most 256, that divides the address of the first element.
    pub fn alignment(&self) -> u64 {
        let bytes = (self.offset % ALLOCATION_ALIGN) * self.dtype.size() % ALLOCATION_ALIGN;
        if bytes == 0 { ALLOCATION_ALIGN } else { 1 << bytes.trailing_zeros() }
    }

    /// Whether the strides are row-major without gaps (strides of dimensions of extent 1 do not matter).
    pub fn is_contiguous(&self) -> bool {
        let mut expect = 1i64;
        for (&d, &s) in self.shape.iter().zip(&self.strides).rev() {
            if d != 1 && s != expect && !self.is_empty() {
                return false;
            }
            expect = expect.saturating_mul(i64::try_from(d).unwrap_or(i64::MAX));
        }
        true
    }

    /// Position, in elements from the first one, of the element with row-major number `i`.
    pub fn position(&self, mut i: u64) -> u64 {
        let mut at = 0i64;
        for (&d, &s) in self.shape.iter().zip(&self.strides).rev() {
            at += (i % d) as i64 * s;
            i /= d;
        }
        at as u64
    }

    /// The checks that hold for every tensor of every op.
    pub(crate) fn check(&self, operand: &'static str, written: bool) -> Result<(), DescError> {
        let err = |rule, got: String, expected: String| Err(DescError { operand, rule, got, expected });
        if self.rank() > MAX_RANK {
            return err(Rule::RankInRange, format!("{} dimensions", self.rank()), format!("at most {MAX_RANK}"));
        }
        if self.strides.len() != self.rank() {
            return err(Rule::StridePerDimension, format!("{} strides", self.strides.len()), format!("{}", self.rank()));
        }
        if let Some(&s) = self.strides.iter().find(|&&s| s < 0) {
            return err(Rule::StrideNotNegative, s.to_string(), "0 or more".into());
        }
        let limit = i64::MAX as u64 / 16;
        let fits = |n: Option<u64>| n.and_then(|n| n.checked_add(self.offset)).is_some_and(|n| n <= limit);
        let count = self.shape.iter().filter(|&&d| d != 0).try_fold(1u64, |n, &d| n.checked_mul(d));
        if !fits(count) || !fits(self.span()) || self.shape.iter().any(|&d| d > limit) || self.strides.iter().any(|&s| s as u64 > limit) {
            return err(Rule::SizeFits, self.to_string(), format!("at most {limit} elements from end to end"));
        }
        if written && !self.is_empty() {
            // sorted by stride, each dimension must step over all that the faster ones reach
            let mut dims: Vec<(u64, u64)> = self.shape.iter().zip(&self.strides).filter(|(d, _)| **d > 1).map(|(&d, &s)| (s as u64, d)).collect();
            dims.sort_unstable();
            let mut reach = 0u64;
            for (s, d) in dims {
                if s <= reach {
                    return err(Rule::NoSelfOverlap, self.to_string(), "strides under which no two indices share an element".into());
                }
                reach += s * (d - 1);
            }
        }
        Ok(())
    }
}

impl fmt::Display for TensorDesc {
    /// `bf16[512,4096]:8192,1+3`: dtype, shape, strides unless row-major without gaps, offset unless 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(xs: &[T]) -> String {
            xs.iter().map(T::to_string).collect::<Vec<_>>().join(",")
        }
        write!(f, "{}[{}]", self.dtype, list(&self.shape))?;
        if self.strides != TensorDesc::contiguous(self.dtype, &self.shape).strides {
            write!(f, ":{}", list(&self.strides))?;
        }
        if self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for TensorDesc {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        fn list<T: std::str::FromStr>(s: &str) -> Result<Vec<T>, String> {
            if s.is_empty() {
                return Ok(Vec::new());
            }
            s.split(',').map(|x| x.trim().parse().map_err(|_| format!("`{x}` is not a number"))).collect()
        }
        let (dtype, rest) = s.split_once('[').ok_or_else(|| format!("`{s}`: a tensor is written dtype[shape]:strides+offset"))?;
        let (shape, rest) = rest.split_once(']').ok_or_else(|| format!("`{s}`: the shape is not closed by `]`"))?;
        let (rest, offset) = match rest.split_once('+') {
            Some((rest, n)) => (rest, n.parse().map_err(|_| format!("`{n}` is not an offset"))?),
            None => (rest, 0),
        };
        let shape: Vec<u64> = list(shape)?;
        let mut desc = TensorDesc::contiguous(dtype.parse()?, &shape).with_offset(offset);
        if let Some(strides) = rest.strip_prefix(':') {
            desc.strides = list(strides)?;
        } else if !rest.is_empty() {
            return Err(format!("`{s}`: `{rest}` behind the shape"));
        }
        Ok(desc)
    }
}

/// What a descriptor must satisfy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name states its rule; Display spells it out")]
pub enum Rule {
    Present,
    Known,
    RankInRange,
    StridePerDimension,
    StrideNotNegative,
    SizeFits,
    NoSelfOverlap,
    DTypeSupported,
    SameDType,
    SameShape,
    ShapeMatches,
    RankAtLeast,
    AxisInRange,
    CollapsesToRows,
    CollapsesToPlanes,
    ValueInRange,
    ExtentInRange,
    InsideAllocation,
    AlignedAsDescribed,
    NoAliasedOutput,
}

impl Rule {
    /// The rule in words, as error messages show it.
    pub const fn text(self) -> &'static str {
        match self {
            Rule::Present => "the operand is given",
            Rule::Known => "the name is one that the op knows",
            Rule::RankInRange => "the number of dimensions is in range",
            Rule::StridePerDimension => "there is one stride for each dimension",
            Rule::StrideNotNegative => "strides are not negative",
            Rule::SizeFits => "sizes and offsets fit in 63 bits",
            Rule::NoSelfOverlap => "no two indices of an output share an element",
            Rule::DTypeSupported => "the op supports the dtype",
            Rule::SameDType => "the dtypes are equal",
            Rule::SameShape => "the shapes are equal",
            Rule::ShapeMatches => "the shapes fit together",
            Rule::RankAtLeast => "there are enough dimensions",
            Rule::AxisInRange => "the axis exists",
            Rule::CollapsesToRows => "the outer dimensions of all operands collapse to at most three",
            Rule::CollapsesToPlanes => "the batch dimensions of all operands collapse to at most two",
            Rule::ValueInRange => "the value is in range",
            Rule::ExtentInRange => "the extent is in range",
            Rule::InsideAllocation => "the tensor lies inside its allocation",
            Rule::AlignedAsDescribed => "the address has the alignment that the descriptor states",
            Rule::NoAliasedOutput => "an output shares no memory with another operand",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A descriptor that breaks a rule: which operand (or attribute), which rule, what was got, what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{operand}: {rule}: got {got}, expected {expected}")]
pub struct DescError {
    /// The operand or attribute at fault.
    pub operand: &'static str,
    /// The rule it breaks.
    pub rule: Rule,
    /// What the descriptor says.
    pub got: String,
    /// What it would have to say.
    pub expected: String,
}
