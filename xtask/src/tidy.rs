//! `cargo xtask tidy`: the rules of the house, as checks.

use crate::support::root;
use crate::support::source::{code, words};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;
use warpwave_core::{Target, Variant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this rule.
    #[arg(long)]
    rule: Option<String>,
    /// List the rules.
    #[arg(long)]
    list: bool,
}

/// The files of the checkout that git does not ignore, by path below the root. What is no text is empty.
#[derive(Default)]
struct Tree(BTreeMap<String, String>);

struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

struct Rule {
    name: &'static str,
    says: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "op-template", says: "an op's template names no thread, vendor, #if or asm", check: op_template },
    Rule { name: "backend", says: "a backend names no op", check: backend },
    Rule { name: "no-unsafe", says: "core and kernels hold no unsafe and no FFI", check: no_unsafe },
    Rule { name: "build-script", says: "no build script runs a device compiler", check: build_script },
    Rule { name: "generated", says: "nothing generated is committed", check: generated },
    Rule { name: "op-files", says: "an op is <op>.rs, its reference.rs, its header and a line in ops/mod.rs", check: op_files },
    Rule { name: "reference", says: "a reference shares nothing with its op's template and plans", check: reference },
    Rule { name: "fuzz-glue", says: "a fuzz target is glue: 20 lines at most", check: fuzz_glue },
    Rule { name: "safety", says: "every unsafe block and impl says why it is sound", check: safety },
    Rule { name: "unfinished", says: "nothing unfinished and no skipped test", check: unfinished },
    Rule { name: "machine-path", says: "no path of somebody's machine", check: machine_path },
    Rule { name: "line-length", says: "C++ lines have 160 columns at most", check: line_length },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for rule in RULES {
            println!("{:<14}{}", rule.name, rule.says);
        }
        println!("{:<14}the variant table keeps its budget, and every op file is registered", "variants");
        return Ok(());
    }
    let root = root()?;
    let tree = read(&root)?;
    let chosen = |name: &str| args.rule.as_ref().is_none_or(|r| r == name);
    let mut count = 0;
    let mut report = |name: &str, says: &str, findings: Vec<Finding>| {
        count += findings.len();
        if !findings.is_empty() {
            println!("{name}: {says}");
        }
        findings.iter().for_each(|f| println!("  {f}"));
    };
    ensure!(args.rule.as_ref().is_none_or(|r| r == "variants" || RULES.iter().any(|x| x.name == r)), "no such rule; --list shows them");
    for rule in RULES.iter().filter(|r| chosen(r.name)) {
        report(rule.name, rule.says, (rule.check)(&tree));
    }
    if chosen("variants") {
        let names: Vec<&str> = warpwave_kernels::ops().iter().map(|o| o.signature().op).collect();
        let mut findings = registry(&tree, &names);
        for target in Target::ALL {
            let by_op: Vec<_> = warpwave_kernels::ops().iter().map(|op| op.variants(target)).collect();
            findings.extend(budget(&tree, target, &by_op));
        }
        report("variants", "the variant table keeps its budget, and every op file is registered", findings);
    }
    if count > 0 {
        bail!("{count} findings");
    }
    println!("tidy: {} files, nothing found", tree.0.len());
    Ok(())
}

fn read(root: &Path) -> Result<Tree> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let output = output.context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    let names = String::from_utf8(output.stdout)?;
    let names = names.split('\0').filter(|n| !n.is_empty() && root.join(n).is_file());
    Ok(Tree(names.map(|n| (n.to_owned(), std::fs::read_to_string(root.join(n)).unwrap_or_default())).collect()))
}

/// What the rules on files find in a checkout.
#[cfg(test)]
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let tree = read(root)?;
    Ok(RULES.iter().flat_map(|r| (r.check)(&tree)).map(|f| f.to_string()).collect())
}

