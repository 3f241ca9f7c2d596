// SPDX-License-Identifier: Apache-2.0
//! What `tccrt.h` and `abi.h` declare, as far as this crate uses it.
use std::os::raw::{c_char, c_int, c_void};

pub const MAX_RANK: usize = 12;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub data: *mut c_void,
    pub dtype: i32,
    pub rank: i32,
    pub dims: [i64; MAX_RANK],
}

#[repr(C)]
pub struct Model {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct Session {
    _opaque: [u8; 0],
}

extern "C" {
    pub fn tccrt_open(path: *const c_char, out: *mut *mut Model) -> c_int;
    pub fn tccrt_close(m: *mut Model);
    pub fn tccrt_nentries(m: *const Model) -> c_int;
    pub fn tccrt_entry_name(m: *const Model, entry: c_int) -> *const c_char;
    pub fn tccrt_noutputs(m: *const Model, entry: *const c_char) -> c_int;
    pub fn tccrt_session_new(m: *mut Model, options: *const c_void, out: *mut *mut Session) -> c_int;
    pub fn tccrt_session_free(s: *mut Session);
    pub fn tccrt_run(
        s: *mut Session,
        entry: *const c_char,
        nin: c_int,
        input: *const Tensor,
        nout: c_int,
        output: *mut Tensor,
    ) -> c_int;
    pub fn tccrt_error() -> *const c_char;
}
