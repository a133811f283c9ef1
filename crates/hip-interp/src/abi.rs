//! The C functions, as they are exported. None of them panics: what they call returns codes.

#![allow(non_snake_case, unreachable_pub, clippy::missing_safety_doc, missing_docs, reason = "names and contracts are those of the HIP runtime")]

use crate::runtime::{
    CAPTURE_UNSUPPORTED, Code, HostPointer, ILLEGAL_ADDRESS, INVALID_DEVICE, INVALID_IMAGE, INVALID_VALUE, LAUNCH_FAILURE, NO_BINARY_FOR_GPU, Result,
    SUCCESS, Work, runtime,
};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::null;
use std::slice::from_raw_parts;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// How many captures this thread has begun that are not relaxed, and its mode.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
    static MODE: Cell<c_uint> = const { Cell::new(0) };
}

const RELAXED: c_uint = 2;

fn code(r: Result<()>) -> Code {
    r.err().unwrap_or(SUCCESS)
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `to` is null or writable.
unsafe fn give<T>(to: *mut T, r: Result<T>) -> Code {
    if to.is_null() {
        return INVALID_VALUE;
    }
    match r {
        Ok(x) => {
            // SAFETY: not null, the caller's promise
            unsafe { to.write(x) };
            SUCCESS
        }
        Err(e) => e,
    }
}

fn handle(n: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(n)
}

fn current() -> usize {
    CURRENT.get()
}

/// What a capture forbids on its thread.
fn no_capture() -> Result<()> {
    if CAPTURES.get() > 0 && MODE.get() != RELAXED { Err(CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> Code {
    let n = runtime().devices.len();
    // SAFETY: the caller's promise
    let stored = unsafe { give(count, Ok(n as c_int)) };
    if stored == SUCCESS && n == 0 { crate::runtime::NO_DEVICE } else { stored }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    let r = usize::try_from(ordinal).map_err(|_| INVALID_DEVICE).and_then(|i| runtime().device(i).map(|_| ordinal));
    // SAFETY: the caller's promise
    unsafe { give(device, r) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code {
    let r = usize::try_from(device).map_err(|_| INVALID_DEVICE).and_then(|i| runtime().device(i).map(|d| d.name()));
    let Ok(text) = r else { return INVALID_DEVICE };
    let Some(room) = usize::try_from(len).ok().and_then(|n| n.checked_sub(1)).filter(|_| !name.is_null()) else { return INVALID_VALUE };
    let n = text.len().min(room);
    // SAFETY: the caller's buffer has `len` bytes
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, n);
        name.add(n).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> Code {
    let r = usize::try_from(device).map_err(|_| INVALID_DEVICE).and_then(|i| runtime().device(i).map(|d| d.memory.limit() as usize));
    // SAFETY: the caller's promise
    unsafe { give(bytes, r) }
}

/// `hipDeviceAttributeGcnArchName`: 256 bytes of text.
const GCN_ARCH_NAME: c_uint = 10004;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Code {
    let runtime = runtime();
    let d = match usize::try_from(device).map_err(|_| INVALID_DEVICE).and_then(|i| runtime.device(i)) {
        Ok(d) => d,
        Err(e) => return e,
    };
    if attribute == GCN_ARCH_NAME && !value.is_null() {
        let mut text = [0u8; 256];
        text[..d.isa.name().len()].copy_from_slice(d.isa.name().as_bytes());
        // SAFETY: the header promises 256 bytes for this attribute
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), value.cast(), 256) };
        return SUCCESS;
    }
    // SAFETY: the caller's promise
    unsafe { give(value, d.attribute(attribute).ok_or(INVALID_VALUE)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> Code {
    code(usize::try_from(device).map_err(|_| INVALID_DEVICE).and_then(|i| {
        runtime().device(i)?;
        CURRENT.set(i);
        Ok(())
    }))
}

const ERRORS: &[(Code, &CStr, &CStr)] = &[
    (SUCCESS, c"hipSuccess", c"no error"),
    (INVALID_VALUE, c"hipErrorInvalidValue", c"invalid argument"),
    (crate::runtime::OUT_OF_MEMORY, c"hipErrorOutOfMemory", c"out of memory"),
    (crate::runtime::NO_DEVICE, c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
    (INVALID_DEVICE, c"hipErrorInvalidDevice", c"invalid device ordinal"),
    (INVALID_IMAGE, c"hipErrorInvalidImage", c"device kernel image is invalid"),
    (NO_BINARY_FOR_GPU, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device"),
    (crate::runtime::INVALID_HANDLE, c"hipErrorInvalidHandle", c"invalid resource handle"),
    (crate::runtime::ILLEGAL_STATE, c"hipErrorIllegalState", c"the operation cannot be performed in the present state"),
    (crate::runtime::NOT_FOUND, c"hipErrorNotFound", c"named symbol not found"),
    (crate::runtime::NOT_READY, c"hipErrorNotReady", c"device not ready"),
    (ILLEGAL_ADDRESS, c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
    (LAUNCH_FAILURE, c"hipErrorLaunchFailure", c"unspecified launch failure"),
    (CAPTURE_UNSUPPORTED, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing"),
];

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: Code) -> *const c_char {
    ERRORS.iter().find(|e| e.0 == error).map_or(c"hipErrorUnknown".as_ptr(), |e| e.1.as_ptr())
}

/// For what the interpreter found, its own words.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(error: Code) -> *const c_char {
    if [ILLEGAL_ADDRESS, LAUNCH_FAILURE, INVALID_IMAGE, NO_BINARY_FOR_GPU].contains(&error)
        && let Some(text) = runtime().fault.clone()
        && let Ok(text) = CString::new(text)
    {
        // strings of the runtime are never freed; faults are few
        return text.into_raw();
    }
    ERRORS.iter().find(|e| e.0 == error).map_or(c"unknown error".as_ptr(), |e| e.2.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) -> Code {
    let r = runtime().new_stream(current(), flags & 1 == 1).map(handle);
    // SAFETY: the caller's promise
    unsafe { give(stream, r) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamDestroy(stream: *mut c_void) -> Code {
    code(runtime().destroy_stream(stream.addr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> Code {
    code(runtime().synchronize(stream.addr(), current()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) -> Code {
    code(runtime().wait(stream.addr(), event.addr(), current()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(event: *mut *mut c_void, _flags: c_uint) -> Code {
    let n = runtime().new_event();
    // SAFETY: the caller's promise
    unsafe { give(event, Ok(handle(n))) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    code(runtime().record(event.addr(), stream.addr(), current()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventDestroy(event: *mut c_void) -> Code {
    code(runtime().destroy_event(event.addr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventSynchronize(event: *mut c_void) -> Code {
    code(no_capture().and_then(|()| runtime().reach(event.addr())))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventQuery(event: *mut c_void) -> Code {
    code(no_capture().and_then(|()| runtime().query(event.addr())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(ms: *mut f32, start: *mut c_void, stop: *mut c_void) -> Code {
    let r = runtime().elapsed(start.addr(), stop.addr());
    // SAFETY: the caller's promise
    unsafe { give(ms, r) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> Code {
    let r = no_capture().and_then(|()| runtime().allocate(current(), size as u64)).map(|a| std::ptr::with_exposed_provenance_mut(a as usize));
    // SAFETY: the caller's promise
    unsafe { give(pointer, r) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipFree(pointer: *mut c_void) -> Code {
    code(no_capture().and_then(|()| runtime().free(pointer.addr() as u64)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyHtoDAsync(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void) -> Code {
    // SAFETY: the caller's source has so many bytes
    let bytes = if bytes == 0 { Vec::new() } else { unsafe { from_raw_parts(from.cast::<u8>(), bytes) }.to_vec() };
    code(runtime().enqueue(stream.addr(), current(), Work::Upload { to: to.addr() as u64, bytes }))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipMemcpyDtoHAsync(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void) -> Code {
    let work = Work::Download { to: HostPointer(to.cast()), from: from.addr() as u64, bytes: bytes as u64 };
    code(runtime().enqueue(stream.addr(), current(), work))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipMemcpyDtoDAsync(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void) -> Code {
    let work = Work::Copy { to: to.addr() as u64, from: from.addr() as u64, bytes: bytes as u64 };
    code(runtime().enqueue(stream.addr(), current(), work))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipMemsetD8Async(to: *mut c_void, value: c_uchar, count: usize, stream: *mut c_void) -> Code {
    code(runtime().enqueue(stream.addr(), current(), Work::Fill { to: to.addr() as u64, value, bytes: count as u64 }))
}

/// Bytes of a code object or bundle, by its own headers.
///
/// # Safety
/// `image` is one, whole.
unsafe fn extent(image: *const u8) -> Option<usize> {
    // SAFETY: within what the caller promises: each read lies in a header whose magic was seen
    let word = |at: usize, n: usize| -> u64 { unsafe { from_raw_parts(image.add(at), n) }.iter().rev().fold(0, |x, &b| x << 8 | u64::from(b)) };
    if word(0, 4) == u64::from(u32::from_le_bytes(*b"\x7fELF")) {
        // the section headers stand last: e_shoff, e_shentsize, e_shnum
        return usize::try_from(word(40, 8).checked_add(word(58, 2) * word(60, 2))?).ok();
    }
    const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    // SAFETY: as above
    if unsafe { from_raw_parts(image, MAGIC.len()) } != MAGIC {
        return None;
    }
    let (mut at, mut end) = (MAGIC.len() + 8, 0);
    for _ in 0..word(MAGIC.len(), 8) {
        end = end.max(word(at, 8).checked_add(word(at + 8, 8))?);
        at += 24 + usize::try_from(word(at + 16, 8)).ok()?;
    }
    usize::try_from(end).ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> Code {
    if image.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's image is whole
    let Some(bytes) = (unsafe { extent(image.cast()) }) else { return INVALID_IMAGE };
    // SAFETY: as above
    let bytes = unsafe { from_raw_parts(image.cast::<u8>(), bytes) };
    let r = no_capture().and_then(|()| runtime().load(bytes, current())).map(handle);
    // SAFETY: the caller's promise
    unsafe { give(module, r) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipModuleUnload(module: *mut c_void) -> Code {
    code(runtime().unload(module.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> Code {
    if name.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's string ends with a NUL
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let r = runtime().function(module.addr(), &name).map(handle);
    // SAFETY: the caller's promise
    unsafe { give(function, r) }
}

/// The block that `extra` names: pointer, its address, size, the address of its size, end.
///
/// # Safety
/// `extra` is null or such a list.
unsafe fn kernarg(extra: *mut *mut c_void) -> Option<Vec<u8>> {
    if extra.is_null() {
        return Some(Vec::new());
    }
    let (mut block, mut size) = (null(), 0);
    for i in (0..).step_by(2) {
        // SAFETY: the list ends with 3, which ends the loop
        let key = unsafe { extra.add(i).read() }.addr();
        if key == 3 {
            break;
        }
        // SAFETY: a key that is no end is followed by a value
        let value = unsafe { extra.add(i + 1).read() };
        match key {
            1 => block = value.cast_const().cast::<u8>(),
            // SAFETY: the value is the address of a size
            2 => size = unsafe { value.cast::<usize>().read() },
            _ => return None,
        }
    }
    if size == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the block has so many bytes
    (!block.is_null()).then(|| unsafe { from_raw_parts(block, size) }.to_vec())
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "HIP's")]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    // arguments one by one need their sizes, which only the block form says
    if !params.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller's list
    let Some(kernarg) = (unsafe { kernarg(extra) }) else { return INVALID_VALUE };
    let mut runtime = runtime();
    let (code_object, kernel) = match runtime.kernel(function.addr()) {
        Ok(k) => k,
        Err(e) => return e,
    };
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    if grid.contains(&0) || block.contains(&0) {
        return INVALID_VALUE;
    }
    code(runtime.enqueue(stream.addr(), current(), Work::Launch { code: code_object, kernel, grid, block, lds: shared, kernarg }))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamBeginCapture(stream: *mut c_void, mode: c_uint) -> Code {
    let r = runtime().begin_capture(stream.addr());
    if r.is_ok() && mode != RELAXED {
        CAPTURES.set(CAPTURES.get() + 1);
    }
    code(r)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> Code {
    let r = runtime().end_capture(stream.addr()).map(handle);
    if r.is_ok() {
        CAPTURES.set(CAPTURES.get().saturating_sub(1));
    }
    // SAFETY: the caller's promise
    unsafe { give(graph, r) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_uint) -> Code {
    let r = runtime().is_capturing(stream.addr()).map(c_uint::from);
    // SAFETY: the caller's promise
    unsafe { give(status, r) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Code {
    if mode.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, readable and writable by the caller's promise
    unsafe { mode.write(MODE.replace(mode.read())) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphInstantiate(
    exec: *mut *mut c_void,
    graph: *mut c_void,
    _node: *mut *mut c_void,
    _log: *mut c_char,
    _size: usize,
) -> Code {
    let r = runtime().copy_graph(graph.addr()).map(handle);
    // SAFETY: the caller's promise
    unsafe { give(exec, r) }
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGraphLaunch(exec: *mut c_void, stream: *mut c_void) -> Code {
    code(runtime().launch_graph(exec.addr(), stream.addr(), current()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGraphDestroy(graph: *mut c_void) -> Code {
    code(runtime().destroy_graph(graph.addr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGraphExecDestroy(exec: *mut c_void) -> Code {
    code(runtime().destroy_graph(exec.addr()))
}
