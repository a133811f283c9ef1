//! `target/kernels/<target>.wwk`: all images of a target in one file.
//!
//! Eight bytes of magic, then a zstd stream of: length of the manifest (u64, little endian), the manifest, the images one behind the other.
//! An entry's `offset` counts from the first image.

use super::manifest::Manifest;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

pub(crate) const MAGIC: &[u8; 8] = b"WWKERN01";
/// What a pack may weigh, in bytes.
pub(crate) const BUDGET: u64 = 25 << 20;
/// Higher levels take seconds for a few percent.
const LEVEL: i32 = 12;

/// Lays the images out one behind the other.
pub(crate) fn assign_offsets(manifest: &mut Manifest) {
    let mut at = 0;
    for entry in &mut manifest.kernels {
        entry.offset = at;
        at += entry.bytes;
    }
}

/// The pack of a manifest whose images lie in `dir`.
pub(crate) fn pack(manifest: &Manifest, dir: &Path) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(manifest)?;
    let mut plain = (json.len() as u64).to_le_bytes().to_vec();
    plain.extend(json);
    let images = plain.len() as u64;
    for entry in &manifest.kernels {
        let image = fs::read(dir.join(&entry.file)).with_context(|| entry.file.clone())?;
        anyhow::ensure!(
            super::sha256(&image) == entry.sha256 && plain.len() as u64 - images == entry.offset,
            "{} is not what the manifest says",
            entry.file
        );
        plain.extend(image);
    }
    let mut out = MAGIC.to_vec();
    out.extend(zstd::encode_all(plain.as_slice(), LEVEL)?);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{Entry, Resources};
    use super::*;
    use warpwave_core::{Arch, Target};

    #[test]
    fn a_pack_holds_manifest_and_images() {
        let dir = tempfile::tempdir().unwrap();
        let images: [&[u8]; 2] = [b"first", b"the second"];
        let kernels = images.iter().enumerate().map(|(i, image)| {
            fs::write(dir.path().join(format!("{i}.cubin")), image).unwrap();
            Entry {
                id: i.to_string(),
                symbol: i.to_string(),
                arch: Arch::Sm80,
                file: format!("{i}.cubin"),
                offset: 0,
                bytes: image.len() as u64,
                sha256: super::super::sha256(image),
                threads: 32,
                shared: 0,
                resources: Resources::default(),
            }
        });
        let mut manifest = Manifest { target: Target::Sm80, compiler: "c".into(), flags: "f".into(), kernels: kernels.collect() };
        assign_offsets(&mut manifest);
        let packed = pack(&manifest, dir.path()).unwrap();
        let body = packed.strip_prefix(MAGIC).unwrap();
        let plain = zstd::decode_all(body).unwrap();
        let (length, rest) = plain.split_at(8);
        let (json, rest) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let read: Manifest = serde_json::from_slice(json).unwrap();
        assert_eq!(read, manifest);
        for (entry, image) in read.kernels.iter().zip(images) {
            assert_eq!(&rest[entry.offset as usize..][..entry.bytes as usize], image);
        }
        // the library reads it, too
        let pack_read = warpwave_hal::images::Pack::read(&packed, "a.wwk").unwrap();
        let entry = &pack_read.manifest.kernels[1];
        assert_eq!((entry.id.as_str(), entry.offset, entry.bytes), ("1", 5, 10));
        fs::write(dir.path().join("1.cubin"), b"another").unwrap();
        assert!(pack(&manifest, dir.path()).is_err());
    }
}
