//! Code objects: ELF, metadata, kernel descriptors, instructions.

use crate::op::{self, Inst};
use crate::text::Line;
use crate::{Isa, LoadError};
use object::{Object, ObjectSection, ObjectSymbol};
use rmpv::Value;
use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// A kernel of a code object.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its symbol, without `.kd`.
    pub name: String,
    /// Bytes of its arguments, hidden ones included.
    pub kernarg_bytes: u32,
    /// Bytes of shared memory that it always has.
    pub lds: u32,
    /// Bytes of private memory of a lane.
    pub scratch: u32,
    /// Lanes of a wave.
    pub wave: u32,
    /// Vector registers, accumulation registers, scalar registers.
    pub registers: [u32; 3],
    /// Spilled vector and scalar registers.
    pub spills: [u32; 2],
    /// The largest workgroup.
    pub max_block: u32,
    pub(crate) hidden: Vec<Hidden>,
    pub(crate) entry: usize,
    /// COMPUTE_PGM_RSRC1, COMPUTE_PGM_RSRC2, KERNEL_CODE_PROPERTIES of the descriptor (LLVM, AMDGPU usage, "Kernel Descriptor").
    pub(crate) rsrc: [u32; 2],
    pub(crate) properties: u16,
    pub(crate) preload: u16,
    pub(crate) dynamic_stack: bool,
}

/// An argument that the runtime fills.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    pub(crate) kind: String,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// A loaded code object.
pub struct CodeObject {
    isa: Isa,
    kernels: Vec<Kernel>,
    pub(crate) code: Vec<Inst>,
    /// Vector registers that its instructions name: one more than the last.
    pub(crate) registers: usize,
    /// The place of each instruction by its address.
    pub(crate) index: HashMap<u64, usize>,
}

impl std::fmt::Debug for CodeObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} kernels, {} instructions", self.isa, self.kernels.len(), self.code.len())
    }
}

/// Processor numbers of `e_flags` (LLVM, AMDGPU usage, "ELF Header").
const MACHINES: [(u32, Isa); 3] = [(0x3f, Isa::Gfx90a), (0x4c, Isa::Gfx942), (0x41, Isa::Gfx1100)];

fn not(what: impl ToString) -> LoadError {
    LoadError::NotACodeObject(what.to_string())
}

/// The entry of a clang offload bundle that is for a processor that is known.
fn unbundle(bytes: &[u8]) -> Result<&[u8], LoadError> {
    let Some(rest) = bytes.strip_prefix(b"__CLANG_OFFLOAD_BUNDLE__") else { return Ok(bytes) };
    let word = |at: usize| rest.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or_else(|| not("the bundle is cut off"));
    let mut at = 8;
    for _ in 0..word(0)? {
        let (offset, size, name) = (word(at)? as usize, word(at + 8)? as usize, word(at + 16)? as usize);
        let end = name.checked_add(at + 24).filter(|&end| end <= rest.len()).ok_or_else(|| not("the bundle is cut off"))?;
        let triple = String::from_utf8_lossy(&rest[at + 24..end]);
        at = end;
        if size > 0 && Isa::ALL.iter().any(|i| triple.ends_with(i.name())) {
            return offset.checked_add(size).and_then(|end| bytes.get(offset..end)).ok_or_else(|| not("the bundle is cut off"));
        }
    }
    Err(not("the bundle has nothing for gfx90a, gfx942 or gfx1100"))
}