impl Tree {
    fn files(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, t)| (n.as_str(), t.as_str())).filter(move |(n, _)| wanted(n))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names of the op files.
    fn ops(&self) -> BTreeSet<&str> {
        let names = self.0.keys().filter_map(|n| n.strip_prefix("crates/kernels/src/ops/")?.strip_suffix(".rs"));
        names.filter(|n| *n != "mod" && !n.contains('/')).collect()
    }
}

fn extension(name: &str) -> &str {
    name.rsplit('/').next().and_then(|n| n.rsplit_once('.')).map_or("", |(_, e)| e)
}

fn is_cpp(name: &str) -> bool {
    matches!(extension(name), "h" | "cpp" | "cu" | "cuh" | "hip")
}

/// Runs `check` on each line; what it returns is reported there.
fn by_line<'a>(file: &'a str, text: &'a str, check: impl Fn(&'a str) -> Option<String> + 'a) -> impl Iterator<Item = Finding> + 'a {
    let lines = text.lines().enumerate();
    lines.filter_map(move |(i, line)| check(line).map(|what| Finding { file: file.into(), line: i + 1, what }))
}

fn op_template(tree: &Tree) -> Vec<Finding> {
    // whole words, and words that begin so
    const WORDS: &[&str] = &["threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "asm", "__asm", "__asm__", "nvidia", "rocm", "volatile"];
    const STARTS: &[&str] =
        &["__syncthreads", "__syncwarp", "__shfl", "__builtin_amdgcn", "__nv", "__CUDA", "__HIP", "__AMD", "__global__", "__device__"];
    const MORE: &[&str] = &["__host__", "__shared__", "__launch_bounds__", "cuda", "hip", "CUDA", "HIP", "__ballot", "__activemask", "__threadfence"];
    let bad = |line: &str| {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        if let Some(d) = directive {
            let include = d.strip_prefix("include").map(str::trim_start);
            let good = match include {
                Some(name) => name.starts_with("<warpwave/tile/") || name.starts_with("<warpwave/ops/"),
                None => d.starts_with("pragma once"),
            };
            return (!good).then(|| format!("`{}`", line.trim()));
        }
        let word = words(line).find(|w| WORDS.contains(w) || STARTS.iter().chain(MORE).any(|s| w.starts_with(s)))?;
        Some(format!("names `{word}`"))
    };
    let headers = tree.files(|n| n.starts_with("crates/kernels/include/warpwave/ops/"));
    headers.flat_map(|(n, t)| by_line(n, &code(t, true), bad).collect::<Vec<_>>()).collect()
}

/// The text up to its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn camel(name: &str) -> String {
    name.split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect()
}

fn backend(tree: &Tree) -> Vec<Finding> {
    // words of their own in any code that moves memory or computes
    const COMMON: &[&str] = &["add", "cast", "copy", "fill", "transpose"];
    let ops: Vec<(&str, String)> = tree.ops().into_iter().filter(|o| !COMMON.contains(o)).map(|o| (o, camel(o))).collect();
    let names = |line: &str| {
        let is = |w: &str| ops.iter().find(|(op, camel)| w == *op || w == camel.as_str() || w.strip_prefix("ww_").is_some_and(|r| r.starts_with(op)));
        words(line).find_map(is).map(|(op, _)| format!("names the op `{op}`"))
    };
    let here = |n: &str| {
        let part = ["crates/cuda/src/", "crates/hip/src/", "crates/cpu/src/", "crates/cpu/arch/", "crates/cpu/native/", "crates/hal/src/"];
        let part =
            part.iter().any(|p| n.starts_with(p)) || ["cuda/include/", "cuda/arch/", "hip/include/", "hip/arch/"].iter().any(|p| n.starts_with(p));
        part && (extension(n) == "rs" || is_cpp(n))
    };
    tree.files(here).flat_map(|(n, t)| by_line(n, &code(without_tests(t), true), names).collect::<Vec<_>>()).collect()
}

