//! Kernels from assembly text: llvm-mc-19 and ld.lld-19 make a code object, the interpreter runs it.

#![allow(dead_code, reason = "each test file uses some of it")]

use amdgpu_interp::{CodeObject, Fault, Isa, Launch, Memory, Options, run};
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// A kernel: its name, its instructions, bytes of shared memory.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) body: String,
    pub(crate) lds: u32,
}

fn directives(k: &Source, isa: Isa, out: &mut String) {
    let Source { name, body, lds } = k;
    let gfx11 = isa == Isa::Gfx1100;
    let _ = write!(out, "\t.text\n\t.globl {name}\n\t.p2align 8\n\t.type {name},@function\n{name}:\n{body}\n\ts_endpgm\n\t.size {name}, .-{name}\n");
    let _ = write!(out, "\t.section .rodata,\"a\",@progbits\n\t.p2align 6\n\t.amdhsa_kernel {name}\n\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n");
    let _ = write!(
        out,
        "\t.amdhsa_next_free_vgpr 128\n\t.amdhsa_next_free_sgpr 96\n\t.amdhsa_group_segment_fixed_size {lds}\n\t.amdhsa_float_denorm_mode_32 3\n"
    );
    if gfx11 {
        out.push_str("\t.amdhsa_wavefront_size32 1\n");
    } else {
        out.push_str("\t.amdhsa_accum_offset 64\n");
    }
    out.push_str("\t.end_amdhsa_kernel\n");
}

/// Assembles and loads kernels.
pub(crate) fn assemble(kernels: &[Source], isa: Isa) -> CodeObject {
    CodeObject::load(&object(kernels, isa)).unwrap_or_else(|e| panic!("{isa}: {e}"))
}

/// The code object of some kernels.
pub(crate) fn object(kernels: &[Source], isa: Isa) -> Vec<u8> {
    let mut text = format!("\t.amdgcn_target \"amdgcn-amd-amdhsa--{isa}\"\n\t.amdhsa_code_object_version 5\n");
    kernels.iter().for_each(|k| directives(k, isa, &mut text));
    text.push_str("\t.amdgpu_metadata\n---\namdhsa.version: [ 1, 2 ]\namdhsa.kernels:\n");
    for Source { name, lds, .. } in kernels {
        let wave = if isa == Isa::Gfx1100 { 32 } else { 64 };
        let _ = write!(
            text,
            "  - .name: {name}\n    .symbol: {name}.kd\n    .kernarg_segment_size: 32\n    .group_segment_fixed_size: {lds}\n    .private_segment_fixed_size: 0\n    \
             .kernarg_segment_align: 8\n    .wavefront_size: {wave}\n    .sgpr_count: 96\n    .vgpr_count: 128\n    .max_flat_workgroup_size: 1024\n"
        );
    }
    text.push_str("...\n\t.end_amdgpu_metadata\n");
    let pipe = |program: &str, args: &[&str], input: &[u8]| -> Vec<u8> {
        let missing = |e: std::io::Error| panic!("{program}: {e} (Debian's packages llvm-19 and lld-19 bring it)");
        let mut child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap_or_else(missing);
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|s| {
            s.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success(), "{program} failed on\n{}", String::from_utf8_lossy(input));
        output.stdout
    };
    let object = pipe("llvm-mc-19", &["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={isa}"), "-filetype=obj", "-o", "-", "-"], text.as_bytes());
    let dir = std::env::temp_dir().join(format!("amdgpu-interp-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (from, to) = (dir.join("a.o"), dir.join("a.co"));
    std::fs::write(&from, object).unwrap();
    let linked = Command::new("ld.lld-19")
        .args(["-shared", "-o"])
        .arg(&to)
        .arg(&from)
        .status()
        .unwrap_or_else(|e| panic!("ld.lld-19: {e} (Debian's package lld-19 brings it)"));
    assert!(linked.success());
    let code = std::fs::read(&to).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    code
}

/// Runs a kernel on an input buffer and an output buffer, both of words; their addresses are its arguments.
pub(crate) fn execute(
    code: &CodeObject,
    name: &str,
    grid: u32,
    block: u32,
    input: &[u32],
    output: usize,
    options: &Options,
) -> Result<Vec<u32>, Fault> {
    let memory = Memory::new(1 << 24);
    let (from, to) = (memory.alloc(input.len() as u64 * 4).unwrap(), memory.alloc(output as u64 * 4).unwrap());
    memory.write(from, &input.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let kernarg = [from.to_le_bytes(), to.to_le_bytes()].concat();
    let kernel = code.kernel(name).unwrap();
    run(kernel, code, &Launch { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_lds: 0, kernarg: &kernarg }, &memory, options)?;
    let mut bytes = vec![0; output * 4];
    memory.read(to, &mut bytes).unwrap();
    Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
