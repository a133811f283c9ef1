//! The command line from outside: help, output, errors. Everything runs on the CPU.

use std::process::Command;

/// Exit code, standard output, standard error.
fn warpwave(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpwave"));
    command.args(args).env_remove("COLUMNS").env_remove("CLICOLOR_FORCE").env_remove("WARPWAVE_KERNELS").env_remove("WARPWAVE_CPU_SCHEDULE");
    let out = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is text");
    (out.status.code().expect("no signal ends it"), text(out.stdout), text(out.stderr))
}

fn good(args: &[&str]) -> String {
    let (code, out, err) = warpwave(args);
    assert_eq!(code, 0, "{args:?}: {err}{out}");
    out
}

/// Digits become `#`, runs of blanks one.
fn shape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if !((c == '#' || c == ' ') && out.ends_with(c)) {
            out.push(c);
        }
    }
    out
}

#[test]
fn help() {
    insta::assert_snapshot!("help", good(&["--help"]));
    for command in ["devices", "run", "verify", "bench", "inspect", "kernels"] {
        insta::assert_snapshot!(format!("help_{command}"), good(&[command, "--help"]));
    }
}

#[test]
fn devices_as_json() {
    let mut json: serde_json::Value = serde_json::from_str(&good(&["devices", "--json"])).expect("JSON");
    let devices = json["devices"].as_array_mut().expect("a list");
    devices.retain(|d| d["name"].as_str().is_some_and(|n| n.starts_with("cpu")));
    for d in devices {
        d["model"] = "[model]".into();
        d["memory"] = "[bytes]".into();
        d["units"] = "[number]".into();
    }
    assert!(json["missing"].is_array());
    insta::assert_json_snapshot!(json["devices"]);
}

#[test]
fn a_problem_runs_and_is_checked() {
    let file = std::env::temp_dir().join(format!("warpwave-cli-test-{}.safetensors", std::process::id()));
    let path = file.to_str().expect("a path that is text");
    let out = good(&["run", "softmax x=bf16[7,100] @cpu:64", "--print-plan", "--save", path]);
    let bytes = std::fs::read(&file).expect("the file is there");
    std::fs::remove_file(&file).expect("and goes");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    for name in ["x", "out"] {
        assert_eq!(tensors.tensor(name).expect("both tensors").shape(), [7, 100]);
    }
    let kept: Vec<&str> = out.lines().filter(|l| !l.starts_with("ran in") && !l.starts_with("saved")).collect();
    insta::assert_snapshot!(kept.join("\n"));
}

#[test]
fn a_recorded_case_runs() {
    let (code, _, err) = warpwave(&["run", "--cases", "field", "--id", "no such case", "--device", "cpu"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: field has no case `no such case` among its "), "{err}");
}

#[test]
fn verify_counts() {
    let out = good(&["verify", "--device", "cpu", "--op", "vector_add"]);
    let lines: Vec<&str> = out.lines().skip(1).collect();
    assert!(lines.last().is_some_and(|l| l.ends_with(" passed, 0 failed")), "{out}");
    insta::assert_snapshot!(shape(&lines.join("\n")));
}

#[test]
fn bench_prints_rows_and_json() {
    let quick = ["bench", "--suite", "smoke", "--device", "cpu", "--window-ms", "1", "--rounds", "2"];
    let out = good(&quick);
    assert_eq!(out.lines().count(), 2 + 5, "{out}");
    let out = good(&[&quick[..], &["--op", "softmax", "--all-plans", "--json", "-"]].concat());
    for line in out.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
        assert_eq!(row["problem"], "softmax x=bf16[7,100] out=bf16[7,100]");
        assert!(row["us"].as_f64().is_some_and(|us| us > 0.0) && row["roof_us"].as_f64().is_some_and(|us| us > 0.0), "{line}");
        assert_eq!(row["rounds_us"].as_array().map(Vec::len), Some(2));
    }
    assert!(out.lines().count() > 1);
}

#[test]
fn bench_serves() {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpwave"));
    let mut child =
        command.args(["bench", "--serve", "--device", "cpu"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"softmax x=f32[3,50]\ngo 1\nroof 1\nplan none\nfree\ngo 1\nsoftmax x=f32[3\nquit\n").expect("it reads");
    drop(input);
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success());
    let replies: Vec<serde_json::Value> =
        String::from_utf8(out.stdout).expect("text").lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let keys = ["device", "ready", "us", "us", "error", "free", "error", "error"];
    assert_eq!(replies.len(), keys.len());
    for (reply, key) in replies.iter().zip(keys) {
        assert!(reply.get(key).is_some(), "{key}: {reply}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let cases: &[&[&str]] = &[
        &["run", "sofmax x=f32[3]", "--device", "cpu"],
        &["run", "softmax x=f32[3", "--device", "cpu"],
        &["run", "softmax x=f32[3] @"],
        &["run", "softmax x=f32[3] y=f32[3]", "--device", "cpu"],
        &["run", "softmax x=i32[3]", "--device", "cpu"],
        &["run", "softmax", "--device", "cpu"],
        &["run", "softmax x=f32[3] axis=3", "--device", "cpu"],
        &["run", "softmax x=f32[3]", "--plan", "fast", "--device", "cpu"],
        &["run", "softmax x=f32[3]", "--data", "zeros", "--device", "cpu"],
        &["verify", "--op", "sofmax"],
        &["bench", "--device", "cpu"],
        &["inspect", "no_such_kernel"],
    ];
    let mut all = String::new();
    for args in cases {
        let (code, out, err) = warpwave(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        all += &format!("$ warpwave {}\n{err}\n", args.join(" "));
    }
    insta::assert_snapshot!(all);
    // which devices there are depends on the machine
    let (code, _, err) = warpwave(&["run", "softmax x=f32[3]", "--device", "tpu:0"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: no device `tpu:0`; there are cpu, cpu:64"), "{err}");
}
