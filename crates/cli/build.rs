//! Embeds the kernel packs of the folder that `WARPWAVE_EMBED` names, so that the program is one file on a machine without a checkout.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use warpwave_core::Target;

fn main() {
    println!("cargo::rerun-if-env-changed=WARPWAVE_EMBED");
    let mut text = String::from("/// Packs that are part of the program.\npub(crate) static EMBEDDED: &[(warpwave::Target, &[u8])] = &[\n");
    if let Some(dir) = std::env::var_os("WARPWAVE_EMBED") {
        // a relative folder is one of the workspace's root, where cargo is called, not of this package
        let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
        let dir = manifest.ancestors().nth(2).unwrap_or(&manifest).join(dir);
        println!("cargo::rerun-if-changed={}", dir.display());
        let mut found = 0;
        for target in Target::ALL {
            let path = dir.join(format!("{target}.wwk"));
            println!("cargo::rerun-if-changed={}", path.display());
            if path.is_file() {
                let _ = writeln!(text, "    (warpwave::Target::{target:?}, include_bytes!({:?})),", canonical(&path));
                found += 1;
            }
        }
        assert!(found > 0, "WARPWAVE_EMBED: no kernel pack (<target>.wwk) in {}", dir.display());
    }
    text.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("embedded.rs");
    std::fs::write(&out, text).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
