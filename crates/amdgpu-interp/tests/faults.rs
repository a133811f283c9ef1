//! What the interpreter must report: each fault beside the same kernel without it.

#![allow(clippy::precedence, reason = "expected values read as the documents write them")]

mod assembled;
use amdgpu_interp::{Fault, Isa, Options, Order};
use assembled::{Source, assemble, execute};

/// Instructions as each processor spells them.
fn spell(text: &str, isa: Isa) -> String {
    if isa != Isa::Gfx1100 {
        return text.to_owned();
    }
    let pairs = [
        ("s_load_dwordx4", "s_load_b128"),
        ("global_load_dword ", "global_load_b32 "),
        ("global_store_dword ", "global_store_b32 "),
        ("ds_write_b32", "ds_store_b32"),
        ("ds_read_b32", "ds_load_b32"),
        ("v_add_u32", "v_add_nc_u32"),
        ("v_xor_b32", "v_xor_b32"),
    ];
    pairs.iter().fold(text.to_owned(), |t, (a, b)| t.replace(a, b))
}

const LOAD: &str = "
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v2, v1, s[4:5]
";
const STORE: &str = "
    global_store_dword v1, v3, s[6:7]
";

/// A wave of `items` work-items reads its neighbour's word through shared memory.
fn exchange(before: &str, between: &str) -> String {
    format!(
        "{LOAD}
    s_waitcnt vmcnt(0)
    {before}
    s_waitcnt lgkmcnt(0)
    {between}
    v_xor_b32 v4, 64, v0
    v_lshlrev_b32 v4, 2, v4
    ds_read_b32 v3, v4
    s_waitcnt lgkmcnt(0)
{STORE}"
    )
}

