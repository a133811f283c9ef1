//! What a case file may say. Whatever is not listed here is rejected, so that no key is silently ignored.

use super::formula::Formula;
use super::{Case, CaseError, Rule};
use toml::{Table, Value};

/// What a value must be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Int(i64),
    Ints(i64),
    Number,
    /// In [0, 1].
    Share,
    Numbers,
    NumberOrNumbers,
    Bool,
    Text,
    OneOf(&'static [&'static str]),
    Ranges,
    /// Flat indices or lists of them.
    Places,
    Pair,
    With,
}

const DTYPES: &[&str] = &["f64", "f32", "f16", "bf16", "int4", "int8", "fp8_e4m3fn", "fp8_e4m3fnuz", "fp8_e5m2", "fp8_e5m2fnuz"];

const OPS: &[&str] = &[
    "vector_add",
    "relu_dropout",
    "softmax",
    "log_softmax",
    "matmul",
    "dequant_matmul",
    "attention",
    "attention_bwd",
    "paged_attention",
    "merge_states",
    "rms_norm",
    "rms_norm_bwd",
    "layer_norm",
    "layer_norm_bwd",
    "add_rms_norm",
    "silu_mul",
    "gelu",
    "gelu_bwd",
    "rope",
    "kv_cache_write",
    "sampling",
    "quantize",
    "dequantize",
    "fused_linear_cross_entropy",
];

const KINDS: &[&str] = &[
    "fully-masked-row",
    "causal-alignment",
    "empty-extent",
    "head-dim",
    "ragged-tile",
    "gqa-map",
    "window-edge",
    "offset-overflow",
    "launch-limit",
    "misaligned-vector",
    "strided-input",
    "uninit-garbage",
    "nonfinite-input",
    "narrow-intermediate",
    "cancellation",
    "exp-tanh-softcap",
    "sink-lse-merge",
    "split-reduction",
    "race-nondeterminism",
    "dropout-rng",
    "wave-size",
    "block-assumption",
    "rope-layout",
    "paged-slot",
    "sampling-boundary",
    "sampling-degenerate",
    "zero-divisor",
    "quant-encoding",
    "quant-group",
    "loss-labels",
];

const PARAMS: &[&str] = &[
    "n",
    "rows",
    "cols",
    "N",
    "C",
    "H",
    "W",
    "M",
    "K",
    "B",
    "Hq",
    "Hkv",
    "Hh",
    "Lq",
    "Lk",
    "D",
    "Dv",
    "rot",
    "T",
    "F",
    "BT",
    "V",
    "total_q",
    "total_k",
    "max_q",
    "max_k",
    "blocks",
    "page",
    "pool_pages",
    "n_slots",
    "table_len",
    "group",
    "draws",
];

const TENSORS: &[&str] = &[
    "x", "y", "a", "b", "c", "q", "k", "v", "w", "labels", "pos", "gamma", "beta", "dy", "mask", "do", "go", "probs", "bias", "residual", "slots",
    "w_q", "scale", "zero", "gate_up", "logits", "gate", "up", "u", "o_a", "lse_a", "o_b", "lse_b", "codes", "cos", "sin",
];

/// Outputs of each op; all others have `out` alone.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("attention", &["out", "lse"]),
    ("paged_attention", &["out", "lse"]),
    ("merge_states", &["out", "lse"]),
    ("attention_bwd", &["dq", "dk", "dv"]),
    ("rms_norm_bwd", &["dx", "dw"]),
    ("layer_norm_bwd", &["dx", "dgamma", "dbeta"]),
    ("gelu_bwd", &["dx"]),
    ("add_rms_norm", &["out", "residual_out"]),
    ("rope", &["out", "out_q", "out_k"]),
    ("kv_cache_write", &["k_cache", "v_cache"]),
    ("sampling", &["token", "kept"]),
    ("quantize", &["codes", "scale", "dq"]),
    ("fused_linear_cross_entropy", &["loss", "dx", "dw"]),
];

const ALL: &[&str] = &[];