fn no_unsafe(tree: &Tree) -> Vec<Finding> {
    let mut out = Vec::new();
    for crate_ in ["core", "kernels"] {
        let lib = format!("crates/{crate_}/src/lib.rs");
        if !tree.0.get(&lib).is_some_and(|t| t.contains("#![forbid(unsafe_code)]")) {
            out.push(Finding { file: lib, line: 1, what: "no #![forbid(unsafe_code)]".into() });
        }
        let prefix = format!("crates/{crate_}/src/");
        for (n, t) in tree.files(|n| n.starts_with(&prefix) && extension(n) == "rs") {
            let bare = code(t, false);
            out.extend(by_line(n, &bare, |line| words(line).find(|w| *w == "extern").map(|w| format!("`{w}`"))));
        }
    }
    out
}

fn build_script(tree: &Tree) -> Vec<Finding> {
    const TOOLS: &[&str] = &["nvcc", "hipcc", "ptxas", "amdclang", "clang-offload", "offload-arch", "cuda-device-only", "fatbinary"];
    let bad = |line: &str| TOOLS.iter().find(|t| line.contains(**t)).map(|t| format!("names `{t}`"));
    // a module of a command may bear that name
    let scripts = tree.files(|n| n.rsplit('/').next() == Some("build.rs") && !n.contains("/src/"));
    scripts.flat_map(|(n, t)| by_line(n, &code(t, true), bad).collect::<Vec<_>>()).collect()
}

fn generated(tree: &Tree) -> Vec<Finding> {
    const ENDS: &[&str] =
        &[".snap.new", ".pending-snap", ".cubin", ".ptx", ".hsaco", ".fatbin", ".wwk", ".o", ".so", ".a", ".rlib", ".profraw", ".ncu-rep"];
    const FOLDERS: &[&str] = &["target/", "fuzz/target/", "fuzz/corpus/", "fuzz/artifacts/", "fuzz/coverage/"];
    let bad = |n: &str| {
        ENDS.iter().any(|e| n.ends_with(e))
            || FOLDERS.iter().any(|f| n.starts_with(f) || n.contains(&format!("/{f}")) && *f == "target/" && !is_cpp(n))
    };
    tree.files(bad).map(|(n, _)| Finding { file: n.into(), line: 1, what: "is made by a command".into() }).collect()
}

/// The headers that an op file names: strings `ops/<name>.h`.
fn headers_of(text: &str) -> Vec<&str> {
    text.split('"').filter(|s| s.starts_with("ops/") && s.ends_with(".h")).collect()
}

fn op_files(tree: &Tree) -> Vec<Finding> {
    let list = tree.0.get("crates/kernels/src/ops/mod.rs").map(|t| code(t, false)).unwrap_or_default();
    let mut out = Vec::new();
    for op in tree.ops() {
        let file = format!("crates/kernels/src/ops/{op}.rs");
        let mut miss = |what: String| out.push(Finding { file: file.clone(), line: 1, what });
        if !tree.has(&format!("crates/kernels/src/ops/{op}/reference.rs")) {
            miss(format!("no {op}/reference.rs beside it"));
        }
        let text = &tree.0[&file];
        let headers = headers_of(text);
        let bare = code(text, false);
        let borrows = tree.ops().iter().any(|o| *o != op && [format!("super::{o}"), format!("ops::{o}")].iter().any(|p| bare.contains(p)));
        if headers.is_empty() && !borrows {
            miss("names no header, and no other op whose kernels it runs".into());
        }
        for header in headers.iter().filter(|h| !tree.has(&format!("crates/kernels/include/warpwave/{h}"))) {
            miss(format!("there is no include/warpwave/{header}"));
        }
        if !words(&list).any(|w| w == op) {
            miss("ops/mod.rs does not name it".into());
        }
    }
    for (file, _) in tree.files(|n| n.starts_with("crates/kernels/src/ops/")) {
        let folder = file["crates/kernels/src/ops/".len()..].split_once('/').map(|(folder, _)| folder);
        if folder.is_some_and(|f| f != "snapshots" && !tree.ops().contains(f)) {
            out.push(Finding { file: file.into(), line: 1, what: "belongs to no op".into() });
        }
    }
    out
}

