//! Every plan of every op for problems of awkward shapes, on both warp widths, against the float64 references, and bit for bit over schedules.

use warpwave_core::{Op, Problem, Role, Source, TensorDesc, Valid, validate};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};
use warpwave_hal::{Device, DeviceError, Queue, View, bind};

fn valid(text: &str) -> (&'static dyn Op, Valid) {
    let problem = Problem::parse(text, &warpwave_kernels::signature).unwrap();
    let op = warpwave_kernels::op(problem.signature.op).unwrap();
    let problem = op.infer(problem).unwrap();
    (op, validate(op, problem).unwrap())
}

/// Values in [-1, 1) that the dtype holds exactly.
fn values(desc: &TensorDesc, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        desc.dtype.round((state >> 40) as f64 / (1 << 23) as f64 - 1.0)
    };
    // one for each element of memory, so that a stride of 0 repeats
    let memory: Vec<f64> = (0..desc.span().unwrap()).map(next).collect();
    (0..desc.len()).map(|i| memory[desc.position(i) as usize]).collect()
}

fn put(desc: &TensorDesc, values: &[f64], bytes: &mut [u8]) {
    let size = desc.dtype.size();
    for (i, &x) in values.iter().enumerate() {
        let at = ((desc.offset + desc.position(i as u64)) * size) as usize;
        desc.dtype.encode(x, &mut bytes[at..]);
    }
}

/// Bytes of 0xff: NaN in every dtype.
fn blank(desc: &TensorDesc) -> Vec<u8> {
    vec![0xff; ((desc.offset + desc.span().unwrap()) * desc.dtype.size()) as usize + 64]
}

/// Runs a plan; the bytes of each operand's buffer afterwards.
fn run(device: &CpuDevice, queue: &dyn Queue, op: &dyn Op, p: &Valid, plan: &warpwave_core::Plan) -> Vec<Vec<u8>> {
    let mut views = Vec::new();
    let mut sizes = Vec::new();
    for (i, desc) in p.operands.iter().enumerate() {
        let Some(desc) = desc else {
            views.push(None);
            sizes.push(0);
            continue;
        };
        let mut bytes = blank(desc);
        if p.signature.operands[i].role != Role::Output {
            put(desc, &values(desc, i as u64 + 1), &mut bytes);
        }
        let buffer = device.allocate(bytes.len() as u64).unwrap();
        queue.upload(&buffer, 0, &bytes).unwrap();
        sizes.push(bytes.len());
        views.push(Some(View { buffer, offset: desc.offset * desc.dtype.size() }));
    }
    let workspace = View { buffer: device.allocate(plan.workspace.bytes()).unwrap(), offset: 0 };
    queue.fill(&workspace.buffer, 0, plan.workspace.bytes(), 0xff).unwrap();
    let work = bind(op, p, plan, &views, Some(&workspace), 0).unwrap();
    // SAFETY: `work` keeps its buffers, and nothing else runs on this device
    unsafe { queue.run(&work) }.unwrap();
    let read = |(view, n): (&Option<View>, usize)| {
        let mut bytes = vec![0; n];
        if let Some(v) = view {
            queue.download(&v.buffer, 0, &mut bytes).unwrap();
        }
        bytes
    };
    views.iter().zip(sizes).map(read).collect()
}

fn check(text: &str) {
    let (op, p) = valid(text);
    for width in [WarpWidth::W32, WarpWidth::W64] {
        let device = CpuDevice::new(width, Schedule::Late);
        let queue = device.queue().unwrap();
        let plans = op.plans(&p, device.caps()).unwrap();
        assert!(!plans.is_empty(), "{text}");
        for plan in &plans {
            let got = run(&device, queue.as_ref(), op, &p, plan);
            for output in p.outputs() {
                compare(op, &p, output, &got[output], &format!("{text} by {} on {}", plan.tag, plan.target));
            }
            for schedule in [Schedule::Eager, Schedule::Seed(7)] {
                let other = CpuDevice::new(width, schedule);
                assert!(got == run(&other, other.queue().unwrap().as_ref(), op, &p, plan), "{text} by {}: {schedule:?} gives other bits", plan.tag);
            }
        }
    }
}

