// Calls every event of rust.trace-events from Rust; rust_calls.c does the same from C.
mod trace {
    include!(env!("TRACE_RS"));
}

extern "C" {
    fn fake_switch_all(on: bool);
}

fn call_all() {
    let address = 0x1234 as *mut ();
    let text = std::ffi::CStr::from_bytes_with_nul(b"a 100% string\0").unwrap();
    trace::trace_rust_nothing();
    trace::trace_rust_without_format(-7, text);
    trace::trace_rust_strings(text, u64::MAX);
    trace::trace_rust_small(true, 255, -32768, b'x' as std::os::raw::c_char);
    trace::trace_rust_sizes(usize::MAX, -1, 5);
    trace::trace_rust_pointers(address, address, address as *mut u32);
    trace::trace_rust_never(1, text);
}

fn main() {
    call_all(); // off: nothing
    assert!(!trace::trace_rust_nothing_enabled());
    unsafe { fake_switch_all(true) };
    assert!(trace::trace_rust_nothing_enabled() && !trace::trace_rust_never_enabled());
    call_all();
}