fn reference(tree: &Tree) -> Vec<Finding> {
    const WORDS: &[&str] = &["plan", "plans", "variants", "translation_unit", "include", "include_str", "include_bytes", "INCLUDE_DIR"];
    let bad = |line: &str| {
        let word = words(line).find(|w| WORDS.contains(w));
        word.map(|w| format!("uses `{w}`")).or_else(|| line.contains(".h\"").then(|| "names a header".into()))
    };
    let all = tree.files(|n| n.starts_with("crates/kernels/src/ops/") && n.ends_with("/reference.rs"));
    all.flat_map(|(n, t)| by_line(n, &code(t, true), bad).collect::<Vec<_>>()).collect()
}

fn fuzz_glue(tree: &Tree) -> Vec<Finding> {
    let all = tree.files(|n| n.starts_with("fuzz/fuzz_targets/") && extension(n) == "rs");
    let long = all.filter(|(_, t)| t.lines().count() > 20);
    long.map(|(n, t)| Finding { file: n.into(), line: 21, what: format!("{} lines", t.lines().count()) }).collect()
}

fn safety(tree: &Tree) -> Vec<Finding> {
    let mut out = Vec::new();
    for (n, t) in tree.files(|n| extension(n) == "rs") {
        let bare = code(t, false);
        let (text, bare): (Vec<&str>, Vec<&str>) = (t.lines().collect(), bare.lines().collect());
        for (i, line) in bare.iter().enumerate() {
            let Some((_, after)) = line.split_once("unsafe") else { continue };
            let whole = words(line).any(|w| w == "unsafe");
            let next = after.trim_start();
            // a brace on the next line is one that rustfmt put there
            let block = next.starts_with('{')
                || next.starts_with("impl")
                || next.is_empty() && bare.get(i + 1).is_some_and(|l| l.trim_start().starts_with('{'));
            if whole && block && !explained(&text, &bare, i) {
                out.push(Finding { file: n.into(), line: i + 1, what: "no SAFETY comment".into() });
            }
        }
    }
    out
}

/// Whether the statement of line `i`, or the comment above it, says SAFETY.
fn explained(text: &[&str], bare: &[&str], i: usize) -> bool {
    let is_safety = |l: &str| l.contains("SAFETY");
    if is_safety(text[i]) {
        return true;
    }
    for j in (0..i).rev() {
        let comment = bare[j].trim().is_empty() && !text[j].trim().is_empty();
        if is_safety(text[j]) && (comment || text[j].contains("//")) {
            return true;
        }
        let ends = |s: &str| s.ends_with(';') || s.ends_with('}') || s.ends_with('{') || s.ends_with(',') && j + 8 < i;
        if !comment && (text[j].trim().is_empty() || ends(bare[j].trim_end())) {
            return false;
        }
    }
    false
}

fn unfinished(tree: &Tree) -> Vec<Finding> {
    // in two pieces, so that this file passes its own rule
    const MARKS: &[&str] = &[concat!("to", "do!"), concat!("unimple", "mented!"), concat!("FIX", "ME"), concat!("TO", "DO"), concat!("#[ig", "nore")];
    let bad = |line: &str| MARKS.iter().find(|m| line.contains(**m)).map(|m| format!("`{m}`"));
    let here = |n: &str| is_cpp(n) || matches!(extension(n), "rs" | "toml" | "sh" | "py" | "yml");
    tree.files(here).flat_map(|(n, t)| by_line(n, t, bad).collect::<Vec<_>>()).collect()
}

