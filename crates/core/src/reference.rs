use std::fmt;

/// The elements of an input by row-major number, as float64: stored, or computed on demand for tensors too large to store.
pub enum Source<'a> {
    /// Stored.
    Dense(Vec<f64>),
    /// Computed.
    Lazy(Box<dyn Fn(u64) -> f64 + Sync + Send + 'a>),
}

impl Source<'_> {
    /// Element number `i`.
    pub fn get(&self, i: u64) -> f64 {
        match self {
            Source::Dense(v) => v[i as usize],
            Source::Lazy(f) => f(i),
        }
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Source::Dense(_)) { "Dense" } else { "Lazy" })
    }
}

/// A reference value and how far a right implementation may be from it before it rounds its result to the output's type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Approx {
    /// The value, computed in float64 from the rounded inputs.
    pub value: f64,
    /// The largest absolute error of a computation in the op's accumulation type.
    pub error: f64,
}