/// Name, values, ops that take it (none: every op).
const FLAGS: &[(&str, Kind, &[&str])] = &[
    ("gap_value", Kind::Number, ALL),
    ("unused_value", Kind::Number, ALL),
    ("out_prefill", Kind::Number, ALL),
    ("sample", Kind::Ranges, ALL),
    ("alias", Kind::OneOf(TENSORS), &["rms_norm_bwd"]),
    ("p", Kind::Share, &["relu_dropout", "attention"]),
    ("relu", Kind::Bool, &["relu_dropout"]),
    ("seed", Kind::Int(0), ALL),
    ("axis", Kind::Int(0), &["softmax"]),
    ("masked", Kind::Bool, &["softmax"]),
    ("alpha", Kind::Number, &["matmul"]),
    ("beta", Kind::Number, &["matmul"]),
    ("split_k", Kind::Int(0), &["matmul", "dequant_matmul"]),
    ("epilogue", Kind::OneOf(&["silu"]), &["matmul"]),
    ("causal", Kind::Bool, ALL),
    ("align", Kind::OneOf(&["bottom_right", "top_left"]), ALL),
    ("window_left", Kind::Int(-1), ALL),
    ("window_right", Kind::Int(-1), ALL),
    ("scale", Kind::Number, ALL),
    ("softcap", Kind::Number, ALL),
    ("sink", Kind::NumberOrNumbers, ALL),
    ("num_splits", Kind::Int(0), ALL),
    ("block_q", Kind::Int(0), &["attention"]),
    ("block_k", Kind::Int(0), &["attention"]),
    ("smem_limit", Kind::Int(0), &["attention"]),
    ("cu_q", Kind::Ints(0), &["attention", "attention_bwd"]),
    ("cu_k", Kind::Ints(0), &["attention", "attention_bwd"]),
    ("seqused_q", Kind::Ints(0), &["attention", "attention_bwd"]),
    ("seqused_k", Kind::Ints(0), &["attention", "attention_bwd"]),
    ("kv_lens", Kind::Ints(0), &["paged_attention"]),
    ("page_ids", Kind::Ints(i64::MIN), &["paged_attention"]),
    ("pool_strides", Kind::Ints(0), ALL),
    ("eps", Kind::Number, ALL),
    ("approximate", Kind::OneOf(&["tanh", "erf"]), &["gelu", "gelu_bwd"]),
    ("style", Kind::OneOf(&["neox", "interleaved", "neox_proportional"]), &["rope", "kv_cache_write"]),
    ("base", Kind::Number, &["rope", "kv_cache_write"]),
    ("fused_rope", Kind::Bool, &["kv_cache_write"]),
    ("top_k", Kind::Int(0), &["sampling"]),
    ("top_p", Kind::Share, &["sampling"]),
    ("temperature", Kind::Number, &["sampling"]),
    ("scheme", Kind::OneOf(&["static", "cast", "per_row", "per_group"]), &["quantize"]),
    ("qmin", Kind::Int(-128), &["quantize"]),
    ("saturate", Kind::Bool, &["quantize"]),
    ("reduction", Kind::OneOf(&["none", "mean", "sum"]), &["fused_linear_cross_entropy"]),
    ("ignore_index", Kind::Int(i64::MIN), &["fused_linear_cross_entropy"]),
    ("label_smoothing", Kind::Share, &["fused_linear_cross_entropy"]),
    ("z_loss", Kind::Number, &["fused_linear_cross_entropy"]),
];

/// Keys of each rule beside check, of, rows, cols and only; `!` marks those that must be given.
const RULES: &[(&str, &[(&str, Kind)])] = &[
    ("reference", &[("abs", Kind::Number), ("rel", Kind::Number)]),
    ("bits", &[]),
    ("values", &[("!at", Kind::Places), ("!equals", Kind::Numbers), ("abs", Kind::Number), ("rel", Kind::Number)]),
    ("all_equal", &[("!value", Kind::Number), ("abs", Kind::Number), ("rel", Kind::Number), ("except", Kind::Number)]),
    ("finite", &[("!lo", Kind::Number), ("!hi", Kind::Number)]),
    ("nan_at", &[("at", Kind::Places)]),
    ("untouched", &[("!guard", Kind::Int(1))]),
    (
        "error",
        &[
            ("!operand", Kind::Text),
            ("!rule", Kind::OneOf(&["query_heads_multiple_of_kv_heads", "non_negative", "index_out_of_range"])),
            ("deferred", Kind::Bool),
        ],
    ),
    ("same_as", &[("!with", Kind::With), ("bits", Kind::Bool), ("times", Kind::Int(2))]),
    (
        "rate",
        &[
            ("!p", Kind::Share),
            ("!n", Kind::Int(1)),
            ("!sigma", Kind::Number),
            ("token", Kind::Int(0)),
            ("tokens", Kind::Pair),
            ("row", Kind::Int(0)),
        ],
    ),
    ("status", &[("!row", Kind::Int(0)), ("!token", Kind::Int(-1))]),
];

const CASE_KEYS: &[&str] =
    &["id", "entry", "op", "kind", "dtype", "params", "flags", "inputs", "vary", "rule", "rules", "size", "scope", "expect", "source"];