fn disassemble(bytes: &[u8], isa: Isa) -> Result<String, LoadError> {
    let fail = |e: String| LoadError::Disassembler(format!("llvm-objdump-19: {e}"));
    let mut child = Command::new("llvm-objdump-19")
        .args(["-d", "--no-show-raw-insn", &format!("--mcpu={isa}"), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fail(format!("{e} (Debian's package llvm-19 brings it)")))?;
    let mut stdin = child.stdin.take().ok_or_else(|| fail("no input".into()))?;
    let output = std::thread::scope(|scope| {
        // a disassembler that ends early closes the pipe; its status tells
        scope.spawn(move || stdin.write_all(bytes).ok());
        child.wait_with_output()
    });
    let output = output.map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        return Err(fail(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(|e| fail(e.to_string()))
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(k, _)| k.as_str() == Some(name)).map(|(_, v)| v)
}

impl CodeObject {
    /// Loads an ELF code object of version 4 or 5, or a clang offload bundle that holds one.
    ///
    /// # Errors
    /// [`LoadError`] for anything that is not known to the last instruction of its kernels.
    pub fn load(bytes: &[u8]) -> Result<CodeObject, LoadError> {
        let bytes = unbundle(bytes)?;
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes).map_err(not)?;
        let object::FileFlags::Elf { e_flags, .. } = file.flags() else { return Err(not("no ELF flags")) };
        let (_, isa) = *MACHINES
            .iter()
            .find(|m| m.0 == e_flags & 0xff)
            .ok_or_else(|| not(format!("processor {:#x} of its flags is not known", e_flags & 0xff)))?;
        let metadata = metadata(&file)?;
        let (code, index) = decode(&disassemble(bytes, isa)?, isa)?;
        let mut kernels = Vec::new();
        for k in field(&metadata, "amdhsa.kernels").and_then(Value::as_array).into_iter().flatten() {
            kernels.push(kernel(&file, k, &index, isa)?);
        }
        let registers = code.iter().flat_map(|i| i.uses.iter()).filter(|u| u.vector).map(|u| usize::from(u.first + u.count)).fold(1, usize::max);
        Ok(CodeObject { isa, kernels, code, registers, index })
    }

    /// What it is for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// All kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

type Elf<'a> = object::read::elf::ElfFile64<'a, object::Endianness>;

/// The msgpack of note type 32, NT_AMDGPU_METADATA.
fn metadata(file: &Elf<'_>) -> Result<Value, LoadError> {
    for section in file.sections().filter(|s| s.name() == Ok(".note")) {
        let mut data = section.data().map_err(not)?;
        while data.len() >= 12 {
            let word = |i: usize| u32::from_le_bytes([data[i], data[i + 1], data[i + 2], data[i + 3]]) as usize;
            let (name, size, kind) = (word(0), word(4), word(8));
            let start = 12 + name.next_multiple_of(4);
            let body = data.get(start..start + size).ok_or_else(|| not("a note is cut off"))?;
            if kind == 32 {
                return rmpv::decode::read_value(&mut &*body).map_err(not);
            }
            data = data.get(start + size.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Err(not("no metadata"))
}

fn kernel(file: &Elf<'_>, meta: &Value, index: &HashMap<u64, usize>, isa: Isa) -> Result<Kernel, LoadError> {
    let text = |name: &str| field(meta, name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| field(meta, name).and_then(Value::as_u64).unwrap_or(0) as u32;
    let (name, symbol) = (text(".name"), text(".symbol"));
    let bad = |what: &str| LoadError::Kernel { kernel: name.clone(), what: what.into() };
    let kd = file.symbols().find(|s| s.name() == Ok(&symbol)).ok_or_else(|| bad("no descriptor"))?;
    let section = file.section_by_index(kd.section_index().ok_or_else(|| bad("no descriptor"))?).map_err(not)?;
    let at = kd.address().checked_sub(section.address()).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < usize::MAX - 64);
    let d = at.and_then(|at| section.data().ok()?.get(at..at + 64)).ok_or_else(|| bad("its descriptor is cut off"))?;
    let word = |i: usize| u32::from_le_bytes([d[i], d[i + 1], d[i + 2], d[i + 3]]);
    let offset = i64::from_le_bytes(d[16..24].try_into().unwrap_or_default());
    let entry = *index.get(&(kd.address().wrapping_add_signed(offset))).ok_or_else(|| bad("its entry is no instruction"))?;
    let mut hidden = Vec::new();
    for a in field(meta, ".args").and_then(Value::as_array).into_iter().flatten() {
        let kind = field(a, ".value_kind").and_then(Value::as_str).unwrap_or_default();
        if let Some(kind) = kind.strip_prefix("hidden_") {
            let get = |n: &str| field(a, n).and_then(Value::as_u64).unwrap_or(0) as usize;
            hidden.push(Hidden { kind: kind.into(), offset: get(".offset"), bytes: get(".size") });
        }
    }
    let k = Kernel {
        kernarg_bytes: number(".kernarg_segment_size"),
        lds: number(".group_segment_fixed_size"),
        scratch: number(".private_segment_fixed_size"),
        wave: number(".wavefront_size"),
        registers: [number(".vgpr_count"), number(".agpr_count"), number(".sgpr_count")],
        spills: [number(".vgpr_spill_count"), number(".sgpr_spill_count")],
        max_block: number(".max_flat_workgroup_size"),
        hidden,
        entry,
        rsrc: [word(48), word(52)],
        properties: u16::from_le_bytes([d[56], d[57]]),
        preload: u16::from_le_bytes([d[58], d[59]]),
        dynamic_stack: field(meta, ".uses_dynamic_stack").and_then(Value::as_bool).unwrap_or(false),
        name: name.clone(),
    };
    // FLOAT_ROUND_MODE_* nearest even, FLOAT_DENORM_MODE_* none flushed
    if k.rsrc[0] >> 12 & 0xff != 0xf0 {
        return Err(bad(&format!("float mode {:#x}: only rounding to nearest even with all denormals is executed", k.rsrc[0] >> 12 & 0xff)));
    }
    if k.wave != if isa.is_gfx11() { 32 } else { 64 } {
        return Err(bad(&format!("waves of {}", k.wave)));
    }
    if k.preload != 0 {
        return Err(bad("arguments that are preloaded into registers"));
    }
    Ok(k)
}

/// Instructions in order, and the place of each by its address.
fn decode(text: &str, isa: Isa) -> Result<(Vec<Inst>, HashMap<u64, usize>), LoadError> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|l| l.starts_with('\t')) {
        let Some((body, comment)) = line.rsplit_once("//") else { continue };
        let address = comment.trim().split([':', ' ']).next().unwrap_or_default();
        let pc = u64::from_str_radix(address, 16).map_err(|_| LoadError::Disassembler(format!("`{line}` has no address")))?;
        lines.push((pc, body.trim()));
    }
    let index: HashMap<u64, usize> = lines.iter().enumerate().map(|(i, l)| (l.0, i)).collect();
    let mut code = Vec::with_capacity(lines.len());
    for (pc, text) in lines {
        let unknown = |what: String| LoadError::Unknown { pc, text: text.to_owned(), what };
        let compiled = match text.split_once(" :: ") {
            Some((x, y)) => op::compile_dual(&Line::parse(x), &Line::parse(y), isa),
            None => op::compile(&Line::parse(text), isa, pc, &|offset| index.get(&(pc + 4).wrapping_add_signed(offset)).copied()),
        };
        let mut inst = compiled.map_err(unknown)?;
        inst.pc = pc;
        inst.text = text.into();
        code.push(inst);
    }
    Ok((code, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_code_object_is_an_error() {
        let bundle = |entries: u64, name: u64| {
            [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &entries.to_le_bytes(), &[0; 16], &name.to_le_bytes(), b"hipv4-gfx942"].concat()
        };
        let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
        for bytes in [Vec::new(), b"text".to_vec(), elf, bundle(1, 12), bundle(u64::MAX, 12), bundle(1, u64::MAX)] {
            assert!(matches!(CodeObject::load(&bytes), Err(LoadError::NotACodeObject(_))), "{bytes:?}");
        }
    }
}