fn both(body: &str, faulty: &str, says: &str) {
    for isa in Isa::ALL {
        let source = |name: &str, body: &str| Source { name: name.into(), body: spell(body, isa), lds: 512 };
        let code = assemble(&[source("right", body), source("wrong", faulty)], isa);
        let input: Vec<u32> = (0..128).map(|i| i * 3 + 1).collect();
        let go = |name: &str, order| execute(&code, name, 1, 128, &input, 128, &Options { order, ..Options::default() });
        for order in [Order::Ascending, Order::Descending, Order::Shuffled(7)] {
            go("right", order).unwrap_or_else(|e| panic!("{isa}: {e}"));
            match go("wrong", order) {
                Err(Fault::Instruction { what, text, pc, .. }) => assert!(what.contains(says) && !text.is_empty() && pc > 0, "{isa}: {text}: {what}"),
                other => panic!("{isa}: {says}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_dropped_barrier() {
    let write = "ds_write_b32 v1, v0\n s_waitcnt lgkmcnt(0)\n s_barrier\n ds_write_b32 v1, v2";
    both(&exchange(write, "s_barrier"), &exchange(write, ""), "since the last barrier");
}

#[test]
fn shared_memory_that_nobody_wrote() {
    both(&exchange("ds_write_b32 v1, v2", "s_barrier"), &exchange("", "s_barrier"), "nobody wrote");
}

#[test]
fn a_missing_wait() {
    let body = format!("{LOAD} s_waitcnt vmcnt(0)\n v_add_u32 v3, 1, v2\n{STORE}");
    let faulty = format!("{LOAD} v_add_u32 v3, 1, v2\n{STORE}");
    both(&body, &faulty, "before an s_waitcnt");
    // of shared memory, and of scalar loads
    let twice = exchange("ds_write_b32 v1, v2", "s_barrier");
    let last = twice.rfind("s_waitcnt lgkmcnt(0)").unwrap();
    let faulty = format!("{}{}", &twice[..last], &twice[last + "s_waitcnt lgkmcnt(0)".len()..]);
    both(&twice, &faulty, "before an s_waitcnt");
    let faulty = LOAD.replace("s_waitcnt lgkmcnt(0)", "") + "s_waitcnt vmcnt(0) lgkmcnt(0)\n v_add_u32 v3, 1, v2\n" + STORE;
    both(&body, &faulty, "before an s_waitcnt");
}

#[test]
fn an_access_past_the_end() {
    let body = format!("{LOAD} s_waitcnt vmcnt(0)\n v_add_u32 v3, 1, v2\n{STORE}");
    both(&body, &body.replace("global_load_dword v2, v1, s[4:5]", "global_load_dword v2, v1, s[4:5] offset:4"), "lie in no allocation");
    both(&body, &body.replace("global_store_dword v1, v3, s[6:7]", "global_store_dword v1, v3, s[6:7] offset:4"), "lie in no allocation");
    // shared memory ends too
    let body = exchange("ds_write_b32 v1, v2", "s_barrier");
    both(&body, &body.replace("ds_read_b32 v3, v4", "ds_read_b32 v3, v4 offset:4"), "of shared memory, which has");
}

#[test]
fn registers_that_nobody_wrote() {
    let body = format!("{LOAD} s_waitcnt vmcnt(0)\n v_add_u32 v3, 1, v2\n{STORE}");
    both(&body, &body.replace("v_add_u32 v3, 1, v2", "v_add_u32 v3, 1, v9"), "was never written");
}

#[test]
fn a_barrier_that_one_wave_leaves_out() {
    let body = exchange("ds_write_b32 v1, v2", "s_barrier");
    // the first wave ends ahead of it
    let skip = "
    s_mov_b32 s8, 0
    v_cmp_gt_u32 vcc, 32, v0
    s_cbranch_vccz 1
    s_endpgm
    s_barrier";
    for isa in [Isa::Gfx90a, Isa::Gfx942] {
        let source = |name: &str, body: &str| Source { name: name.into(), body: body.into(), lds: 512 };
        let code = assemble(&[source("right", &body), source("wrong", &body.replace("s_barrier", skip))], isa);
        let input = vec![1; 128];
        execute(&code, "right", 1, 128, &input, 128, &Options::default()).unwrap();
        let e = execute(&code, "wrong", 1, 128, &input, 128, &Options::default()).unwrap_err();
        assert!(e.to_string().contains("which has ended"), "{e}");
    }
}

#[test]
fn a_loop_without_an_end() {
    for isa in Isa::ALL {
        let source = Source { name: "k".into(), body: "1:\n s_nop 0\n s_branch 1b".into(), lds: 0 };
        let code = assemble(&[source], isa);
        let e = execute(&code, "k", 1, 32, &[0], 1, &Options { max_instructions: 1000, ..Options::default() }).unwrap_err();
        assert!(e.to_string().contains("executed 1000 instructions"), "{e}");
    }
}

/// A kernel for waves of 64 that asks lane 40 for its value: waves of 32 have none.
#[test]
fn a_wave_of_32_where_64_are_assumed() {
    let body = format!("{LOAD} s_waitcnt vmcnt(0)\n v_mov_b32 v5, 160\n ds_bpermute_b32 v3, v5, v2\n s_waitcnt lgkmcnt(0)\n{STORE}");
    let of = |isa: Isa| {
        let code = assemble(&[Source { name: "k".into(), body: spell(&body, isa), lds: 0 }], isa);
        execute(&code, "k", 1, 64, &(0..64).collect::<Vec<_>>(), 64, &Options::default()).unwrap()
    };
    assert!(of(Isa::Gfx942).iter().all(|&x| x == 40));
    let narrow = of(Isa::Gfx1100);
    assert!(narrow[..32].iter().all(|&x| x == 8) && narrow[32..].iter().all(|&x| x == 40), "{narrow:?}");
}

#[test]
fn what_is_not_known_is_refused() {
    for (isa, body) in [
        (Isa::Gfx942, "s_getreg_b32 s4, hwreg(HW_REG_STATUS)"),
        (Isa::Gfx90a, "v_cvt_pkaccum_u8_f32 v1, v2, v3"),
        (Isa::Gfx1100, "v_dot4_u32_u8 v1, v2, v3, v4"),
    ] {
        let result = std::panic::catch_unwind(|| assemble(&[Source { name: "k".into(), body: body.into(), lds: 0 }], isa));
        let text = result.err().and_then(|e| e.downcast_ref::<String>().cloned()).unwrap_or_default();
        assert!(text.contains(body.split(' ').next().unwrap()), "{isa}: {body}: {text}");
    }
}
