use std::fmt::Write;
use warpwave_core::{Variant, layout};

/// The C++ source of one instantiation: the same text for every compiler. Which `warpwave/target/entry.h` it finds decides the rest.
///
/// The layout of the argument block is asserted field by field; the Rust side encodes by the same table.
pub fn translation_unit(v: &Variant) -> String {
    let params = crate::params(v.id.kernel);
    let (offsets, size) = layout(params);
    let mut out = String::new();
    let symbol = v.id.symbol();
    // a namespace of its own, so that several units can be concatenated into one file
    let _ = write!(
        out,
        "// {}\n#include <warpwave/target/entry.h>\n#include <warpwave/{}>\nnamespace {symbol}_ {{\nconstexpr ww::{} kConfig{{{}}};\nusing Op = ww::{}<kConfig>;\nusing Params = Op::Params;\n",
        v.id, v.header, v.config_type, v.config, v.template
    );
    let _ = writeln!(out, "static_assert(sizeof(Params) == {size}, \"the argument block differs from the plan's\");");
    for (p, at) in params.iter().zip(offsets) {
        let _ = writeln!(out, "static_assert(__builtin_offsetof(Params, {}) == {at}, \"{}\");", p.name, p.name);
    }
    let _ = writeln!(out, "}}\nWW_KERNEL({symbol}, {symbol}_::Op, {}, {})", v.shared, v.threads);
    out
}
