//! Compiles every host instantiation with the C++ compiler that `cc` finds (`CXX`, `CXXFLAGS`) and writes the table of their symbols.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use warpwave_core::{ArgType, Target, Variant, layout};
use warpwave_kernels::{INCLUDE_DIR, params, translation_unit, variants};

/// Instantiations in one file: enough to share the cost of the headers, few enough to keep all cores busy.
const UNITS_PER_FILE: usize = 6;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for dir in ["arch", "native", INCLUDE_DIR] {
        println!("cargo::rerun-if-changed={dir}");
    }

    // What does not depend on the warp width is compiled once: matrix ops add in an order of their own.
    let mut symbols: HashMap<String, String> = HashMap::new();
    let mut files: BTreeMap<(Target, &str), Vec<Variant>> = BTreeMap::new();
    let mut table: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for target in [Target::Host32, Target::Host64] {
        for v in variants(target) {
            let fields = params(v.id.kernel);
            let any_width = fields.iter().any(|p| p.ty == ArgType::View);
            let key = format!("{} {} {{{}}} {}", v.header, v.template, v.config, if any_width { "any" } else { target.name() });
            let symbol = symbols.get(&key).cloned().unwrap_or_else(|| {
                let symbol = v.id.symbol();
                files.entry((target, v.id.kernel)).or_default().push(v.clone());
                symbols.insert(key, symbol.clone());
                symbol
            });
            table.insert(v.id.to_string(), (symbol, layout(fields).1));
        }
    }

    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).debug(false).include("arch").include(INCLUDE_DIR).file("native/schedule.cpp");
    // Lines for sanitizers, loops with comparisons vectorise, the same roundings on every processor.
    for flag in ["-g1", "-Wall", "-Wextra", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"] {
        build.flag(flag);
    }
    if build.get_compiler().is_like_gnu() {
        build.flag("-fvect-cost-model=dynamic"); // g++ vectorises only the simplest loops at -O2
    }
    for ((target, kernel), units) in &files {
        for (i, units) in units.chunks(UNITS_PER_FILE).enumerate() {
            let mut text = format!("#define WARPWAVE_WARP_WIDTH {}\n", target.warp_width());
            units.iter().for_each(|v| text.push_str(&translation_unit(v)));
            let path = out.join(format!("{kernel}_{target}_{i}.cpp"));
            write(&path, &text);
            build.file(path);
        }
    }
    build.compile("warpwave_host");

    let mut text = String::from("unsafe extern \"C\" {\n");
    let mut declared: Vec<&String> = symbols.values().collect();
    declared.sort();
    for s in declared {
        let _ =
            writeln!(text, "    fn {s}(args: *const c_void, first: i64, last: i64);\n    fn {s}_programs(args: *const c_void, blocks: i64) -> i64;");
    }
    text.push_str("}\n/// By name, sorted.\npub(crate) static KERNELS: &[Kernel] = &[\n");
    for (id, (symbol, args)) in &table {
        let _ = writeln!(text, "    Kernel {{ id: \"{id}\", args: {args}, run: {symbol}, programs: {symbol}_programs }},");
    }
    text.push_str("];\n");
    write(&out.join("kernels.rs"), &text);
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
