//! Recorded cases: files of shapes, formulas and rules, each made from a public bug report or a textbook.
//!
//! The format is described at the head of `cases/field-cases.toml`.

mod formula;
mod run;
mod schema;

pub use formula::{Axes, Formula};
pub use run::{Options, Outcome, Size, run, run_all};

use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// Cases from public bug reports.
pub const FIELD: &str = include_str!("../../cases/field-cases.toml");
/// Textbook examples that the format can say.
pub const TEXTBOOK: &str = include_str!("../../cases/textbook.toml");

/// Why a file is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("case {id}: {key}: {what}")]
pub struct CaseError {
    /// The case at fault.
    pub id: String,
    /// The key at fault.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// What must hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub(crate) check: String,
    pub(crate) table: toml::Table,
}

/// One case.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// Op under test.
    pub op: String,
    /// What a reader should expect.
    pub expect: String,
    /// Where the idea comes from.
    pub source: String,
    pub(crate) dtype: String,
    pub(crate) size: String,
    pub(crate) params: BTreeMap<String, u64>,
    pub(crate) flags: toml::Table,
    pub(crate) inputs: BTreeMap<String, Formula>,
    pub(crate) vary: Vec<toml::Table>,
    pub(crate) rules: Vec<Rule>,
}

/// Reads a case file.
///
/// # Errors
/// The first key, flag, value or rule that is not known, with its case.
pub fn parse(text: &str) -> Result<Vec<Case>, CaseError> {
    let file = |what: String| CaseError { id: "file".into(), key: "case".into(), what };
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| file(e.to_string()))?;
    if let Some(key) = table.keys().find(|k| *k != "case") {
        return Err(CaseError { id: "file".into(), key: key.clone(), what: "unknown key".into() });
    }
    let all = table.get("case").and_then(toml::Value::as_array).ok_or_else(|| file("no cases".into()))?;
    let cases = all
        .iter()
        .map(|c| c.as_table().ok_or_else(|| file("a case that is no table".into())).and_then(schema::case))
        .collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::new();
    if let Some(c) = cases.iter().find(|c| !seen.insert(c.id.clone())) {
        return Err(CaseError { id: c.id.clone(), key: "id".into(), what: "given twice".into() });
    }
    Ok(cases)
}

/// How a case went.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseReport {
    /// The case.
    pub id: String,
    /// Its op.
    pub op: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Wall time.
    pub seconds: f64,
}

/// How a file went.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// In the order of the file.
    pub cases: Vec<CaseReport>,
}

impl Summary {
    fn count(&self, f: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|c| f(&c.outcome)).count()
    }
    /// Cases that hold.
    pub fn passed(&self) -> usize {
        self.count(|o| *o == Outcome::Passed)
    }
    /// Cases that do not.
    pub fn failed(&self) -> usize {
        self.count(|o| matches!(o, Outcome::Failed(_)))
    }
    /// Cases of ops that the build lacks.
    pub fn unsupported(&self) -> usize {
        self.count(|o| *o == Outcome::Unsupported)
    }
    /// Cases that were left out, with a reason.
    pub fn skipped(&self) -> usize {
        self.count(|o| matches!(o, Outcome::Skipped(_)))
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} unsupported", self.passed(), self.failed(), self.unsupported())?;
        if self.skipped() > 0 {
            write!(f, ", {} skipped", self.skipped())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_accepted() {
        assert_eq!(parse(FIELD).unwrap().len(), 146);
        assert!(!parse(TEXTBOOK).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_listed_is_rejected() {
        let good = r#"
[[case]]
id = "T1"
op = "softmax"
kind = "ragged-tile"
dtype = "f32"
params = { rows = 2, cols = 3 }
flags = { axis = 1 }
inputs = { x = "normal(1)" }
vary = [{ cols = 4 }]
rule = { check = "reference", rows = [0], only = [1] }
size = "small"
scope = "core"
expect = "e"
source = "s"
"#;
        assert_eq!(parse(good).unwrap().len(), 1);
        for (from, to, key) in [
            ("axis = 1", "axes = 1", "flags.axes"),
            ("axis = 1", "axis = -1", "flags.axis"),
            ("axis = 1", "alpha = 1.0", "flags.alpha"),
            ("axis = 1", "z_strides = [1]", "flags.z_strides"),
            ("axis = 1", "x_dtype = \"f8\"", "flags.x_dtype"),
            ("cols = 3", "columns = 3", "params.columns"),
            ("cols = 3", "cols = -3", "params.cols"),
            ("cols = 4", "colz = 4", "vary[0].colz"),
            ("normal(1)", "gauss(1)", "inputs.x"),
            ("x = \"normal", "z = \"normal", "inputs.z"),
            ("\"reference\"", "\"referent\"", "rule"),
            ("rows = [0]", "row = [0]", "rule"),
            ("rows = [0]", "of = \"lse\"", "rule"),
            ("only = [1]", "only = [2]", "rule"),
            ("\"ragged-tile\"", "\"ragged\"", "kind"),
            ("\"small\"", "\"tiny\"", "size"),
            ("\"core\"", "\"kernel\"", "scope"),
            ("op = \"softmax\"", "op = \"hardmax\"", "op"),
            ("\"f32\"", "\"float\"", "dtype"),
            ("expect =", "expected =", "expected"),
        ] {
            let e = parse(&good.replacen(from, to, 1)).unwrap_err();
            assert_eq!((e.id.as_str(), e.key.as_str()), ("T1", key), "{to}: {e}");
        }
        assert_eq!(parse(&format!("{good}{good}")).unwrap_err().what, "given twice");
    }
}
