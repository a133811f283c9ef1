//! Kernel images: where they are looked for, and the pack that holds all of a target.
//!
//! A pack `{target}.wwk` is the 8 bytes `WWKERN01` and a zstd stream of: length of the manifest (u64, little-endian), the manifest (JSON), the
//! images one after the other. Each image is checked against the manifest's SHA-256 before it is used.

use crate::DeviceError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use warpwave_core::{KernelId, Target};

/// The first bytes of a pack.
pub const MAGIC: &[u8; 8] = b"WWKERN01";
/// A pack that unpacks to more is refused.
const MAX_BYTES: u64 = 256 << 20;

/// What a pack says of itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain")]
pub struct Manifest {
    pub target: Target,
    /// The compiler's version line.
    pub compiler: String,
    /// In the order of their images.
    pub kernels: Vec<Entry>,
}

/// What a manifest says of one kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "plain")]
pub struct Entry {
    /// The kernel's name.
    pub id: String,
    pub symbol: String,
    /// From the first image on.
    pub offset: u64,
    pub bytes: u64,
    /// Of the image, in hexadecimal.
    pub sha256: String,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory, in bytes.
    pub shared: u32,
    /// Registers of a thread; on AMD vector registers without accumulators.
    pub registers: u32,
    /// On AMD: accumulation registers.
    #[serde(default)]
    pub accumulators: u32,
    /// Shared memory that the image itself reserves, in bytes.
    #[serde(default)]
    pub static_shared: u32,
    /// Bytes spilled by a thread; a build with any fails.
    #[serde(default)]
    pub spill_bytes: u32,
}

/// An unpacked pack.
#[derive(Debug)]
#[allow(missing_docs, reason = "plain")]
pub struct Pack {
    pub manifest: Manifest,
    /// Where it came from.
    pub path: String,
    images: Vec<u8>,
}

impl Pack {
    /// Unpacks `bytes`; `path` is for messages.
    ///
    /// # Errors
    /// [`DeviceError::BadImage`] for anything but a well-formed pack.
    pub fn read(bytes: &[u8], path: &str) -> Result<Pack, DeviceError> {
        let bad = |what: String| DeviceError::BadImage { path: path.into(), what };
        let body = bytes.strip_prefix(MAGIC.as_slice()).ok_or_else(|| bad("not a kernel pack".into()))?;
        let mut all = Vec::new();
        zstd::Decoder::new(body).and_then(|d| d.take(MAX_BYTES + 1).read_to_end(&mut all)).map_err(|e| bad(e.to_string()))?;
        if all.len() as u64 > MAX_BYTES {
            return Err(bad(format!("unpacks to more than {MAX_BYTES} bytes")));
        }
        let (head, rest) = all.split_first_chunk::<8>().ok_or_else(|| bad("cut off".into()))?;
        let len = usize::try_from(u64::from_le_bytes(*head)).ok().filter(|&n| n <= rest.len()).ok_or_else(|| bad("cut off".into()))?;
        let manifest: Manifest = serde_json::from_slice(&rest[..len]).map_err(|e| bad(e.to_string()))?;
        Ok(Pack { manifest, path: path.into(), images: rest[len..].to_vec() })
    }

    /// Packs a manifest and its images.
    ///
    /// # Errors
    /// None in practice: writing to memory.
    pub fn write(manifest: &Manifest, images: &[u8]) -> std::io::Result<Vec<u8>> {
        let json = serde_json::to_vec(manifest)?;
        let mut all = (json.len() as u64).to_le_bytes().to_vec();
        all.extend(json);
        all.extend(images);
        let mut out = MAGIC.to_vec();
        out.extend(zstd::encode_all(all.as_slice(), 9)?);
        Ok(out)
    }

    /// The image of a kernel, checked against its hash; `None` where the pack lacks it.
    ///
    /// # Errors
    /// [`DeviceError::BadImage`] where offset, length or hash do not fit.
    pub fn image(&self, id: &KernelId) -> Result<Option<&[u8]>, DeviceError> {
        let name = id.to_string();
        let Some(entry) = self.manifest.kernels.iter().find(|k| k.id == name) else {
            return Ok(None);
        };
        let bad = |what: &str| DeviceError::BadImage { path: self.path.clone(), what: format!("{name}: {what}") };
        let start = usize::try_from(entry.offset).map_err(|_| bad("offset out of range"))?;
        let len = usize::try_from(entry.bytes).map_err(|_| bad("length out of range"))?;
        let image = start.checked_add(len).and_then(|end| self.images.get(start..end)).ok_or_else(|| bad("cut off"))?;
        let hash: String = Sha256::digest(image).iter().map(|b| format!("{b:02x}")).collect();
        if hash != entry.sha256 {
            return Err(bad("its hash is not the manifest's"));
        }
        Ok(Some(image))
    }
}

