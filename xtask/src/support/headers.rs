//! Which headers a translation unit may see, and a digest of each.

use super::sha256;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Reads each header once.
pub(crate) struct Headers {
    root: PathBuf,
    seen: HashMap<PathBuf, Header>,
}

struct Header {
    digest: String,
    includes: Vec<String>,
}

/// The names in `#include` lines, conditional ones too: a header too many costs a compile, one too few a wrong kernel.
fn includes(text: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('#').and_then(|l| l.trim_start().strip_prefix("include")) else { continue };
        let rest = rest.trim_start();
        let close = match rest.chars().next() {
            Some('<') => '>',
            Some('"') => '"',
            _ => anyhow::bail!("`{line}`: the name must be written out"),
        };
        let name = rest[1..].split(close).next().unwrap_or_default();
        all.push(name.to_owned());
    }
    Ok(all)
}

impl Headers {
    pub(crate) fn new(root: &Path) -> Self {
        Headers { root: root.into(), seen: HashMap::new() }
    }

    fn read(&mut self, path: &Path) -> Result<&Header> {
        if !self.seen.contains_key(path) {
            let text = fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {}", path.display()))?;
            let header = Header { digest: sha256(text.as_bytes()), includes: includes(&text).with_context(|| path.display().to_string())? };
            self.seen.insert(path.into(), header);
        }
        Ok(&self.seen[path])
    }

    /// Every header that `text` reaches through `dirs` (below the root), with its digest. What no directory has is the compiler's own.
    pub(crate) fn closure(&mut self, text: &str, dirs: &[String]) -> Result<BTreeMap<PathBuf, String>> {
        let mut all = BTreeMap::new();
        let mut asked: BTreeSet<(PathBuf, String)> = includes(text)?.into_iter().map(|n| (PathBuf::new(), n)).collect();
        while let Some((from, name)) = asked.pop_first() {
            // beside the file that names it, then in each directory: several may hold the name, and a file may appear in an earlier one
            let places = std::iter::once(from.join(&name)).chain(dirs.iter().map(|d| Path::new(d).join(&name)));
            let Some(path) = places.into_iter().find(|p| p.parent() != Some(Path::new("")) && self.root.join(p).is_file()) else { continue };
            if all.contains_key(&path) {
                continue;
            }
            let header = self.read(&path)?;
            let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
            asked.extend(header.includes.iter().map(|n| (folder.clone(), n.clone())));
            let digest = header.digest.clone();
            all.insert(path, digest);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closure_holds_what_is_reached_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("crates/i/a.h", "#include <b.h>\n#include <cstdint>\n");
        put("cuda/i/b.h", "#if 0\n#  include \"c.h\"\n#endif\n");
        put("cuda/i/c.h", "#include <a.h>");
        put("cuda/i/unrelated.h", "");
        let dirs = ["crates/i".to_owned(), "cuda/i".to_owned()];
        let names = |h: &BTreeMap<PathBuf, String>| h.keys().map(|p| p.display().to_string()).collect::<Vec<_>>();
        let before = Headers::new(root.path()).closure("#include <a.h>\n", &dirs).unwrap();
        assert_eq!(names(&before), ["crates/i/a.h", "cuda/i/b.h", "cuda/i/c.h"]);
        put("cuda/i/c.h", "// changed");
        let after = Headers::new(root.path()).closure("#include <a.h>\n", &dirs).unwrap();
        assert_ne!(before, after);
        assert!(Headers::new(root.path()).closure("#include NAME\n", &dirs).is_err());
    }
}