pub(super) fn number(v: &Value) -> Option<f64> {
    match v {
        Value::Integer(x) => Some(*x as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn list(v: &Value, each: impl Fn(&Value) -> bool) -> bool {
    v.as_array().is_some_and(|a| a.iter().all(each))
}

fn at_least(v: &Value, least: i64) -> bool {
    v.as_integer().is_some_and(|x| x >= least)
}

impl Kind {
    fn accepts(self, v: &Value) -> bool {
        let pair = |v: &Value| v.as_array().is_some_and(|a| a.len() == 2 && at_least(&a[0], 0) && at_least(&a[1], a[0].as_integer().unwrap_or(0)));
        match self {
            Kind::Int(least) => at_least(v, least),
            Kind::Ints(least) => list(v, |x| at_least(x, least)),
            Kind::Number => number(v).is_some(),
            Kind::Share => number(v).is_some_and(|x| (0.0..=1.0).contains(&x)),
            Kind::Numbers => list(v, |x| number(x).is_some()),
            Kind::NumberOrNumbers => number(v).is_some() || list(v, |x| number(x).is_some()),
            Kind::Bool => v.is_bool(),
            Kind::Text => v.is_str(),
            Kind::OneOf(all) => v.as_str().is_some_and(|s| all.contains(&s)),
            Kind::Ranges => list(v, pair),
            Kind::Places => list(v, |x| at_least(x, 0)) || list(v, |x| list(x, |y| at_least(y, 0))),
            Kind::Pair => pair(v),
            Kind::With => v.is_table(),
        }
    }
}

/// Names of the outputs of an op.
pub(super) fn outputs(op: &str) -> &'static [&'static str] {
    OUTPUTS.iter().find(|o| o.0 == op).map_or(&["out"], |o| o.1)
}

/// Whether a flag `<tensor>_<property>` names a tensor of the op.
fn tensor_flag<'a>(name: &'a str, property: &str, op: &str) -> Option<&'a str> {
    name.strip_suffix(property)?.strip_suffix('_').filter(|t| TENSORS.contains(t) || outputs(op).contains(t))
}

fn check_flag(op: &str, name: &str, value: &Value) -> Result<(), String> {
    let (kind, ops) = if tensor_flag(name, "strides", op).is_some() {
        (Kind::Ints(0), ALL)
    } else if tensor_flag(name, "offset", op).is_some() {
        (Kind::Int(0), ALL)
    } else if tensor_flag(name, "dtype", op).is_some() {
        (Kind::OneOf(DTYPES), ALL)
    } else {
        let f = FLAGS.iter().find(|f| f.0 == name).ok_or("unknown flag")?;
        (f.1, f.2)
    };
    let name = if op == "log_softmax" { "softmax" } else { op };
    if !(ops.is_empty() || ops.contains(&name)) {
        return Err(format!("no flag of {op}"));
    }
    if kind.accepts(value) { Ok(()) } else { Err(format!("value {value} is not allowed")) }
}

/// What a name in `vary` or `with` replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Replaces {
    Param,
    Flag,
    Input,
    DType,
}

pub(super) fn replaces(case: &Case, name: &str, value: &Value) -> Result<Replaces, String> {
    if name == "dtype" {
        return if Kind::OneOf(DTYPES).accepts(value) { Ok(Replaces::DType) } else { Err("unknown dtype".into()) };
    }
    if case.inputs.contains_key(name)
        && let Some(text) = value.as_str()
    {
        return text.parse::<Formula>().map(|_| Replaces::Input);
    }
    if PARAMS.contains(&name) {
        return if at_least(value, 0) { Ok(Replaces::Param) } else { Err(format!("value {value} is not allowed")) };
    }
    if value.as_str() == Some("absent") {
        return if case.flags.contains_key(name) || FLAGS.iter().any(|f| f.0 == name) { Ok(Replaces::Flag) } else { Err("unknown flag".into()) };
    }
    check_flag(&case.op, name, value).map(|()| Replaces::Flag)
}

fn check_rule(case: &Case, table: &Table) -> Result<Rule, String> {
    let check = table.get("check").and_then(Value::as_str).ok_or("a rule without check")?;
    let (_, keys) = RULES.iter().find(|r| r.0 == check).ok_or_else(|| format!("unknown rule `{check}`"))?;
    for (name, value) in table {
        let bad = || Err(format!("{check}.{name}: value {value} is not allowed"));
        let ok = match name.as_str() {
            "check" => true,
            "of" => value.as_str().is_some_and(|s| outputs(&case.op).contains(&s)),
            "rows" | "only" => Kind::Ints(0).accepts(value),
            "cols" => Kind::Pair.accepts(value),
            _ => {
                let kind = keys.iter().find(|k| k.0.trim_start_matches('!') == name).ok_or_else(|| format!("{check}: unknown key `{name}`"))?.1;
                kind.accepts(value)
            }
        };
        if !ok {
            return bad();
        }
    }
    if let Some(missing) = keys.iter().filter_map(|k| k.0.strip_prefix('!')).find(|k| !table.contains_key(*k)) {
        return Err(format!("{check}: {missing} is missing"));
    }
    let len = |k: &str| table.get(k).and_then(Value::as_array).map(Vec::len);
    if check == "values" && len("at") != len("equals") {
        return Err("values: at and equals differ in length".into());
    }
    if check == "nan_at" && !table.contains_key("at") && !table.contains_key("rows") {
        return Err("nan_at: neither at nor rows".into());
    }
    let runs = 1 + case.vary.len() as i64;
    if table.get("only").and_then(Value::as_array).is_some_and(|a| a.iter().any(|x| x.as_integer().is_none_or(|x| x >= runs))) {
        return Err(format!("{check}.only: a run that does not exist"));
    }
    if let Some(with) = table.get("with").and_then(Value::as_table) {
        for (name, value) in with {
            replaces(case, name, value).map_err(|e| format!("same_as.with.{name}: {e}"))?;
        }
    }
    Ok(Rule { check: check.into(), table: table.clone() })
}