fn compare(op: &dyn Op, p: &Valid, output: usize, bytes: &[u8], what: &str) {
    let inputs: Vec<Source> = p
        .operands
        .iter()
        .enumerate()
        .map(|(i, d)| {
            Source::Dense(d.as_ref().filter(|_| p.signature.operands[i].role != Role::Output).map_or(Vec::new(), |d| values(d, i as u64 + 1)))
        })
        .collect();
    let desc = p.operands[output].as_ref().unwrap();
    let size = desc.dtype.size() as usize;
    let mut written = vec![false; bytes.len()];
    let all = 0..desc.len();
    let want = op.reference(p, &inputs, output, std::slice::from_ref(&all));
    assert_eq!(want.len() as u64, desc.len(), "{what}");
    for (i, w) in want.iter().enumerate() {
        let at = (desc.offset + desc.position(i as u64)) as usize * size;
        written[at..at + size].fill(true);
        let got = desc.dtype.decode(&bytes[at..]);
        let bound = w.error + desc.dtype.unit_roundoff() * w.value.abs() + desc.dtype.min_subnormal();
        let right = got == w.value || (got.is_nan() && w.value.is_nan()) || (got - w.value).abs() <= bound;
        assert!(right, "{what}: element {i} is {got}, not {} within {bound}", w.value);
    }
    assert!(bytes.iter().zip(written).all(|(&b, w)| w || b == 0xff), "{what}: wrote beside the output");
}

#[test]
fn vector_add() {
    for t in ["f32", "f16", "bf16"] {
        check(&format!("vector_add x={t}[1000] y={t}[1000]"));
        check(&format!("vector_add x={t}[3,5,701]:7000,1402,2+1 y={t}[3,5,701]:0,701,1 out={t}[3,5,701]:4000,720,1+3"));
    }
    check("vector_add x=f32[0] y=f32[0]");
    check("vector_add x=f32[1] y=f32[1]");
}

#[test]
fn softmax() {
    for op in ["softmax", "log_softmax"] {
        for t in ["f32", "f16", "bf16"] {
            check(&format!("{op} x={t}[7,33]"));
            check(&format!("{op} x={t}[3,1000]:1003,1+1"));
            check(&format!("{op} x={t}[2,9000]"));
            check(&format!("{op} x={t}[5,40,3] axis=1"));
        }
    }
}

#[test]
fn matmul() {
    for t in ["f32", "f16", "bf16"] {
        check(&format!("matmul a={t}[70,37] b={t}[37,50]"));
        check(&format!("matmul a={t}[2,70,37]:3000,1,80+1 b={t}[2,37,50]:0,1,37 alpha=0.5"));
        check(&format!("matmul a={t}[33,0] b={t}[0,5]"));
        check(&format!("matmul a={t}[40,300] b={t}[300,45] c={t}[40,45] beta=-0.75 split_k=3"));
        check(&format!("matmul a={t}[20,30]:90,3 b={t}[30,25] out={t}[20,25]:60,2"));
    }
}

#[test]
fn attention() {
    for t in ["f16", "bf16"] {
        check(&format!("attention q={t}[1,4,70,64] k={t}[1,2,50,64] v={t}[1,2,50,64]"));
        check(&format!("attention q={t}[2,1,33,128] k={t}[2,1,77,128] v={t}[2,1,77,128] causal=true"));
        check(&format!("attention q={t}[1,1,77,64] k={t}[1,1,20,64] v={t}[1,1,20,64] causal=true"));
    }
}

#[test]
fn cast() {
    for from in ["f32", "f16", "bf16", "f64"] {
        for to in ["f32", "f16", "bf16", "f64"] {
            check(&format!("cast x={from}[5,701]:703,1+1 out={to}[5,701]"));
            check(&format!("cast x={from}[701,5]:1,701 out={to}[701,5]:8,1+3"));
        }
        check(&format!("cast x={from}[3,4,5] to=bf16"));
    }
}

