//! What holds every backend to one meaning.
//!
//! [`exec`] runs one plan between guard bands over poisoned outputs; [`generate`] makes problems and data; [`oracle`] compares with the float64
//! reference under the op's error bound; [`cases`] replays recorded cases; [`suite`] is all of it for one device. The command line, unit tests,
//! fuzz targets and campaigns on a GPU use the same code, so that each failure is one problem string, a data family and a seed.

pub mod bounds;
pub mod cases;
pub mod check;
pub mod exec;
pub mod fuzz;
pub mod generate;
pub mod oracle;
pub mod suite;
