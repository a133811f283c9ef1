//! Positions of rope that lie outside a table: reported, passed unturned, and never read.

use warpwave_conformance::exec::{Image, Options, Runner};
use warpwave_core::{Problem, validate};
use warpwave_cpu::{CpuDevice, Schedule, WarpWidth};

/// Runs every plan on positions; gives x and each plan's output.
fn run(op: &str, rest: &str, positions: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let op = warpwave_kernels::op(op).unwrap();
    let names: Vec<_> = op.signature().operands.iter().map(|o| o.name).collect();
    let text = format!("{} {}=f32[{n},2,16] pos=i64[{n}] {rest}", op.signature().op, names[0], n = positions.len());
    let p = Problem::parse(&text, &warpwave_kernels::signature).unwrap();
    let p = validate(op, op.infer(p).unwrap()).unwrap();
    let options = Options::default();
    let value = |o: usize, i: u64| match o {
        1 => positions[i as usize],
        2 => 0.6,
        3 => 0.8,
        _ => f64::from(((i * 7 + 3) % 11) as u8) - 5.0,
    };
    let images = p.operands.iter().enumerate().take(4).map(|(o, d)| d.as_ref().map(|d| Image::filled(d, &options, &|i| value(o, i)))).chain([None]);
    let images: Vec<_> = images.collect();
    let x = images[0].as_ref().unwrap().dense();
    let device = CpuDevice::new(WarpWidth::W32, Schedule::Late);
    let runner = Runner::new(&device);
    let plans = op.plans(&p, warpwave_hal::Device::caps(&device)).unwrap();
    assert!(!plans.is_empty());
    (x, plans.iter().map(|plan| runner.run(op, &p, plan, images.clone(), options.clone()).unwrap()[0].values()).collect())
}

#[test]
fn positions_outside_a_table_are_reported() {
    for op in ["rope", "rope_bwd"] {
        for style in ["neox", "interleaved"] {
            let tables = format!("cos=f32[5,8] sin=f32[5,8] style={style}");
            let (x, plans) = run(op, &tables, &[-1.0, 4.0, 5.0, 0.0]);
            for out in plans {
                for l in 0..4 {
                    let same = out[l * 32..(l + 1) * 32] == x[l * 32..(l + 1) * 32];
                    assert_eq!(same, [true, false, true, false][l], "{op} {style}: position {l}");
                }
            }
            // one by one: what is out of range is reported, what is not is not
            for position in [-1.0, 4.0, 5.0, 1e15] {
                run(op, &tables, &[position]);
            }
        }
        // computed angles know every position
        run(op, "", &[-1.0, 5.0, 1e12, 0.0]);
    }
}