#[test]
fn fill() {
    for t in ["f32", "f16", "bf16", "f64"] {
        check(&format!("fill out={t}[5000]+1 value=0.1"));
        check(&format!("fill out={t}[3,5,701]:1,3,15 value=-1e-40"));
        check(&format!("fill out={t}[2,3]:9,2 value=nan"));
    }
}

#[test]
fn add() {
    for t in ["f32", "f16", "bf16", "f64"] {
        for (x, y) in [("3,5,70", "70"), ("3,5,70", "5,1"), ("1,5,1", "3,1,70"), ("70", "3,5,1"), ("", "3,70"), ("3,1,70", "1,5,70"), ("0,4", "1")] {
            check(&format!("add x={t}[{x}] y={t}[{y}]"));
        }
        check(&format!("add x={t}[7,9]:1,7 y={t}[9]:3+2 out={t}[7,9]:20,2+1"));
    }
    for t in ["f16", "bf16"] {
        for (a, b, out) in [(t, "f32", "f32"), ("f32", t, t), (t, t, "f32"), ("f32", "f32", t)] {
            check(&format!("add x={a}[3,5,70]+1 y={b}[70] out={out}[3,5,70]:400,71,1"));
        }
    }
}

#[test]
fn elementwise() {
    for t in ["f32", "f16", "bf16", "f64"] {
        for step in ["neg", "abs", "relu", "silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "exp", "log", "sqrt", "square", "reciprocal"] {
            check(&format!("elementwise x={t}[700]+1 step1={step}"));
        }
        for step in ["add", "sub", "mul", "div", "max", "min"] {
            check(&format!("elementwise x={t}[3,5,70] y1={t}[70] step2={step} step3=silu"));
        }
        check(&format!("elementwise x={t}[3,5,70] step1=scale c1=0.3 step3=scale c3=-2.0"));
        check(&format!("elementwise x={t}[5,1] y1={t}[3,5,70] y2={t}[70] y3={t}[3,1,1] y4={t}[] step1=add step2=mul step3=sub step4=max"));
        check(&format!("elementwise x={t}[3,70]:1,3 y1={t}[3,70] y2={t}[3,70] out={t}[3,70]:71,1 step1=exp step2=add step3=mul step4=gelu"));
        check(&format!("elementwise x={t}[9]"));
    }
}

#[test]
fn transpose() {
    for t in ["f32", "f16", "bf16", "f64"] {
        for (rows, cols) in [(1, 1), (1, 700), (64, 64), (65, 63), (127, 130), (200, 17), (300, 1)] {
            check(&format!("transpose x={t}[{rows},{cols}]"));
            check(&format!(
                "transpose x={t}[2,{rows},{cols}]:{},{},1+3 out={t}[2,{cols},{rows}]:{},{},1+1",
                900 * rows,
                cols + 8,
                999 * cols,
                rows + 3
            ));
            check(&format!("transpose x={t}[{rows},{cols}]:1,{rows} out={t}[{cols},{rows}]"));
            check(&format!("transpose x={t}[{rows},{cols}]:0,1 out={t}[{cols},{rows}]:2,{}", 2 * cols + 5));
        }
        check(&format!("transpose x={t}[3,4,70,5]:5000,1200,9,1"));
        check(&format!("transpose x={t}[3,0,5]"));
    }
}

#[test]
fn dropout() {
    let draw = "p=0.3 seed=-5 offset=3";
    for t in ["f32", "f16", "bf16", "f64"] {
        check(&format!("dropout x={t}[5000]+1 {draw}"));
        check(&format!("relu_dropout x={t}[3,5,701]:7000,1402,2+1 {draw} first=17179869183"));
        check(&format!("dropout_bwd dy={t}[3,5,701] {draw} dx={t}[3,5,701]:4000,720,1+3"));
        check(&format!("relu_dropout_bwd x={t}[33,70]:1,33 dy={t}[33,70] {draw} first=2"));
    }
}