fn machine_path(tree: &Tree) -> Vec<Finding> {
    const EVERYWHERE: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];
    const DOCS: &[&str] = &[concat!("/t", "mp/")];
    let docs = |n: &str| matches!(extension(n), "md" | "sh" | "py" | "toml" | "yml" | "yaml" | "txt" | "ron");
    let here = |n: &str| docs(n) || is_cpp(n) || extension(n) == "rs";
    let find = |n: &'static str, line: &str| {
        let at = line.find(n)?;
        // in the middle of a longer path it is just a folder's name
        let inner = line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')'));
        (!inner).then(|| format!("`{n}`"))
    };
    let mut out = Vec::new();
    for (n, t) in tree.files(here) {
        let all = EVERYWHERE.iter().chain(if docs(n) { DOCS } else { &[] });
        let all: Vec<&'static str> = all.copied().collect();
        out.extend(by_line(n, t, |line| all.iter().find_map(|p| find(p, line))));
    }
    out
}

fn line_length(tree: &Tree) -> Vec<Finding> {
    let long = |line: &str| Some(line.chars().count()).filter(|n| *n > 160).map(|n| format!("{n} columns"));
    tree.files(is_cpp).flat_map(|(n, t)| by_line(n, t, long).collect::<Vec<_>>()).collect()
}

fn registry(tree: &Tree, registered: &[&str]) -> Vec<Finding> {
    let files = tree.ops();
    let missing =
        files.iter().filter(|f| !registered.contains(f)).map(|f| (format!("crates/kernels/src/ops/{f}.rs"), "is not in the registry".to_owned()));
    let unfiled = registered
        .iter()
        .filter(|r| !files.contains(**r))
        .map(|r| ("crates/kernels/src/ops/mod.rs".to_owned(), format!("`{r}` has no file of its name")));
    missing.chain(unfiled).map(|(file, what)| Finding { file, line: 1, what }).collect()
}

/// Variants of a target.
const TARGET_BUDGET: usize = 400;
/// Variants of a row op and one group of dtypes.
const ROW_BUDGET: usize = 12;

