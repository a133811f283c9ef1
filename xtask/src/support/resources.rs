//! What the compilers report of a kernel, and which reports fail a build.

use super::manifest::Resources;
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection};
use rmpv::Value;

fn number_before(line: &str, what: &str) -> Option<u32> {
    line[..line.find(what)?].split_whitespace().next_back()?.parse().ok()
}

/// Reads what `ptxas -v` prints.
///
/// # Errors
/// Spills, serialized wgmma and its like (codes C7500 to C7599), warnings of any kind, a missing report.
pub(crate) fn ptxas(log: &str) -> Result<Resources> {
    let mut out = Resources::default();
    let mut used = false;
    for line in log.lines() {
        let loss = line.contains("(C75") || line.contains("Potential Performance Loss") || line.contains("serialized");
        if loss || line.contains("warning") {
            bail!("{}", line.trim());
        }
        if line.contains("bytes stack frame") {
            out.stack_bytes += number_before(line, " bytes stack frame").unwrap_or(0);
            for kind in [" bytes spill stores", " bytes spill loads"] {
                out.spill_bytes += number_before(line, kind).unwrap_or(0);
            }
        }
        if line.contains(": Used ") {
            used = true;
            out.registers = out.registers.max(number_before(line, " registers").unwrap_or(0));
            out.static_shared = out.static_shared.max(number_before(line, " bytes smem").unwrap_or(0));
        }
    }
    ensure!(used, "ptxas reported no kernel");
    ensure!(out.spill_bytes == 0, "spills {} bytes at {} registers", out.spill_bytes, out.registers);
    Ok(out)
}

/// Reads the metadata of an AMD code object that holds one kernel.
///
/// # Errors
/// Spills, scratch memory, a dynamic stack, another number of kernels.
pub(crate) fn code_object(image: &[u8]) -> Result<Resources> {
    let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(image).context("not a plain ELF image")?;
    let note = elf.section_by_name(".note").context("the image has no notes")?;
    metadata(note.data()?)
}

/// NT_AMDGPU_METADATA
const METADATA: u32 = 32;

fn metadata(note: &[u8]) -> Result<Resources> {
    let word = |at: usize| note.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).context("the notes end early");
    let (name, length, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    ensure!(kind == METADATA, "the first note is not the metadata");
    let start = 12 + name.next_multiple_of(4);
    let mut body = note.get(start..start + length).context("the notes end early")?;
    let value = rmpv::decode::read_value(&mut body)?;
    let field = |map: &Value, key: &str| map.as_map().and_then(|m| m.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v.clone()));
    let kernels = field(&value, "amdhsa.kernels").context("the metadata lists no kernels")?;
    let kernels = kernels.as_array().context("the metadata lists no kernels")?;
    let [kernel] = kernels.as_slice() else { bail!("{} kernels in an image", kernels.len()) };
    let count = |key: &str| field(kernel, key).and_then(|v| v.as_u64()).map(|n| n as u32);
    let need = |key: &str| count(key).with_context(|| format!("the metadata has no {key}"));
    let (vgpr, sgpr, lds) = (need(".vgpr_count")?, need(".sgpr_count")?, need(".group_segment_fixed_size")?);
    let (scratch, spills) =
        (need(".private_segment_fixed_size")?, (count(".vgpr_spill_count").unwrap_or(0), count(".sgpr_spill_count").unwrap_or(0)));
    ensure!(spills == (0, 0), "spills {} vector and {} scalar registers, at {vgpr} and {sgpr}", spills.0, spills.1);
    ensure!(scratch == 0, "needs {scratch} bytes of scratch memory a lane");
    ensure!(field(kernel, ".uses_dynamic_stack").and_then(|v| v.as_bool()) != Some(true), "needs a stack of unknown size");
    // the count of vector registers is that of both kinds
    let accumulators = count(".agpr_count").unwrap_or(0);
    Ok(Resources { registers: vgpr.saturating_sub(accumulators), accumulators, scalar_registers: sgpr, static_shared: lds, ..Resources::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'ww_a' for 'sm_90a'
ptxas info    : Function properties for ww_a
    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 24 bytes cumulative stack size, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 6.684 ms
";

    #[test]
    fn figures_of_ptxas_are_read() {
        let r = ptxas(CLEAN).unwrap();
        assert_eq!((r.registers, r.static_shared, r.spill_bytes, r.stack_bytes), (168, 1024, 0, 24));
    }

    #[test]
    fn bad_reports_of_ptxas_fail() {
        let spill = CLEAN.replace("0 bytes spill stores", "8 bytes spill stores");
        assert!(ptxas(&spill).unwrap_err().to_string().contains("spills 8 bytes"));
        for line in [
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources",
            "ptxas info    : (C7507) setmaxnreg ignored; unable to determine register count at entry",
            "ptxas warning : Registers are spilled to local memory in function 'ww_a', 8 bytes spill stores",
            "a.cu(3): warning #177-D: variable \"x\" was declared but never referenced",
        ] {
            assert!(ptxas(&format!("{CLEAN}{line}\n")).is_err(), "{line}");
        }
        assert!(ptxas("").is_err());
    }

    fn note(fields: &[(&str, u64)]) -> Vec<u8> {
        let kernel = Value::Map(fields.iter().map(|(k, v)| (Value::from(*k), Value::from(*v))).collect());
        let value = Value::Map(vec![(Value::from("amdhsa.kernels"), Value::Array(vec![kernel]))]);
        let mut body = Vec::new();
        rmpv::encode::write_value(&mut body, &value).unwrap();
        let mut out = Vec::new();
        for word in [7, body.len() as u32, METADATA] {
            out.extend(word.to_le_bytes());
        }
        out.extend(b"AMDGPU\0\0");
        out.extend(body);
        out
    }

    #[test]
    fn metadata_is_read_and_spills_or_scratch_fail() {
        let fields = |scratch, spills| {
            note(&[
                (".vgpr_count", 100),
                (".agpr_count", 16),
                (".sgpr_count", 30),
                (".group_segment_fixed_size", 512),
                (".private_segment_fixed_size", scratch),
                (".vgpr_spill_count", spills),
            ])
        };
        let r = metadata(&fields(0, 0)).unwrap();
        assert_eq!((r.registers, r.accumulators, r.scalar_registers, r.static_shared), (84, 16, 30, 512));
        assert!(metadata(&fields(16, 0)).unwrap_err().to_string().contains("scratch"));
        assert!(metadata(&fields(0, 3)).unwrap_err().to_string().contains("spills"));
        assert!(metadata(&fields(0, 0)[..20]).is_err());
    }
}
