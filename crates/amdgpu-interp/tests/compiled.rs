//! Kernels of another style, compiled at every level of optimisation: the interpreter gives the bits that the same arithmetic gives on the host.

#![allow(clippy::precedence, reason = "expected values read as the kernels write them")]

mod assembled;
use amdgpu_interp::{CodeObject, Isa, Options};
use assembled::execute;
use std::process::Command;

fn compile(compiler: &str, isa: Isa, level: &str) -> CodeObject {
    let out = std::env::temp_dir().join(format!("amdgpu-interp-{}-{compiler}-{isa}{level}.co", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compiled/kernels.cpp");
    let flags = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-ffp-contract=off", "-Wno-unknown-attributes"];
    let mut command = Command::new(compiler);
    if compiler == "clang++-19" {
        command.arg("--no-gpu-bundle-output");
    }
    let status = command.args(flags).arg(level).arg(format!("--offload-arch={isa}")).args(["-c", source, "-o"]).arg(&out).status();
    assert!(status.unwrap_or_else(|e| panic!("{compiler}: {e} (Debian's package clang brings it)")).success(), "{compiler} {level} for {isa}");
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    CodeObject::load(&bytes).unwrap_or_else(|e| panic!("{compiler} {level} {isa}: {e}"))
}

fn floats(input: &[f32]) -> Vec<u32> {
    let one = |i: usize| {
        let t = i % 128;
        let other = i / 128 * 128 + 127 - t;
        let x = input[other] * ((other & 7) + 1) as f32;
        let mut r = 1f32;
        for k in 0..t & 7 {
            r = r * x + k as f32;
        }
        if r > 100.0 {
            r /= 3.0;
        } else if t & 1 == 1 {
            r = r.abs().sqrt() - (t / 3) as f32 * 0.5;
        } else {
            r = 1.0 / (r + 2.5);
        }
        r.to_bits()
    };
    (0..input.len()).map(one).collect()
}

fn integers(x: u32) -> u32 {
    let mut h = 0x9e37_79b9_7f4a_7c15 ^ u64::from(x);
    for k in 0..x & 15 {
        h ^= h >> 29;
        h = h.wrapping_mul(0xbf58_476d_1ce4_e5b9 + u64::from(k));
        h = h.rotate_left(x & 31);
    }
    let d = (x >> 8 & 0xff) + 1;
    let s = (x as i32 / d as i32).wrapping_sub(x as i32 % d as i32);
    let q = h / u64::from(d + 7) + h % 1_000_003;
    (h >> 32) as u32 ^ h as u32 ^ s as u32 ^ q as u32 ^ (q >> 32) as u32
}

fn narrow(x: u32) -> u32 {
    let (a, b) = (i32::from(x as i8), i32::from((x >> 8) as i16));
    let f = half::f16::from_f32(f32::from((x >> 16) as i16)).to_f32();
    (match x & 7 {
        0 => a * b,
        1 => (x.count_ones() + (x | 1).leading_zeros()) as i32,
        2 => f as i32,
        3 => a.max(b),
        4 => (f * 0.25) as i32,
        5 => i32::from((x >> 3) as u8) + i32::from((x >> 5) as u16),
        _ => (x.wrapping_mul(2_654_435_761) >> 7) as i32,
    }) as u32
}

#[test]
fn every_level_of_optimisation_gives_the_same_bits() {
    let words: Vec<u32> = (0..512u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ i << 3).collect();
    let numbers: Vec<f32> = words.iter().map(|&w| (w as i32 as f32) / 3e8).collect();
    let bits: Vec<u32> = numbers.iter().map(|x| x.to_bits()).collect();
    let mut builds: Vec<(&str, Isa)> = Isa::ALL.map(|isa| ("clang++-19", isa)).into();
    // Debian's hipcc brings another generation of the compiler, which knows gfx90a
    if Command::new("clang++-15").arg("--version").output().is_ok() {
        builds.push(("clang++-15", Isa::Gfx90a));
    }
    for (compiler, isa) in builds {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            let code = compile(compiler, isa, level);
            let go = |name: &str, input: &[u32]| {
                execute(&code, name, 4, 128, input, 512, &Options::default()).unwrap_or_else(|e| panic!("{compiler} {level}: {e}"))
            };
            let same = |name: &str, got: Vec<u32>, want: Vec<u32>| {
                if let Some(i) = (0..512).find(|&i| got[i] != want[i]) {
                    panic!("{compiler} {level} {isa}: {name}[{i}] of {:#x} is {:#x}, the host gives {:#x}", words[i], got[i], want[i]);
                }
            };
            same("floats", go("floats", &bits), floats(&numbers));
            same("integers", go("integers", &words), words.iter().map(|&x| integers(x)).collect());
            same("narrow", go("narrow", &words), words.iter().map(|&x| narrow(x)).collect());
        }
    }
}