/// One case, checked.
pub(super) fn case(table: &Table) -> Result<Case, CaseError> {
    let id = table.get("id").and_then(Value::as_str).unwrap_or("without id").to_string();
    let err = |key: &str, what: String| CaseError { id: id.clone(), key: key.into(), what };
    if let Some(key) = table.keys().find(|k| !CASE_KEYS.contains(&k.as_str())) {
        return Err(err(key, "unknown key".into()));
    }
    let text = |key: &str| table.get(key).and_then(Value::as_str).map(String::from).ok_or_else(|| err(key, "a text is missing".into()));
    let one_of = |key: &str, all: &[&str]| {
        text(key).and_then(|s| if all.contains(&s.as_str()) { Ok(s) } else { Err(err(key, format!("unknown value `{s}`"))) })
    };
    let empty = Table::new();
    let sub = |key: &str| match table.get(key) {
        None => Ok(&empty),
        Some(v) => v.as_table().ok_or_else(|| err(key, "not a table".into())),
    };
    text("id")?;
    one_of("kind", KINDS)?;
    one_of("scope", &["core", "extra"])?;
    let size = text("size")?;
    if !["small", "medium", "big"].iter().any(|s| size == *s || (size.starts_with(&format!("{s}(")) && size.ends_with(')'))) {
        return Err(err("size", format!("unknown value `{size}`")));
    }
    if table.get("entry").is_some_and(|e| !at_least(e, 0)) {
        return Err(err("entry", "not a number".into()));
    }
    let mut case = Case {
        id: id.clone(),
        op: one_of("op", OPS)?,
        dtype: one_of("dtype", DTYPES)?,
        size,
        expect: text("expect")?,
        source: text("source")?,
        params: Default::default(),
        flags: sub("flags")?.clone(),
        inputs: Default::default(),
        vary: Vec::new(),
        rules: Vec::new(),
    };
    for (name, value) in sub("params")? {
        if !PARAMS.contains(&name.as_str()) || !at_least(value, 0) {
            return Err(err(&format!("params.{name}"), format!("unknown name or value {value}")));
        }
        case.params.insert(name.clone(), value.as_integer().unwrap_or(0) as u64);
    }
    for (name, value) in &case.flags {
        check_flag(&case.op, name, value).map_err(|e| err(&format!("flags.{name}"), e))?;
    }
    for (name, value) in sub("inputs")? {
        let key = format!("inputs.{name}");
        let formula = value.as_str().ok_or_else(|| err(&key, "not a text".into()))?;
        if !TENSORS.contains(&name.as_str()) {
            return Err(err(&key, "unknown tensor".into()));
        }
        case.inputs.insert(name.clone(), formula.parse().map_err(|e| err(&key, e))?);
    }
    if let Some(vary) = table.get("vary") {
        for (run, entry) in vary.as_array().ok_or_else(|| err("vary", "not a list".into()))?.iter().enumerate() {
            let entry = entry.as_table().ok_or_else(|| err("vary", "not a list of tables".into()))?;
            for (name, value) in entry {
                replaces(&case, name, value).map_err(|e| err(&format!("vary[{run}].{name}"), e))?;
            }
            case.vary.push(entry.clone());
        }
    }
    let mut rules: Vec<&Table> = Vec::new();
    if let Some(rule) = table.get("rule") {
        rules.push(rule.as_table().ok_or_else(|| err("rule", "not a table".into()))?);
    }
    if let Some(all) = table.get("rules") {
        for rule in all.as_array().ok_or_else(|| err("rules", "not a list".into()))? {
            rules.push(rule.as_table().ok_or_else(|| err("rules", "not a list of tables".into()))?);
        }
    }
    if rules.is_empty() {
        return Err(err("rule", "a case without a rule".into()));
    }
    for rule in rules {
        case.rules.push(check_rule(&case, rule).map_err(|e| err("rule", e))?);
    }
    Ok(case)
}