/// One bit for each element of the output: whether it is 0. Inputs as [`values`] gives them are not.
fn dropped(op: &dyn Op, p: &Valid, plan: &warpwave_core::Plan, device: &CpuDevice) -> Vec<bool> {
    let output = p.outputs().next().unwrap();
    let desc = p.operands[output].as_ref().unwrap();
    let bytes = run(device, device.queue().unwrap().as_ref(), op, p, plan).swap_remove(output);
    let at = |i| ((desc.offset + desc.position(i)) * desc.dtype.size()) as usize;
    (0..desc.len()).map(|i| desc.dtype.decode(&bytes[at(i)..]) == 0.0).collect()
}

fn masks(text: &str) -> Vec<Vec<bool>> {
    let (op, p) = valid(text);
    let mut all = Vec::new();
    for width in [WarpWidth::W32, WarpWidth::W64] {
        let device = CpuDevice::new(width, Schedule::Late);
        for plan in op.plans(&p, device.caps()).unwrap() {
            all.push(dropped(op, &p, &plan, &device));
        }
    }
    all
}

/// The mask is that of the seed, the offset and the element's number alone: of no plan, warp, dtype, layout, split, nor direction.
#[test]
fn a_dropout_mask_has_one_source() {
    let draw = "p=0.25 seed=81985529216486895 offset=2";
    let want = masks(&format!("dropout x=f32[7,1001] {draw}")).swap_remove(0);
    let rate = want.iter().filter(|d| **d).count() as f64 / 7007.0;
    assert!((rate - 0.25).abs() < 0.026, "{rate}");
    for text in [
        "dropout x=f32[7,1001]",
        "dropout x=f64[7,1001]",
        "dropout x=bf16[7,1001]+3",
        "dropout x=f32[7,1001]:1,7 out=f32[7,1001]:1002,1+1",
        "dropout x=f32[7,1001]:1,7 out=f32[7,1001]:1,7",
        "dropout x=f32[7,7,11,13]",
        "relu_dropout x=f32[7,1001] relu=false",
        "dropout_bwd dy=f16[7,1001]",
        "dropout_bwd dy=f32[7,1001]:1,7 dx=f32[7,1001]:2002,2",
    ] {
        for mask in masks(&format!("{text} {draw}")) {
            assert!(mask == want, "{text}");
        }
    }
    // rows and odd pieces by themselves
    for (first, n) in [(0u64, 1001u64), (1001, 1001), (3003, 2002), (5, 1), (6, 3), (11, 700)] {
        for mask in masks(&format!("dropout x=f32[{n}] {draw} first={first}")) {
            assert!(mask == want[first as usize..][..n as usize], "{first} {n}");
        }
    }
    for other in ["p=0.25 seed=81985529216486895 offset=3", "p=0.25 seed=3 offset=2"] {
        assert!(masks(&format!("dropout x=f32[7,1001] {other}")).iter().all(|m| *m != want), "{other}");
    }
    // what one plan drops at one rate, it drops at every higher one
    let more = masks("dropout x=f32[7,1001] p=0.5 seed=81985529216486895 offset=2").swap_remove(0);
    assert!(want.iter().zip(more).all(|(&d, e)| !d || e));
}

/// relu_dropout and its gradient keep the same elements, which are those of dropout among the positive ones.
#[test]
fn a_gradient_has_the_mask_of_its_forward() {
    let (_, p) = valid("relu_dropout x=f32[3000] p=0.5 seed=9");
    let x = values(p.operands[0].as_ref().unwrap(), 1);
    let drop = masks("dropout x=f32[3000] p=0.5 seed=9").swap_remove(0);
    let want: Vec<bool> = x.iter().zip(drop).map(|(&x, d)| x <= 0.0 || d).collect();
    for text in ["relu_dropout x=f32[3000] p=0.5 seed=9", "relu_dropout_bwd x=f32[3000] dy=f32[3000] p=0.5 seed=9"] {
        assert!(masks(text).iter().all(|m| *m == want), "{text}");
    }
}

#[test]
fn every_variant_is_linked_in() {
    for target in [warpwave_core::Target::Host32, warpwave_core::Target::Host64] {
        for v in warpwave_kernels::variants(target) {
            assert!(CpuDevice::kernels().any(|k| k == v.id.to_string()), "{}", v.id);
        }
    }
}

