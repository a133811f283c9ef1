//! Plans: snapshots at edge shapes, agreement with the variant table, totality.

use proptest::prelude::*;
use std::fmt::Write;
use warpwave_core::{BuildSet, DType, DescError, DeviceCaps, Op, Plan, Problem, Stage, Target, TensorDesc, Tuning, Valid, validate};
use warpwave_kernels::{op, ops, params, signature, variants};

fn parse(s: &str) -> (&'static dyn Op, Result<Valid, DescError>) {
    let problem = Problem::parse(s, &signature).unwrap_or_else(|e| panic!("{s}: {e}"));
    let op = op(problem.signature.op).unwrap_or_else(|| panic!("{s}: no such op"));
    (op, op.infer(problem).and_then(|p| validate(op, p)))
}

/// Every kernel that a plan names is in the table, and every argument is of the type of its field.
fn check(plan: &Plan) {
    for l in plan.launches() {
        let table = variants(plan.target);
        let v = table.iter().find(|v| v.id == l.kernel).unwrap_or_else(|| panic!("{} is not in the table", l.kernel));
        assert_eq!((v.threads, v.shared), (l.threads, l.shared), "{}", l.kernel);
        let fields: Vec<_> = params(l.kernel.kernel).iter().map(|p| (p.name, p.ty)).collect();
        let given: Vec<_> = l.args.iter().map(|(n, a)| (*n, a.ty())).collect();
        assert_eq!(fields, given, "{}", l.kernel);
        assert!(l.blocks > 0 && l.programs > 0, "{}: an empty launch", l.kernel);
    }
}

const PROBLEMS: &[&str] = &[
    "vector_add x=f32[98432] y=f32[98432]",
    "vector_add x=bf16[1024]+1 y=bf16[1024]+3 out=bf16[1024]+5",
    "vector_add x=f16[2147483648]:0 y=f16[2147483648]:0",
    "vector_add x=f32[0] y=f32[0]",
    "vector_add x=f32[] y=f32[]",
    "vector_add x=f32[3,5]:1,3 y=f32[3,5] out=f32[3,5]:8,1",
    "softmax x=f32[4,5]",
    "softmax x=bf16[8192,8192]",
    "softmax x=bf16[512,128256]",
    "softmax x=f32[3,65537]",
    "softmax x=bf16[8191,1001]",
    "softmax x=f32[2,4,2,2]:32,4,2,1 out=f32[2,4,2,2]:32,4,2,1 axis=1",
    "log_softmax x=f16[1,1048576]",
    "softmax_bwd dy=bf16[4096,32768] y=bf16[4096,32768]",
    "log_softmax_bwd dy=f64[2,300] y=f64[2,300]",
    "cross_entropy logits=bf16[8192,128256] labels=i64[8192]",
    "cross_entropy logits=f32[100000,30] labels=i32[100000] weight=f32[30] label_smoothing=0.1 z_loss=0.001",
    "cross_entropy_bwd logits=bf16[8192,128256] labels=i64[8192] lse=f32[8192] dloss=f32[1]",
    "cross_entropy_bwd logits=f32[3,30] labels=i32[3] lse=f32[3] dloss=f32[3] weight=f32[30] label_smoothing=0.1 reduction=none",
    "matmul a=bf16[4096,4096] b=bf16[4096,4096]",
    "matmul a=bf16[4095,4093] b=bf16[4093,4097]",
    "matmul a=bf16[16,8192] b=bf16[8192,8192]:1,8192",
    "matmul a=f32[40,1000] b=f32[1000,24] split_k=3",
    "matmul a=f16[2,3]:1,2 b=f16[3,4]:1,3",
    "matmul a=f16[3,2,0] b=f16[3,0,4] c=f16[3,2,4] beta=0.5",
    "matmul a=bf16[64,64] b=bf16[64,64] out=bf16[64,64]:1,64",
    "matmul a=bf16[64,64] b=bf16[64,64] out=bf16[64,64]:256,2",
    "attention q=bf16[4,16,4096,128] k=bf16[4,2,4096,128] v=bf16[4,2,4096,128] causal=true",
    // gate and up as the halves of a packed tensor
    "silu_mul gate=bf16[4096,11008]:22016,1 up=bf16[4096,11008]:22016,1+11008",
];

