// SPDX-License-Identifier: Apache-2.0
//! Runs models that tccc has compiled.
//!
//! ```no_run
//! let model = tccrt::Model::open("model.so")?;
//! let mut session = tccrt::Session::new(&model)?;
//! let x = vec![0f32; 784];
//! let outputs = session.run("main", &[tccrt::Input::new(&x, &[1, 1, 28, 28])?])?;
//! println!("{:?}", outputs[0].values::<f32>());
//! # Ok::<(), tccrt::Error>(())
//! ```
mod ffi;

use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_void;

/// A call's status, an `enum tcc_status` of `abi.h`, and its message.
#[derive(Debug, Clone)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// TCC_EUSAGE of `abi.h`.
const USAGE: i32 = 2;

fn usage(message: &str) -> Error {
    Error { code: USAGE, message: message.to_string() }
}

fn check(code: i32) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the library's text for this thread, which is never NULL; it is copied at once.
    let message = unsafe { CStr::from_ptr(ffi::tccrt_error()) }.to_string_lossy().into_owned();
    Err(Error { code, message })
}

mod sealed {
    pub trait Element: Copy {
        const DTYPE: i32;
    }
}

/// Types that elements of a tensor may have.
pub trait Element: sealed::Element {}

macro_rules! elements {
    ($($type:ty => $number:expr),*) => {
        $(impl sealed::Element for $type { const DTYPE: i32 = $number; }
          impl Element for $type {})*
    };
}
elements!(f32 => 1, u8 => 2, i8 => 3, u16 => 4, i16 => 5, i32 => 6, i64 => 7, f64 => 11, u32 => 12, u64 => 13);

/// An artifact. Threads may share it.
pub struct Model {
    raw: *mut ffi::Model,
}

// SAFETY: a model is immutable (tccrt.h).
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    pub fn open(path: &str) -> Result<Model> {
        let path = CString::new(path).map_err(|_| usage("the path has a zero byte"))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a string and a place for the result.
        check(unsafe { ffi::tccrt_open(path.as_ptr(), &mut raw) })?;
        Ok(Model { raw })
    }

    /// The names of its entry points; inference has one, `main`.
    pub fn entries(&self) -> Vec<String> {
        // SAFETY: the names live as long as the model.
        unsafe {
            (0..ffi::tccrt_nentries(self.raw))
                .map(|i| CStr::from_ptr(ffi::tccrt_entry_name(self.raw, i)).to_string_lossy().into_owned())
                .collect()
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: sessions borrow the model, so there is none left.
        unsafe { ffi::tccrt_close(self.raw) }
    }
}

/// An input: a borrowed row-major tensor.
pub struct Input<'a> {
    raw: ffi::Tensor,
    data: PhantomData<&'a [u8]>,
}

impl<'a> Input<'a> {
    /// `dims` must have as many elements as `values`, and at most 12 axes.
    pub fn new<T: Element>(values: &'a [T], dims: &[usize]) -> Result<Input<'a>> {
        let size = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if dims.len() > ffi::MAX_RANK || size != Some(values.len()) {
            return Err(usage("the dims of an input are not those of its values"));
        }
        let mut raw = ffi::Tensor {
            data: values.as_ptr() as *mut c_void, // a run does not write its inputs
            dtype: T::DTYPE,
            rank: dims.len() as i32,
            dims: [0; ffi::MAX_RANK],
        };
        for (to, &d) in raw.dims.iter_mut().zip(dims) {
            *to = d as i64;
        }
        Ok(Input { raw, data: PhantomData })
    }
}

/// A result, in the session's memory.
pub struct Output<'s> {
    raw: ffi::Tensor,
    data: PhantomData<&'s [u8]>,
}

impl Output<'_> {
    pub fn dims(&self) -> &[i64] {
        &self.raw.dims[..self.raw.rank as usize]
    }

    /// The elements; `None` where they have another type.
    pub fn values<T: Element>(&self) -> Option<&[T]> {
        let n = self.dims().iter().product::<i64>() as usize;
        if self.raw.dtype != T::DTYPE {
            return None;
        }
        if n == 0 {
            return Some(&[]);
        }
        // SAFETY: the session's memory holds n elements of this type until its next run, which needs it mutably.
        Some(unsafe { std::slice::from_raw_parts(self.raw.data as *const T, n) })
    }
}

/// What a run needs; one thread's at a time.
pub struct Session<'m> {
    raw: *mut ffi::Session,
    model: &'m Model,
}

// SAFETY: a session may move from thread to thread between runs (tccrt.h).
unsafe impl Send for Session<'_> {}

impl<'m> Session<'m> {
    pub fn new(model: &'m Model) -> Result<Session<'m>> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a model that is open; NULL: all options as by default.
        check(unsafe { ffi::tccrt_session_new(model.raw, std::ptr::null(), &mut raw) })?;
        Ok(Session { raw, model })
    }

    /// Runs an entry point; the outputs are good until the next run.
    pub fn run(&mut self, entry: &str, inputs: &[Input<'_>]) -> Result<Vec<Output<'_>>> {
        let entry = CString::new(entry).map_err(|_| usage("the entry point's name has a zero byte"))?;
        let list: Vec<ffi::Tensor> = inputs.iter().map(|i| i.raw).collect();
        // SAFETY: as many tensors as are said; without memory of the caller's the session provides it. -1 (no such entry point) becomes none, and the
        // run says so.
        unsafe {
            let n = ffi::tccrt_noutputs(self.model.raw, entry.as_ptr()).max(0);
            let empty = ffi::Tensor { data: std::ptr::null_mut(), dtype: 0, rank: 0, dims: [0; ffi::MAX_RANK] };
            let mut out = vec![empty; n as usize];
            check(ffi::tccrt_run(self.raw, entry.as_ptr(), list.len() as i32, list.as_ptr(), n, out.as_mut_ptr()))?;
            Ok(out.into_iter().map(|raw| Output { raw, data: PhantomData }).collect())
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing runs, since a run borrows the session.
        unsafe { ffi::tccrt_session_free(self.raw) }
    }
}
