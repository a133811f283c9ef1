//! What is remembered of a compile, in a file beside the image: it is repeated only if something that it depends on differs.

use super::manifest::Entry;
use super::sha256;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
struct Record {
    key: String,
    entry: Entry,
}

/// Everything that decides a compiler's output.
pub(crate) struct Inputs<'a> {
    /// What `--version` prints.
    pub(crate) compiler: &'a str,
    /// All arguments but the names of the output and the source.
    pub(crate) arguments: &'a [String],
    pub(crate) source: &'a str,
    /// Digests of the headers.
    pub(crate) headers: &'a BTreeMap<PathBuf, String>,
}

impl Inputs<'_> {
    pub(crate) fn key(&self) -> String {
        // a length before each part, so that no two lists of parts read alike
        let mut all = Vec::new();
        let mut add = |part: &str| {
            all.extend((part.len() as u64).to_le_bytes());
            all.extend(part.as_bytes());
        };
        // bump when the checks of a compile change
        add("1");
        add(self.compiler);
        self.arguments.iter().for_each(|a| add(a));
        add(self.source);
        for (path, digest) in self.headers {
            add(&path.to_string_lossy());
            add(digest);
        }
        sha256(&all)
    }
}

fn record_path(image: &Path) -> PathBuf {
    image.with_extension("json")
}

/// The manifest entry of an image that was made from just these inputs.
pub(crate) fn fresh(image: &Path, key: &str) -> Option<Entry> {
    let record: Record = serde_json::from_slice(&fs::read(record_path(image)).ok()?).ok()?;
    let whole = fs::metadata(image).is_ok_and(|m| m.len() == record.entry.bytes);
    (record.key == key && whole).then_some(record.entry)
}

pub(crate) fn record(image: &Path, key: &str, entry: &Entry) -> anyhow::Result<()> {
    let record = Record { key: key.into(), entry: entry.clone() };
    Ok(fs::write(record_path(image), serde_json::to_vec(&record)?)?)
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Resources;
    use super::*;
    use warpwave_core::Arch;

    #[test]
    fn every_input_changes_the_key() {
        let arguments = ["-O3".to_owned(), "-I".to_owned()];
        let headers = BTreeMap::from([(PathBuf::from("a.h"), "1".to_owned())]);
        let base = || Inputs { compiler: "c 1", arguments: &arguments, source: "text", headers: &headers };
        let key = base().key();
        assert_eq!(key, base().key());
        assert_ne!(key, Inputs { compiler: "c 2", ..base() }.key());
        assert_ne!(key, Inputs { arguments: &["-O3-I".to_owned()], ..base() }.key());
        assert_ne!(key, Inputs { source: "text ", ..base() }.key());
        let other = BTreeMap::from([(PathBuf::from("a.h"), "2".to_owned())]);
        assert_ne!(key, Inputs { headers: &other, ..base() }.key());
        let moved = BTreeMap::from([(PathBuf::from("b.h"), "1".to_owned())]);
        assert_ne!(key, Inputs { headers: &moved, ..base() }.key());
    }

    #[test]
    fn an_image_is_fresh_only_under_its_key_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("ww_a.cubin");
        let entry = Entry {
            id: "a".into(),
            symbol: "ww_a".into(),
            arch: Arch::Sm80,
            file: "ww_a.cubin".into(),
            offset: 0,
            bytes: 4,
            sha256: String::new(),
            threads: 32,
            shared: 0,
            resources: Resources::default(),
        };
        assert_eq!(fresh(&image, "k"), None);
        fs::write(&image, b"1234").unwrap();
        assert_eq!(fresh(&image, "k"), None);
        record(&image, "k", &entry).unwrap();
        assert_eq!(fresh(&image, "k"), Some(entry));
        assert_eq!(fresh(&image, "l"), None);
        fs::write(&image, b"123").unwrap();
        assert_eq!(fresh(&image, "k"), None);
    }
}