/// Of all ops on a target.
fn budget(tree: &Tree, target: Target, by_op: &[Vec<Variant>]) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut over = |what: String| out.push(Finding { file: "crates/kernels/src/ops/mod.rs".into(), line: 1, what });
    let all: BTreeSet<String> = by_op.iter().flatten().map(|v| v.id.to_string()).collect();
    if all.len() > TARGET_BUDGET {
        over(format!("{target}: {} variants, more than {TARGET_BUDGET}", all.len()));
    }
    for variants in by_op {
        let mut rows: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for v in variants {
            let header = tree.0.get(&format!("crates/kernels/include/warpwave/{}", v.header));
            if header.is_some_and(|h| h.contains("kShape")) {
                *rows.entry((v.id.kernel, v.id.tag.split('.').next().unwrap_or_default())).or_default() += 1;
            }
        }
        for ((kernel, dtypes), n) in rows.into_iter().filter(|(_, n)| *n > ROW_BUDGET) {
            over(format!("{target}: {n} variants of {kernel} for {dtypes}, more than {ROW_BUDGET}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwave_core::{Arch, BuildSet, KernelId};

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect())
    }

    /// Each file alone must give as many findings as are stated.
    fn each(check: fn(&Tree) -> Vec<Finding>, cases: &[(&str, &str, usize)]) {
        for (name, text, expected) in cases {
            let found = check(&tree(&[(name, text)]));
            assert_eq!(found.len(), *expected, "{name}: {text}: {:?}", found.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
    }

    const OPS: &str = "crates/kernels/include/warpwave/ops/a.h";

    #[test]
    fn op_templates_name_no_thread_vendor_if_or_asm() {
        each(
            op_template,
            &[
                (OPS, "// cuda, threadIdx: a comment\n#pragma once\n#include <warpwave/tile/rows.h>\nint asmodeus, chip;\n", 0),
                (OPS, "int i = threadIdx.x;", 1),
                (OPS, "__syncthreads();", 1),
                (OPS, "x = __shfl_xor_sync(m, x, 1);", 1),
                (OPS, "asm volatile(\"x\");", 1),
                (OPS, "#if X\n#endif\n", 2),
                (OPS, "#  ifdef __CUDA_ARCH__", 1),
                (OPS, "#include <cuda_fp16.h>", 1),
                (OPS, "cudaError_t e;", 1),
                (OPS, "__builtin_amdgcn_s_barrier();", 1),
                ("cuda/arch/a.h", "int i = threadIdx.x;", 0),
            ],
        );
    }

    #[test]
    fn backends_name_no_op() {
        let op = ("crates/kernels/src/ops/rms_norm.rs", "");
        let run = |name, text| backend(&tree(&[op, (name, text)])).len();
        assert_eq!(run("crates/cuda/src/lib.rs", "// rms_norm is fine here\nfn launch() {}\n#[cfg(test)]\nmod tests { fn rms_norm() {} }"), 0);
        assert_eq!(run("crates/cuda/src/lib.rs", "fn rms_norm() {}"), 1);
        assert_eq!(run("crates/hal/src/lib.rs", "match op { Op::RmsNorm => 1 }"), 1);
        assert_eq!(run("crates/hip/src/lib.rs", "load(\"ww_rms_norm_f32\")"), 1);
        assert_eq!(run("hip/arch/gfx9/x.h", "struct RmsNorm;"), 1);
        assert_eq!(run("crates/conformance/src/lib.rs", "fn rms_norm() {}"), 0);
    }

    #[test]
    fn core_and_kernels_forbid_unsafe() {
        const GOOD: &str = "//! extern\n#![forbid(unsafe_code)]\nconst S: &str = \"extern\";\n";
        let run = |core, kernels| no_unsafe(&tree(&[("crates/core/src/lib.rs", core), ("crates/kernels/src/lib.rs", kernels)])).len();
        assert_eq!(run(GOOD, GOOD), 0);
        assert_eq!(run(GOOD, "//! x"), 1);
        assert_eq!(run(&format!("{GOOD}extern \"C\" fn f() {{}}"), GOOD), 1);
    }

    #[test]
    fn build_scripts_run_no_device_compiler() {
        each(
            build_script,
            &[
                ("crates/cpu/build.rs", "// nvcc is not run\ncc::Build::new();", 0),
                ("crates/cuda/build.rs", "Command::new(\"nvcc\")", 1),
                ("build.rs", "flag(\"--offload-arch=gfx942\")", 1),
                ("xtask/src/build.rs", "Command::new(\"nvcc\")", 0),
            ],
        );
    }

    #[test]
    fn generated_files_stay_out() {
        each(
            generated,
            &[
                ("a/b.snap", "", 0),
                ("a/b.snap.new", "", 1),
                ("fuzz/corpus/x/1", "", 1),
                ("target/debug/x", "", 1),
                ("cuda/arch/sm90/warpwave/target/entry.h", "", 0),
                ("k.cubin", "", 1),
                ("fuzz/seeds/a.ron", "", 0),
            ],
        );
    }

    #[test]
    fn an_op_is_four_files() {
        let all = [
            ("crates/kernels/src/ops/mod.rs", "pub mod a;"),
            ("crates/kernels/src/ops/a.rs", "x(\"ops/a.h\")"),
            ("crates/kernels/src/ops/a/reference.rs", ""),
            (OPS, ""),
        ];
        assert_eq!(op_files(&tree(&all)).len(), 0);
        for gone in [0, 2, 3] {
            let left: Vec<_> = all.iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, f)| *f).collect();
            assert_eq!(op_files(&tree(&left)).len(), 1, "without {}", all[gone].0);
        }
        let extra = [&all[..], &[("crates/kernels/src/ops/b/reference.rs", "")]].concat();
        assert_eq!(op_files(&tree(&extra)).len(), 1);
        let headless = [all[0], ("crates/kernels/src/ops/a.rs", ""), all[2], all[3]];
        assert_eq!(op_files(&tree(&headless)).len(), 1);
        let b = [
            ("crates/kernels/src/ops/mod.rs", "pub mod a; pub mod b;"),
            ("crates/kernels/src/ops/b.rs", "use super::a::id;"),
            ("crates/kernels/src/ops/b/reference.rs", ""),
        ];
        assert_eq!(op_files(&tree(&[&all[1..], &b].concat())).len(), 0);
        assert_eq!(registry(&tree(&all), &["a"]).len(), 0);
        assert_eq!(registry(&tree(&all), &["b"]).len(), 2);
    }

    #[test]
    fn references_stand_alone() {
        let name = "crates/kernels/src/ops/a/reference.rs";
        each(
            reference,
            &[
                (name, "// no plan\nuse warpwave_core::Source;", 0),
                (name, "let p = op.plan(x);", 1),
                (name, "include_str!(\"../../x\")", 1),
                (name, "const H: &str = \"ops/a.h\";", 1),
            ],
        );
    }

    #[test]
    fn fuzz_targets_are_short() {
        each(fuzz_glue, &[("fuzz/fuzz_targets/a.rs", &"x\n".repeat(20), 0), ("fuzz/fuzz_targets/a.rs", &"x\n".repeat(21), 1)]);
    }

    #[test]
    fn unsafe_is_explained() {
        each(
            safety,
            &[
                ("a.rs", "// SAFETY: checked above\nunsafe { f() }", 0),
                ("a.rs", "// SAFETY: checked above,\n// twice\n#[inline]\nunsafe impl Send for X {}", 0),
                ("a.rs", "// SAFETY: checked\nlet x =\n    unsafe { f() };", 0),
                ("a.rs", "let x = unsafe { f() }; // SAFETY: checked", 0),
                ("a.rs", "let x = unsafe { f() };", 1),
                ("a.rs", "// SAFETY: of the first\nunsafe { f() };\nunsafe { g() };", 1),
                ("a.rs", "unsafe impl Send for X {}", 1),
                ("a.rs", "/// unsafe { in a comment }\nunsafe fn f() {}\nlet s = \"unsafe {\";", 0),
            ],
        );
    }

    #[test]
    fn nothing_is_unfinished() {
        for mark in [concat!("to", "do!()"), concat!("unimple", "mented!()"), concat!("// FIX", "ME"), concat!("#[ig", "nore]")] {
            each(unfinished, &[("a.rs", mark, 1), ("a.md", mark, 0)]);
        }
        each(unfinished, &[("a.rs", "fn to_do() {}", 0)]);
    }

    #[test]
    fn no_machine_paths() {
        let (tmp, own) = (concat!("run /t", "mp/x"), concat!("see /wo", "rk/x"));
        each(machine_path, &[("a.md", tmp, 1), ("a.rs", tmp, 0), ("a.rs", own, 1), ("a.sh", own, 1), ("a.md", concat!("$DIR/a/wo", "rk/x"), 0)]);
    }

    #[test]
    fn cpp_lines_are_short() {
        let line = |n: usize| "x".repeat(n);
        each(line_length, &[("a.h", &line(160), 0), ("a.h", &line(161), 1), ("a.md", &line(161), 0)]);
    }

    #[test]
    fn variants_keep_their_budget() {
        let variant = |i: usize, dtype: &str| Variant {
            id: KernelId { kernel: "a", tag: format!("{dtype}.{i}"), target: Target::Sm80 },
            arch: Arch::Sm80,
            header: "ops/a.h",
            template: "A",
            config_type: "AConfig",
            config: String::new(),
            threads: 32,
            shared: 0,
            set: BuildSet::Full,
        };
        let run = |header: &str, n: usize, dtypes: &[&str]| {
            let all: Vec<Variant> = dtypes.iter().flat_map(|d| (0..n).map(|i| variant(i, d))).collect();
            // a kernel that two ops share counts once for each
            budget(&tree(&[(OPS, header)]), Target::Sm80, &[all.clone(), all]).len()
        };
        assert_eq!(run("kShape", 12, &["f32", "bf16"]), 0);
        assert_eq!(run("kShape", 13, &["f32", "bf16"]), 4);
        assert_eq!(run("Rings", 400, &["f32"]), 0);
        assert_eq!(run("Rings", 401, &["f32"]), 1);
    }
}