#[test]
fn plan_table() {
    for target in [Target::Host32, Target::Sm80, Target::Sm90a, Target::Compute80, Target::Gfx942, Target::Gfx1100] {
        let caps = DeviceCaps::typical(target);
        let mut text = String::new();
        for s in PROBLEMS {
            let (op, valid) = parse(s);
            let valid = valid.unwrap_or_else(|e| panic!("{s}: {e}"));
            let _ = writeln!(text, "{s}");
            match op.plans(&valid, &caps) {
                Err(e) => {
                    let _ = writeln!(text, "  {e}");
                }
                Ok(plans) => {
                    plans.iter().for_each(check);
                    let _ = write!(text, "{}", plans[0]);
                    let others: Vec<_> = plans[1..].iter().map(|p| p.tag.as_str()).collect();
                    let _ = writeln!(text, "  others: {}\n", others.join(", "));
                }
            }
        }
        insta::assert_snapshot!(format!("plans_{target}"), text);
    }
}

#[test]
fn inventory() {
    let mut text = String::new();
    for target in Target::ALL {
        let all = variants(target);
        let ci = all.iter().filter(|v| v.set == BuildSet::Ci).count();
        let _ = writeln!(text, "{target}: {} variants, {ci} of them in the ci set", all.len());
        assert!(all.len() <= 400, "{target} has {} variants, the budget is 400", all.len());
        for v in all {
            assert!(v.shared <= target.shared_memory(), "{} needs {} bytes of shared memory", v.id, v.shared);
            let _ = writeln!(text, "  {}  {} threads, {} bytes shared", v.id, v.threads, v.shared);
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn units_are_one_text_for_every_compiler() {
    let strip = |t: Target| -> Vec<String> {
        let units = variants(t).iter().map(warpwave_kernels::translation_unit).collect::<Vec<_>>();
        units.into_iter().map(|u| u.replace(t.name(), "TARGET")).collect()
    };
    let units = strip(Target::Gfx90a);
    assert_eq!(units, strip(Target::Gfx942));
    insta::assert_snapshot!(units.iter().find(|u| u.contains("softmax")).map_or("", |u| u));
}

#[test]
fn descriptor_errors() {
    let bad = [
        "vector_add x=f32[4]",
        "vector_add x=i32[4] y=i32[4]",
        "vector_add x=f32[4] y=f16[4]",
        "vector_add x=f32[4] y=f32[5]",
        "vector_add x=f32[4]:-1 y=f32[4]",
        "vector_add x=f32[4]:1,1 y=f32[4]",
        "vector_add x=f32[1,1,1,1,1,1,1,1,1] y=f32[1]",
        "vector_add x=f32[4] y=f32[4] out=f32[4]:0",
        "vector_add x=f32[4294967296,4294967296] y=f32[4294967296,4294967296]",
        "vector_add x=f32[2,2,2,2,2]:99,50,24,11,5 y=f32[2,2,2,2,2]",
        "softmax x=f32[4,5] axis=2",
        "softmax x=f32[4,5] axis=99",
        "softmax x=f32[]",
        "softmax_bwd dy=f32[4,5] y=bf16[4,5]",
        "cross_entropy logits=f32[4] labels=i64[4]",
        "cross_entropy logits=f32[4,5] labels=f32[4]",
        "cross_entropy logits=bf16[4,5] labels=i64[4] weight=bf16[5]",
        "cross_entropy logits=f32[4,5] labels=i64[4] loss=f32[4]",
        "cross_entropy logits=f32[4,5] labels=i64[4] label_smoothing=1.5",
        "cross_entropy logits=f32[4,5] labels=i64[4] z_loss=-1",
        "cross_entropy_bwd logits=f32[4,5] labels=i64[4] lse=f32[4] dloss=f32[4]",
        "matmul a=f32[4,5] b=f32[4,5]",
        "matmul a=f32[4] b=f32[4]",
        "matmul a=f32[2,4,5] b=f32[3,5,4]",
        "matmul a=f32[4,5] b=f32[5,4] out=f32[4,5]",
        "matmul a=f32[4,5] b=f32[5,4] beta=1",
        "matmul a=f32[4,5] b=f32[5,4] alpha=1e300",
        "matmul a=f32[4,5] b=bf16[5,4]",
        "matmul a=f32[4,5] b=f32[5,4] split_k=-1",
        "matmul a=f32[3000000000,1] b=f32[1,1]",
        "attention q=bf16[1,3,4,64] k=bf16[1,2,4,64] v=bf16[1,2,4,64]",
    ];
    let mut text = String::new();
    for s in bad {
        match parse(s).1 {
            Err(e) => {
                let _ = writeln!(text, "{s}\n  {e}");
            }
            Ok(_) => panic!("{s} is accepted"),
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn problem_strings_round_trip() {
    for s in PROBLEMS {
        let Ok(valid) = parse(s).1 else { panic!("{s}") };
        let again = Problem::parse(&valid.to_string(), &signature).unwrap_or_else(|e| panic!("{s}: {e}"));
        assert_eq!(*valid, again);
    }
    for bad in [
        "",
        "softmax x",
        "softmax y=f32[1]",
        "softmax x=f32",
        "softmax x=f32[1",
        "softmax x=f32[a]",
        "softmax x=f33[1]",
        "softmax axis=x",
        "soft x=f32[1]",
    ] {
        assert!(Problem::parse(bad, &signature).is_err(), "`{bad}` is accepted");
    }
}

#[test]
fn textbook_plans() {
    let caps = DeviceCaps::typical(Target::Sm80);
    let (op, valid) = parse("vector_add x=f32[98432] y=f32[98432]");
    let plans = valid.map(|v| op.plans(&v, &caps));
    let Ok(Ok(plans)) = plans else { panic!("no plan") };
    let first = plans.iter().find(|p| p.tag == "256x1x4").and_then(|p| p.launches().next().cloned());
    assert_eq!(first.map(|l| l.programs), Some(97), "n = 98,432 in tiles of 1024");
    assert_eq!(97 * 1024 - 98_432, 896, "lanes of the last program without an element");

    // tile 64 x 128 x 64 of f16 in four stages: 24,576 bytes a stage; an AMD unit has 64 KiB and gets another tile
    let tile = |t: Target| variants(t).into_iter().find(|v| v.id.kernel == "matmul" && v.id.tag.starts_with("f16.64x128x64.s4"));
    assert_eq!(tile(Target::Sm80).map(|v| v.shared), Some(98_304));
    assert!(tile(Target::Gfx942).is_none());
}

#[test]
fn a_tuning_table_picks_among_the_plans() {
    let caps = DeviceCaps::typical(Target::Sm90a);
    let (op, Ok(valid)) = parse("softmax x=bf16[64,1000]") else { panic!() };
    let Ok(plans) = op.plans(&valid, &caps) else { panic!() };
    let mut tuning = Tuning::default();
    tuning.set(&valid.to_string(), &plans[1].tag);
    assert_eq!(warpwave_core::plan(op, &valid, &caps, &tuning).map(|p| p.tag), Ok(plans[1].tag.clone()));
    tuning.set(&valid.to_string(), "a tag of another version");
    assert_eq!(warpwave_core::plan(op, &valid, &caps, &tuning).map(|p| p.tag), Ok(plans[0].tag.clone()));
}

fn desc() -> impl Strategy<Value = TensorDesc> {
    let extent = prop_oneof![0u64..70, Just(1u64 << 20), Just(u64::MAX), 0u64..5000];
    let stride = prop_oneof![-2i64..70, Just(i64::MAX), Just(1i64 << 33)];
    (prop::sample::select(DType::ALL.to_vec()), prop::collection::vec((extent, stride), 0..6), any::<bool>(), prop_oneof![0u64..20, Just(u64::MAX)])
        .prop_map(|(dtype, dims, contiguous, offset)| {
            let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let d = TensorDesc::contiguous(dtype, &shape).with_offset(offset);
            if contiguous { d } else { d.with_strides(&strides) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the descriptors, an op answers with an error or with plans whose kernels exist.
    #[test]
    fn planning_is_total(which in 0..ops().len(), descs in prop::collection::vec(prop::option::weighted(0.9, desc()), 9), ints in prop::collection::vec(-9i64..2000, 4), target in 0..Target::ALL.len()) {
        let op = ops()[which];
        let signature = op.signature();
        let mut problem = Problem::new(signature);
        for (slot, d) in problem.operands.iter_mut().zip(descs) {
            *slot = d;
        }
        for (value, i) in problem.attrs.iter_mut().zip(ints) {
            *value = match *value {
                warpwave_core::AttrValue::Int(_) => i.into(),
                warpwave_core::AttrValue::Float(_) => (i as f64 / 4.0).into(),
                warpwave_core::AttrValue::Bool(_) => (i % 2 == 0).into(),
                choice @ warpwave_core::AttrValue::Choice(_) => choice,
            };
        }
        let caps = DeviceCaps::typical(Target::ALL[target]);
        if let Ok(valid) = op.infer(problem).and_then(|p| validate(op, p))
            && let Ok(plans) = op.plans(&valid, &caps)
        {
            plans.iter().for_each(check);
        }
    }
}

#[test]
fn every_stable_op_has_a_kernel_on_every_target() {
    for target in Target::ALL {
        for op in ops().iter().filter(|o| o.stage() == Stage::Stable) {
            assert!(op.variants(target).iter().any(|v| v.set == BuildSet::Ci), "{} has no variant of the ci set on {target}", op.signature().op);
        }
    }
}
