//! Streams, events, graphs and errors of the C interface.

#[path = "../../amdgpu-interp/tests/assembled/mod.rs"]
mod assembled;

use amdgpu_interp::Isa;
use amdhip64_interp::abi::*;
use assembled::{Source, object};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const WORDS: usize = 64;

/// `out[i] = in[i] + 1` for 64 words.
fn add_one() -> Vec<u8> {
    let body = "s_load_dwordx4 s[4:7], s[0:1], 0x0\n v_lshlrev_b32 v1, 2, v0\n s_waitcnt lgkmcnt(0)\n global_load_dword v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_add_u32 v2, 1, v2\n \
                global_store_dword v1, v2, s[6:7]";
    object(&[Source { name: "add_one".into(), body: body.into(), lds: 0 }], Isa::Gfx942)
}

/// The device of gfx942, a kernel, and two buffers.
struct Fixture {
    function: *mut c_void,
    a: *mut c_void,
    b: *mut c_void,
}

fn fixture() -> Fixture {
    let (mut count, mut module, mut function, mut a, mut b) = (0, null_mut(), null_mut(), null_mut(), null_mut());
    let image = add_one();
    // SAFETY: every pointer is a live local, the image whole
    unsafe {
        assert_eq!((hipGetDeviceCount(&mut count), count), (0, 3));
        assert_eq!(hipSetDevice(1), 0);
        assert_eq!(hipModuleLoadData(&mut module, image.as_ptr().cast()), 0);
        assert_eq!(hipModuleGetFunction(&mut function, module, c"add_one".as_ptr()), 0);
        assert_eq!(hipModuleGetFunction(&mut b, module, c"nothing".as_ptr()), 500);
        assert_eq!((hipMalloc(&mut a, WORDS * 4), hipMalloc(&mut b, WORDS * 4)), (0, 0));
    }
    Fixture { function, a, b }
}

fn stream() -> *mut c_void {
    let mut s = null_mut();
    // SAFETY: `s` is a live local
    assert_eq!(unsafe { hipStreamCreateWithFlags(&mut s, 1) }, 0);
    s
}

impl Fixture {
    fn upload(&self, to: *mut c_void, value: u32, stream: *mut c_void) {
        let words = [value; WORDS];
        // SAFETY: the words outlive the call, which reads them
        assert_eq!(unsafe { hipMemcpyHtoDAsync(to, words.as_ptr().cast_mut().cast(), WORDS * 4, stream) }, 0);
    }

    fn launch(&self, from: *mut c_void, to: *mut c_void, stream: *mut c_void) -> u32 {
        let mut block = [from.addr() as u64, to.addr() as u64];
        let mut bytes = 16usize;
        let key = |n: usize| std::ptr::without_provenance_mut::<c_void>(n);
        let mut extra = [key(1), block.as_mut_ptr().cast(), key(2), (&raw mut bytes).cast(), key(3)];
        // SAFETY: the list is as HIP describes it, and copied by the call
        unsafe { hipModuleLaunchKernel(self.function, 1, 1, 1, WORDS as u32, 1, 1, 0, stream, null_mut(), extra.as_mut_ptr()) }
    }

    /// What the stream sees, after all that it has been given.
    fn download(&self, from: *mut c_void, stream: *mut c_void) -> Result<u32, u32> {
        let mut words = [0u32; WORDS];
        assert_eq!(hipMemcpyDtoHAsync(words.as_mut_ptr().cast(), from, WORDS * 4, stream), 0);
        match hipStreamSynchronize(stream) {
            0 => Ok(words[WORDS - 1]),
            code => Err(code),
        }
    }
}

#[test]
fn an_event_orders_two_streams() {
    let f = fixture();
    for ordered in [true, false] {
        let (x, y) = (stream(), stream());
        let mut event = null_mut();
        f.upload(f.b, 5, y);
        assert_eq!(hipStreamSynchronize(y), 0);
        // SAFETY: `event` is a live local
        assert_eq!(unsafe { hipEventCreateWithFlags(&mut event, 0) }, 0);
        f.upload(f.a, 40, x);
        assert_eq!((f.launch(f.a, f.b, x), hipEventRecord(event, x)), (0, 0));
        if ordered {
            assert_eq!(hipStreamWaitEvent(y, event, 0), 0);
        }
        assert_eq!(f.launch(f.b, f.b, y), 0);
        // without the wait nothing of the other stream has run
        assert_eq!(f.download(f.b, y), Ok(if ordered { 42 } else { 6 }));
        let mut ms = -1.0;
        // SAFETY: `ms` is a live local
        assert_eq!((hipEventSynchronize(event), unsafe { hipEventElapsedTime(&mut ms, event, event) }, ms), (0, 0, 0.0));
        assert_eq!((hipStreamDestroy(x), hipStreamDestroy(y), hipEventDestroy(event)), (0, 0, 0));
    }
}