/// Where kernels come from, in this order: packs given by the caller, the folder that `WARPWAVE_KERNELS` names, the folder `kernels` beside
/// the executable, in a checkout `target/kernels`, packs embedded in the program.
#[derive(Debug, Default)]
pub struct Images {
    given: Vec<Arc<Pack>>,
    folders: Vec<PathBuf>,
    embedded: Vec<(Target, &'static [u8])>,
    loaded: Mutex<HashMap<String, Option<Arc<Pack>>>>,
}

impl Images {
    /// The standard places, and packs embedded in the program.
    pub fn standard(embedded: &[(Target, &'static [u8])]) -> Self {
        let mut folders: Vec<PathBuf> = std::env::var_os("WARPWAVE_KERNELS").map(PathBuf::from).into_iter().collect();
        if let Ok(exe) = std::env::current_exe()
            && let Some(dir) = exe.parent()
        {
            folders.push(dir.join("kernels"));
            // target/debug/program or target/debug/deps/test
            folders.extend(dir.ancestors().take(3).filter(|d| d.file_name().is_some_and(|n| n == "target")).map(|d| d.join("kernels")));
        }
        Images { folders, embedded: embedded.to_vec(), ..Images::default() }
    }

    /// Adds a pack that is looked at first.
    pub fn with_pack(mut self, pack: Pack) -> Self {
        self.given.push(Arc::new(pack));
        self
    }

    fn pack_at(&self, key: &str, read: impl FnOnce() -> Option<Result<Pack, DeviceError>>) -> Result<Option<Arc<Pack>>, DeviceError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(pack) = loaded.get(key) {
            return Ok(pack.clone());
        }
        let pack = read().transpose()?.map(Arc::new);
        loaded.insert(key.into(), pack.clone());
        Ok(pack)
    }

    /// All packs of a target that exist, in order.
    ///
    /// # Errors
    /// A pack that exists and cannot be read.
    pub fn packs(&self, target: Target) -> Result<Vec<Arc<Pack>>, DeviceError> {
        let mut packs: Vec<Arc<Pack>> = self.given.iter().filter(|p| p.manifest.target == target).cloned().collect();
        for folder in &self.folders {
            let path = Self::path(folder, target);
            let key = path.display().to_string();
            packs.extend(self.pack_at(&key, || {
                let bytes = std::fs::read(&path).ok()?;
                Some(Pack::read(&bytes, &key))
            })?);
        }
        for (t, bytes) in self.embedded.iter().filter(|(t, _)| *t == target) {
            let key = format!("embedded {t}");
            packs.extend(self.pack_at(&key, || Some(Pack::read(bytes, &key)))?);
        }
        Ok(packs)
    }

    fn path(folder: &Path, target: Target) -> PathBuf {
        folder.join(format!("{target}.wwk"))
    }

    /// The image of a kernel.
    ///
    /// # Errors
    /// [`DeviceError::KernelNotBuilt`] with all that was searched; [`DeviceError::BadImage`] for a damaged pack.
    pub fn find(&self, id: &KernelId) -> Result<Vec<u8>, DeviceError> {
        for pack in self.packs(id.target)? {
            if let Some(image) = pack.image(id)? {
                return Ok(image.to_vec());
            }
        }
        let mut searched: Vec<String> = self.given.iter().map(|p| p.path.clone()).collect();
        searched.extend(self.folders.iter().map(|f| Self::path(f, id.target).display().to_string()));
        searched.push(
            if self.embedded.iter().any(|(t, _)| *t == id.target) { "the embedded pack" } else { "no pack is embedded for this target" }.into(),
        );
        Err(DeviceError::KernelNotBuilt {
            kernel: id.to_string(),
            searched,
            hint: format!(
                "in a checkout `cargo xtask build --target {}`; elsewhere put {}.wwk in a folder and name it in WARPWAVE_KERNELS",
                id.target, id.target
            ),
        })
    }
}
