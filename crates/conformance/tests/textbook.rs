//! The textbook cases that are claims about plans, or about faulty computations.

use warpwave_conformance::exec::{Image, Options, Output, Runner};
use warpwave_conformance::generate::{Family, inputs, normal};
use warpwave_conformance::oracle::{Reference, Tolerance};
use warpwave_core::{Arg, DType, DeviceCaps, Op, Plan, Problem, Source, Step, Target, TensorDesc, Valid, Vendor, validate};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};

fn problem(op: &dyn Op, operands: &[(&str, DType, &[u64])]) -> Valid {
    let p = operands.iter().fold(Problem::new(op.signature()), |p, (name, dtype, shape)| p.with(name, TensorDesc::contiguous(*dtype, shape)));
    validate(op, p).unwrap()
}

fn op(name: &str) -> &'static dyn Op {
    warpwave_kernels::op(name).unwrap()
}

/// Whether the reference accepts these values of operand `output`.
fn accepts(op: &dyn Op, p: &Valid, images: &[Option<Image>], output: usize, range: std::ops::Range<u64>, values: &[f64]) -> bool {
    let desc = p.operands[output].as_ref().unwrap();
    let sources = images.iter().map(|i| i.as_ref().map_or(Source::Dense(Vec::new()), Image::source)).collect();
    let ranges = vec![range];
    let mut bytes = vec![0; values.len() * desc.dtype.size() as usize];
    values.iter().zip(bytes.chunks_exact_mut(desc.dtype.size() as usize)).for_each(|(&v, b)| desc.dtype.encode(v, b));
    let out = Output { operand: output, dtype: desc.dtype, shape: desc.shape.clone(), ranges: ranges.clone(), bytes };
    Reference::new(op, p, sources, output, ranges).check(&out, Tolerance::Bound, &|_| true).is_none()
}

#[test]
fn vector_add_of_98432_is_97_programs_with_896_lanes_masked() {
    let add = op("vector_add");
    let n = 98_432;
    let p = problem(add, &[("x", DType::F32, &[n]), ("y", DType::F32, &[n]), ("out", DType::F32, &[n])]);
    for target in Target::ALL {
        let plans = add.plans(&p, &DeviceCaps::typical(target)).unwrap();
        let tile_1024 = plans.iter().find(|p| p.tag == "256x1x4").unwrap();
        let programs = tile_1024.launches().next().unwrap().programs;
        assert_eq!((programs, programs * 1024 - n), (97, 896), "{target}");
    }
}

#[test]
fn softmax_of_a_tile_fixed_at_1024_is_caught_at_2000_columns() {
    let softmax = op("softmax");
    let p = problem(softmax, &[("x", DType::F32, &[1, 2000]), ("out", DType::F32, &[1, 2000])]);
    let images = inputs(softmax, &p, Family::Normal, 3, &Options::default());
    let x = images[0].as_ref().unwrap().dense();
    let with_tile = |tile: usize| -> Vec<f64> {
        let max = x[..tile].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = x[..tile].iter().map(|v| (v - max).exp()).sum();
        x.iter().enumerate().map(|(i, v)| if i < tile { (v - max).exp() / sum } else { 0.0 }).collect()
    };
    let (right, wrong) = (with_tile(2000), with_tile(1024));
    assert!(accepts(softmax, &p, &images, 1, 0..2000, &right));
    assert!(!accepts(softmax, &p, &images, 1, 0..2000, &wrong));
    let off = right.iter().zip(&wrong).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!((1e-3..1.0).contains(&off), "off by {off:e}");
}

#[test]
fn softmax_moves_each_element_once_in_and_once_out() {
    let p = problem(op("softmax"), &[("x", DType::F16, &[2048, 4096]), ("out", DType::F16, &[2048, 4096])]);
    assert_eq!(p.bytes_moved(), 33_554_432);
    // max, difference, exponential, sum, quotient: five passes over the row
    assert_eq!(p.bytes_moved() / 2 * 5, 83_886_080);
}

#[test]
fn matmul_with_f16_accumulation_is_outside_the_bound() {
    let matmul = op("matmul");
    let (m, k, n) = (512, 768, 1024);
    let p = problem(matmul, &[("a", DType::F16, &[m, k]), ("b", DType::F16, &[k, n]), ("out", DType::F16, &[m, n])]);
    let images: Vec<Option<Image>> = p
        .operands
        .iter()
        .enumerate()
        .map(|(o, d)| d.as_ref().filter(|_| o < 2).map(|d| Image::filled(d, &Options::default(), &|i| normal(5 + o as u64, i))))
        .collect();
    let (a, b) = (images[0].as_ref().unwrap().dense(), images[1].as_ref().unwrap().dense());
    let row = |round: &dyn Fn(f64) -> f64| -> Vec<f64> {
        (0..n).map(|j| DType::F16.round((0..k).fold(0.0, |sum, q| round(sum + a[q as usize] * b[(q * n + j) as usize])))).collect()
    };
    assert!(accepts(matmul, &p, &images, 3, 0..n, &row(&|x| DType::F32.round(x))));
    assert!(!accepts(matmul, &p, &images, 3, 0..n, &row(&|x| DType::F16.round(x))));
}

#[test]
fn matmul_64x128x64_with_4_stages_takes_98304_bytes() {
    let matmul = op("matmul");
    for target in Target::ALL {
        let all = matmul.variants(target);
        let tile: Vec<_> = all.iter().filter(|v| v.id.kernel == "matmul" && v.id.tag.starts_with("f16.64x128x64.s4.")).collect();
        match target {
            Target::Sm80 | Target::Sm89 | Target::Sm100 | Target::Compute80 => {
                assert_eq!(tile.len(), 4, "{target}: one for each orientation");
                for v in tile {
                    assert_eq!((v.shared, v.shared / 4), (98_304, 24_576), "{}", v.id);
                }
                // the accumulator of the tile, in float32
                assert_eq!(64 * 128 * 4, 32_768);
            }
            _ => assert!(tile.is_empty(), "{target}"),
        }
        if target.vendor() == Vendor::Hip {
            let large = all.iter().filter(|v| v.id.kernel == "matmul").map(|v| v.shared).max();
            assert!(large.is_some_and(|bytes| (1..=65_536).contains(&bytes)), "{target}: {large:?}");
        }
    }
}

#[test]
fn matmul_in_grouped_and_in_row_major_order_gives_the_same_bits() {
    let matmul = op("matmul");
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let runner = Runner::new(&device);
    for dtype in [DType::F32, DType::BF16] {
        let p = problem(matmul, &[("a", dtype, &[300, 200]), ("b", dtype, &[200, 330]), ("out", dtype, &[300, 330])]);
        let images = inputs(matmul, &p, Family::Normal, 17, &Options::default());
        for plan in matmul.plans(&p, warpwave_hal::Device::caps(&device)).unwrap() {
            let with_band = |rows: i32| -> Plan {
                let mut plan = plan.clone();
                let mut set = 0;
                for step in &mut plan.steps {
                    let Step::Launch(l) = step else { continue };
                    for (name, arg) in &mut l.args {
                        if *name == "band" {
                            *arg = Arg::I32(rows);
                            set += 1;
                        }
                    }
                }
                assert_eq!(set, 1);
                plan
            };
            let bits = |plan: &Plan| runner.run(matmul, &p, plan, images.clone(), Options::default()).unwrap()[0].bytes.clone();
            let row_major = bits(&with_band(1));
            for rows in [2, 3, 8, 100] {
                assert!(bits(&with_band(rows)) == row_major, "{}: bands of {rows}", plan.tag);
            }
        }
    }
}