#[test]
fn a_graph_runs_when_it_is_launched() {
    let f = fixture();
    let s = stream();
    f.upload(f.a, 1, s);
    assert_eq!(hipStreamSynchronize(s), 0);
    let (mut graph, mut exec, mut memory, mut status) = (null_mut(), null_mut(), null_mut(), 9);
    assert_eq!(hipStreamBeginCapture(s, 1), 0);
    // SAFETY: all are live locals
    unsafe {
        assert_eq!((hipStreamIsCapturing(s, &mut status), status), (0, 1));
        assert_eq!((f.launch(f.a, f.b, s), f.launch(f.b, f.a, s)), (0, 0));
        // what a capture forbids, and what a relaxed thread may
        assert_eq!((hipMalloc(&mut memory, 64), hipStreamSynchronize(s)), (900, 900));
        let mut mode = 2;
        assert_eq!(hipThreadExchangeStreamCaptureMode(&mut mode), 0);
        assert_eq!((hipMalloc(&mut memory, 64), hipThreadExchangeStreamCaptureMode(&mut mode), hipStreamEndCapture(s, &mut graph)), (0, 0, 0));
        assert_eq!(f.download(f.a, s), Ok(1));
        assert_eq!((hipGraphInstantiate(&mut exec, graph, null_mut(), null_mut(), 0), hipGraphDestroy(graph)), (0, 0));
    }
    for want in [3, 5] {
        assert_eq!(hipGraphLaunch(exec, s), 0);
        assert_eq!(f.download(f.a, s), Ok(want));
    }
    assert_eq!((hipGraphExecDestroy(exec), hipGraphLaunch(exec, s), hipFree(memory)), (0, 400, 0));
}

#[test]
fn errors_are_codes_with_words() {
    let f = fixture();
    let s = stream();
    let text = |code| {
        // SAFETY: the library's strings are never freed
        unsafe { CStr::from_ptr(hipGetErrorString(code)) }.to_string_lossy().into_owned()
    };
    // beyond an allocation: the launch is taken, the wait reports it, later work runs
    let beyond = f.b.wrapping_byte_add(4);
    assert_eq!(f.launch(f.a, beyond, s), 0);
    assert_eq!(hipStreamSynchronize(s), 700);
    assert!(text(700).contains("add_one") && text(700).contains("global_store_dword"), "{}", text(700));
    f.upload(f.a, 8, s);
    assert_eq!((f.launch(f.a, f.b, s), f.download(f.b, s)), (0, Ok(9)));
    let (mut memory, mut module) = (null_mut(), null_mut());
    // SAFETY: the pointers are live locals, the images whole
    unsafe {
        assert_eq!(hipMalloc(&mut memory, usize::MAX / 2), 2);
        assert_eq!((hipFree(f.a.wrapping_byte_add(8)), hipSetDevice(3), hipSetDevice(-1)), (1, 101, 101));
        assert_eq!(hipModuleLoadData(&mut module, [0u8; 64].as_ptr().cast()), 200);
        // an image of another processor
        assert_eq!(hipSetDevice(2), 0);
        assert_eq!(hipModuleLoadData(&mut module, add_one().as_ptr().cast()), 209);
        assert_eq!(hipSetDevice(1), 0);
        let mut value = 0;
        assert_eq!((hipDeviceGetAttribute(&mut value, 87, 2), value), (0, 32));
        assert_eq!((hipDeviceGetAttribute(&mut value, 87, 1), value), (0, 64));
        assert_eq!(hipDeviceGetAttribute(&mut value, 100_000, 1), 1);
    }
    let nowhere = std::ptr::without_provenance_mut(3);
    assert_eq!((hipStreamSynchronize(nowhere), hipEventQuery(nowhere), hipModuleUnload(nowhere), f.launch(f.a, f.b, nowhere)), (400, 400, 400, 400));
    assert!(text(0).contains("no error") && text(12345).contains("unknown"));
}

#[test]
fn polling_an_event_gets_there() {
    let f = fixture();
    let s = stream();
    let mut event = null_mut();
    // SAFETY: `event` is a live local
    assert_eq!(unsafe { hipEventCreateWithFlags(&mut event, 2) }, 0);
    f.upload(f.a, 1, s);
    assert_eq!((f.launch(f.a, f.b, s), hipEventRecord(event, s)), (0, 0));
    let polls = (0..10).take_while(|_| hipEventQuery(event) == 600).count();
    assert!((1..9).contains(&polls), "{polls}");
}
