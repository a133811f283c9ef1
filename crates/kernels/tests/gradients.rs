//! Gradients that the references of backward ops give, against central differences of the forward's reference in float64.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "tests")]

use warpwave_core::{Op, Problem, Source};
use warpwave_kernels::op;

/// A value in [-1, 1], the same for the same numbers.
fn noise(seed: u64, i: u64) -> f64 {
    let z = (seed * 1009 + i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((z ^ (z >> 27)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn problem(text: &str) -> (&'static dyn Op, Problem) {
    let op = op(text.split(' ').next().unwrap()).expect("an op of this name");
    let p = Problem::parse(text, &warpwave_kernels::signature).expect(text);
    (op, op.infer(p).expect(text))
}

fn data(p: &Problem, name: &str, seed: u64) -> Vec<f64> {
    (0..p.operand(name).map_or(0, |d| d.len())).map(|i| noise(seed, i)).collect()
}

/// All values of an output, inputs given by name.
fn values(op: &dyn Op, p: &Problem, inputs: &[(&str, &[f64])], output: &str) -> Vec<f64> {
    let find = |name| inputs.iter().find(|(n, _)| *n == name).map_or(Vec::new(), |(_, v)| v.to_vec());
    let sources: Vec<_> = p.signature.operands.iter().map(|o| Source::Dense(find(o.name))).collect();
    let len = p.operand(output).expect(output).len();
    op.reference(p, &sources, p.index(output).expect(output), std::slice::from_ref(&(0..len))).iter().map(|a| a.value).collect()
}

/// Checks each gradient (its output, the forward's input) that `backward` gives for `dy` against differences of sum(out * dy).
fn check(forward: &str, backward: &str, gradients: &[(&str, &str)]) {
    let ((f, fp), (b, bp)) = (problem(forward), problem(backward));
    let mut inputs: Vec<(&str, Vec<f64>)> = Vec::new();
    for (i, o) in fp.signature.operands.iter().enumerate().filter(|(i, _)| fp.outputs().all(|out| out != *i)) {
        inputs.push((o.name, data(&fp, o.name, i as u64)));
    }
    let dy = data(&bp, "dy", 99);
    let loss = |all: &[(&str, Vec<f64>)]| {
        let given: Vec<(&str, &[f64])> = all.iter().map(|(n, v)| (*n, v.as_slice())).collect();
        values(f, &fp, &given, "out").iter().zip(&dy).map(|(o, d)| o * d).sum::<f64>()
    };
    for (output, input) in gradients {
        let mut given: Vec<(&str, &[f64])> = inputs.iter().map(|(n, v)| (*n, v.as_slice())).collect();
        given.push(("dy", &dy));
        let got = values(b, &bp, &given, output);
        let at = inputs.iter().position(|(n, _)| n == input).expect(input);
        assert_eq!(got.len(), inputs[at].1.len(), "{output}");
        for (i, got) in got.into_iter().enumerate() {
            let h = 1e-5;
            let mut moved = inputs.clone();
            moved[at].1[i] += h;
            let up = loss(&moved);
            moved[at].1[i] -= 2.0 * h;
            let want = (up - loss(&moved)) / (2.0 * h);
            assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{backward}: {output}[{i}] is {got}, differences give {want}");
        }
    }
}

#[test]
fn rms_norm() {
    for rest in ["", " eps=0.25", " shift=1.0"] {
        let forward = format!("rms_norm x=f64[3,7] w=f64[7] out=f64[3,7]{rest}");
        let backward = format!("rms_norm_bwd x=f64[3,7] dy=f64[3,7] w=f64[7] dx=f64[3,7] dw=f64[7]{rest}");
        check(&forward, &backward, &[("dx", "x"), ("dw", "w")]);
    }
}

#[test]
fn add_rms_norm() {
    let (f, fp) = problem("add_rms_norm x=f64[3,7] residual=f64[3,7] w=f64[7] eps=0.25");
    let (b, bp) = problem("add_rms_norm_bwd x=f64[3,7] dy=f64[3,7] dresidual_out=f64[3,7] w=f64[7] eps=0.25");
    let [x, residual, dy, dh] = [1, 2, 3, 4].map(|seed| data(&fp, "x", seed));
    let w = data(&fp, "w", 5);
    let loss = |x: &[f64], w: &[f64]| {
        let given = [("x", x), ("residual", residual.as_slice()), ("w", w)];
        let dot = |output, d: &[f64]| values(f, &fp, &given, output).iter().zip(d).map(|(o, d)| o * d).sum::<f64>();
        dot("out", &dy) + dot("residual_out", &dh)
    };
    let sum: Vec<f64> = x.iter().zip(&residual).map(|(a, b)| a + b).collect();
    let given = [("x", sum.as_slice()), ("dy", &dy), ("dresidual_out", &dh), ("w", &w)];
    let h = 1e-5;
    for (output, of) in [("dx", &x), ("dw", &w)] {
        for (i, got) in values(b, &bp, &given, output).into_iter().enumerate() {
            let moved = |by: f64| {
                let mut v = of.clone();
                v[i] += by;
                if output == "dx" { loss(&v, &w) } else { loss(&x, &v) }
            };
            let want = (moved(h) - moved(-h)) / (2.0 * h);
            assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{output}[{i}] is {got}, differences give {want}");
        }
    }
}

#[test]
fn layer_norm() {
    for rest in ["", " eps=0.25"] {
        let forward = format!("layer_norm x=f64[3,7] gamma=f64[7] beta=f64[7] out=f64[3,7]{rest}");
        let backward = format!("layer_norm_bwd x=f64[3,7] dy=f64[3,7] gamma=f64[7] dx=f64[3,7] dgamma=f64[7] dbeta=f64[7]{rest}");
        check(&forward, &backward, &[("dx", "x"), ("dgamma", "gamma"), ("dbeta", "beta")]);
    }
}

#[test]
fn dropout() {
    for draw in ["p=0.3 seed=5 offset=2 first=3", "p=0.0", "p=1.0"] {
        check(&format!("dropout x=f64[3,7] {draw}"), &format!("dropout_bwd dy=f64[3,7] {draw}"), &[("dx", "x")]);
        check(&format!("relu_dropout x=f64[3,7] {draw}"), &format!("relu_dropout_bwd x=f64[3,7] dy=f64[3,7] {draw}"), &[("dx", "x")]);
    }
}

#[test]
fn softmax() {
    for (rest, axis) in [("", ""), (" axis=0", " axis=0")] {
        for op in ["softmax", "log_softmax"] {
            check_from_output(&format!("{op} x=f64[3,7]{rest}"), &format!("{op}_bwd dy=f64[3,7] y=f64[3,7]{axis}"));
        }
    }
}

/// A gradient that reads the forward's output: y is what the forward's reference gives.
fn check_from_output(forward: &str, backward: &str) {
    let ((f, fp), (b, bp)) = (problem(forward), problem(backward));
    let (x, dy) = (data(&fp, "x", 1), data(&bp, "dy", 99));
    let y = values(f, &fp, &[("x", &x)], "out");
    let got = values(b, &bp, &[("y", &y), ("dy", &dy)], "dx");
    let loss = |x: &[f64]| values(f, &fp, &[("x", x)], "out").iter().zip(&dy).map(|(o, d)| o * d).sum::<f64>();
    for (i, got) in got.into_iter().enumerate() {
        let h = 1e-5;
        let (mut up, mut down) = (x.clone(), x.clone());
        up[i] += h;
        down[i] -= h;
        let want = (loss(&up) - loss(&down)) / (2.0 * h);
        assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{backward}: dx[{i}] is {got}, differences give {want}");
    }
}

#[test]
fn cross_entropy() {
    let of = |labels: &str, rest: &str, weight: bool| {
        let weights = if weight { " weight=f64[7]" } else { "" };
        let each = if rest.contains("none") { 4 } else { 1 };
        let (f, fp) = problem(&format!("cross_entropy logits=f64[4,7] labels=i64[4]{weights}{rest}"));
        let (b, bp) = problem(&format!("cross_entropy_bwd logits=f64[4,7] labels=i64[4] lse=f64[4] dloss=f64[{each}]{weights}{rest}"));
        let labels: Vec<f64> = labels.split(' ').map(|l| l.parse().unwrap()).collect();
        let (x, dy) = (data(&fp, "logits", 1), data(&bp, "dloss", 99));
        let w: Vec<f64> = (0..7).map(|i| 1.0 + noise(5, i) / 2.0).collect();
        let given = |x: &[f64], name: &str| values(f, &fp, &[("logits", x), ("labels", &labels), ("weight", &w)], name);
        let lse = given(&x, "lse");
        let got = values(b, &bp, &[("logits", &x), ("labels", &labels), ("weight", &w), ("lse", &lse), ("dloss", &dy)], "dx");
        let loss = |x: &[f64]| given(x, "loss").iter().zip(&dy).map(|(o, d)| o * d).sum::<f64>();
        for (i, got) in got.into_iter().enumerate() {
            let h = 1e-5;
            let (mut up, mut down) = (x.clone(), x.clone());
            up[i] += h;
            down[i] -= h;
            let want = (loss(&up) - loss(&down)) / (2.0 * h);
            assert!((got - want).abs() <= 1e-7 * (1.0 + want.abs()), "{bp}: dx[{i}] is {got}, differences give {want}");
        }
    };
    for weight in [false, true] {
        for reduction in ["", " reduction=sum", " reduction=none"] {
            for more in ["", " label_smoothing=0.1", " label_smoothing=1.0", " z_loss=0.01", " label_smoothing=0.3 z_loss=0.5"] {
                of("3 0 -100 6", &format!("{more}{reduction}"), weight);
            }
        }
        // rows out of range do not count; nor does any row, in the end
        of("3 7 -1 6", "", weight);
        of("-100 7 -1 -100", " z_loss=0.5", weight);
    }
}

#[test]
fn gates() {
    for (op, rest) in [("silu_mul", ""), ("gelu_mul", ""), ("gelu_mul", " approximate=tanh")] {
        let forward = format!("{op} gate=f64[3,7] up=f64[3,7] out=f64[3,7]{rest}");
        let backward = format!("{op}_bwd gate=f64[3,7] up=f64[3,7] dy=f64[3,7] dgate=f64[3,7] dup=f64[3,7]{rest}");
        check(&forward, &backward, &[("dgate", "gate"), ("dup", "up")]);
    }
}

#[test]
fn rope() {
    for rest in ["", " style=interleaved rot=4", " style=neox_proportional rot=4 offset=3", " scaling=yarn factor=4.0 original=64 rot=6"] {
        let backward = format!("rope_bwd dy=f64[3,2,8] dx=f64[3,2,8]{rest}");
        check(&format!("rope x=f64[3,2,8] out=f64[3,2,8]{rest}"), &backward, &[("dx", "x")]);
    }
}