#[test]
fn names_and_schedules() {
    assert_eq!(CpuDevice::open("cpu").unwrap().name(), "cpu");
    assert_eq!(CpuDevice::open("cpu:64").unwrap().caps().target.warp_width(), 64);
    assert!(matches!(CpuDevice::open("cpu:7"), Err(DeviceError::NoDriver { backend: "cpu", .. })));
    assert_eq!("eager".parse::<Schedule>().unwrap(), Schedule::Eager);
    assert_eq!("12".parse::<Schedule>().unwrap(), Schedule::Seed(12));
    assert!("soon".parse::<Schedule>().is_err());
}

#[test]
fn memory_is_checked() {
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let queue = device.queue().unwrap();
    for n in [0, 1, 255, 4096] {
        let b = device.allocate(n).unwrap();
        assert_eq!((b.address() % 256, b.bytes()), (0, n));
        queue.fill(&b, 0, n, 3).unwrap();
        let mut out = vec![0; n as usize];
        queue.download(&b, 0, &mut out).unwrap();
        assert!(out.iter().all(|&x| x == 3));
        assert!(matches!(queue.upload(&b, n, &[1]), Err(DeviceError::Driver { .. })));
        assert!(matches!(queue.fill(&b, u64::MAX, 2, 0), Err(DeviceError::Driver { .. })));
    }
    assert!(matches!(device.allocate(u64::MAX), Err(DeviceError::OutOfMemory { .. })));
    let other = warpwave_hal::null::NullDevice::new(warpwave_core::Target::Sm80).allocate(64).unwrap();
    assert!(matches!(queue.upload(&other, 0, &[1]), Err(DeviceError::Driver { .. })));
    let mut word = 5u32;
    // SAFETY: `word` outlives the buffer
    let borrowed = unsafe { device.borrow_memory((&raw mut word).expose_provenance() as u64, 4) };
    queue.upload(&borrowed, 0, &9u32.to_ne_bytes()).unwrap();
    drop(borrowed);
    assert_eq!(word, 9);
}

#[test]
fn a_wrong_launch_is_refused() {
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let queue = device.queue().unwrap();
    let (op, p) = valid("softmax x=f32[20,33]");
    let plan = op.plans(&p, device.caps()).unwrap().swap_remove(0);
    let view = || Some(View { buffer: device.allocate(20 * 33 * 4).unwrap(), offset: 0 });
    let change = |f: &dyn Fn(&mut warpwave_core::Launch)| {
        let mut plan = plan.clone();
        for step in &mut plan.steps {
            if let warpwave_core::Step::Launch(l) = step {
                f(l);
            }
        }
        let work = bind(op, &p, &plan, &[view(), view()], None, 0).unwrap();
        // SAFETY: refused before anything runs, which is what this test asks
        unsafe { queue.run(&work) }
    };
    assert!(change(&|_| ()).is_ok());
    assert!(matches!(change(&|l| l.blocks -= 1), Err(DeviceError::Launch { .. })));
    assert!(matches!(change(&|l| l.args.truncate(3)), Err(DeviceError::Launch { .. })));
    assert!(matches!(change(&|l| l.kernel.tag.push('x')), Err(DeviceError::KernelNotBuilt { .. })));
}

#[test]
fn events_and_graphs() {
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let queue = device.queue().unwrap();
    let b = device.allocate(16).unwrap();
    queue.fill(&b, 0, 16, 1).unwrap();
    let first = queue.record().unwrap();
    let graph = queue
        .capture(&mut || {
            assert!(matches!(queue.sync(), Err(DeviceError::Unsupported { .. })));
            queue.fill(&b, 4, 4, 7)
        })
        .unwrap();
    let mut out = [0; 16];
    queue.download(&b, 0, &mut out).unwrap();
    assert_eq!(out, [1; 16]);
    graph.launch().unwrap();
    queue.download(&b, 0, &mut out).unwrap();
    assert_eq!(out, [1, 1, 1, 1, 7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 1, 1]);
    let second = queue.record().unwrap();
    queue.wait(first.as_ref()).unwrap();
    assert!(second.since(first.as_ref()).unwrap() >= 0.0);
}
