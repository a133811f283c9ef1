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

/// A sum whose own rounding is far below the error bound of any sum in float64: Neumaier, 1974.
pub fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for x in values {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    // an infinity or NaN is in the sum already, and would make NaN of what it lost
    if sum.is_finite() { sum + lost } else { sum }
}

/// A reference value and how far a right implementation may be from it before it rounds its result to the output's type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Approx {
    /// The value, computed in float64 from the rounded inputs.
    pub value: f64,
    /// The largest absolute error of a computation in the op's accumulation type.
    pub error: f64,
}
