//! [`Library`]: the functions of librados and librbd, which are looked up when the first image is opened.
//!
//! Their signatures are those of `rados/librados.h` and `rbd/librbd.h` of Ceph, whose soname promises that they stay.
//!
//! # Invariants
//!
//! * Nothing is linked: a machine without Ceph runs all else. A library that was loaded stays to the end of the process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use super::RbdError;

/// A handle of the library, or an argument of a callback.
pub(super) type Pointer = *mut c_void;
/// Called by a thread of librbd when a request is done: its completion, and the argument.
pub(super) type Completed = unsafe extern "C" fn(Pointer, Pointer);
/// Called for each extent of a difference: offset, length, whether it exists, and the argument.
pub(super) type ExtentFound = unsafe extern "C" fn(u64, usize, c_int, Pointer) -> c_int;

type Text = *const c_char;
/// A function of one handle.
type Ends = unsafe extern "C" fn(Pointer);
type Fails = unsafe extern "C" fn(Pointer) -> c_int;
type GivesNumber = unsafe extern "C" fn(Pointer, *mut u64) -> c_int;
type GivesText = unsafe extern "C" fn(Pointer, *mut c_char, usize) -> c_int;
type TakesText = unsafe extern "C" fn(Pointer, Text) -> c_int;
type Opens = unsafe extern "C" fn(Pointer, Text, *mut Pointer, Text) -> c_int;

/// `rbd_image_info_t`
#[repr(C)]
pub(super) struct ImageInfo {
    /// Bytes.
    pub(super) size: u64,
    /// Bytes of each object but the last.
    pub(super) object_size: u64,
    _objects: u64,
    _order: c_int,
    _prefix: [c_char; 24],
    _parent_pool: i64,
    _parent_name: [c_char; 96],
}

impl ImageInfo {
    /// To be filled.
    pub(super) const EMPTY: Self = Self {
        size: 0,
        object_size: 0,
        _objects: 0,
        _order: 0,
        _prefix: [0; 24],
        _parent_pool: 0,
        _parent_name: [0; 96],
    };
}

/// The functions that are used, by their names without `rados_` and `rbd_`.
pub(super) struct Library {
    pub(super) create: unsafe extern "C" fn(*mut Pointer, Text, Text, u64) -> c_int,
    pub(super) conf_set: unsafe extern "C" fn(Pointer, Text, Text) -> c_int,
    pub(super) conf_read_file: TakesText,
    pub(super) conf_parse_env: TakesText,
    pub(super) connect: Fails,
    pub(super) shutdown: Ends,
    pub(super) cluster_fsid: GivesText,
    pub(super) ioctx_create: unsafe extern "C" fn(Pointer, Text, *mut Pointer) -> c_int,
    pub(super) ioctx_destroy: Ends,
    pub(super) ioctx_set_namespace: unsafe extern "C" fn(Pointer, Text),
    pub(super) ioctx_id: unsafe extern "C" fn(Pointer) -> i64,
    pub(super) open: Opens,
    pub(super) open_read_only: Opens,
    pub(super) close: Fails,
    pub(super) stat: unsafe extern "C" fn(Pointer, *mut ImageInfo, usize) -> c_int,
    pub(super) features: GivesNumber,
    pub(super) flags: GivesNumber,
    pub(super) overlap: GivesNumber,
    pub(super) id: GivesText,
    pub(super) snapshot_id: unsafe extern "C" fn(Pointer, Text, *mut u64) -> c_int,
    pub(super) lock_acquire: unsafe extern "C" fn(Pointer, c_int) -> c_int,
    pub(super) lock_owners:
        unsafe extern "C" fn(Pointer, *mut c_int, *mut *mut c_char, *mut usize) -> c_int,
    pub(super) lock_owners_cleanup: unsafe extern "C" fn(*mut *mut c_char, usize),
    pub(super) diff_iterate:
        unsafe extern "C" fn(Pointer, Text, u64, u64, u8, u8, ExtentFound, Pointer) -> c_int,
    pub(super) create_completion: unsafe extern "C" fn(Pointer, Completed, *mut Pointer) -> c_int,
    pub(super) return_value: unsafe extern "C" fn(Pointer) -> isize,
    pub(super) release: Ends,
    pub(super) read: unsafe extern "C" fn(Pointer, u64, usize, *mut u8, Pointer) -> c_int,
    pub(super) writev:
        unsafe extern "C" fn(Pointer, *const libc::iovec, c_int, u64, Pointer) -> c_int,
    pub(super) discard: unsafe extern "C" fn(Pointer, u64, u64, Pointer) -> c_int,
    pub(super) write_zeroes:
        unsafe extern "C" fn(Pointer, u64, usize, Pointer, c_int, c_int) -> c_int,
    pub(super) flush: unsafe extern "C" fn(Pointer, Pointer) -> c_int,
}

/// The libraries, loaded at the first call that finds them.
///
/// # Errors
/// [`RbdError::Library`]; a later call tries again.
pub(super) fn library() -> Result<&'static Library, RbdError> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let loaded = load().map_err(RbdError::Library)?;
    Ok(LIBRARY.get_or_init(|| loaded))
}

#[expect(
    clippy::missing_transmute_annotations,
    reason = "each type is written once, at its field"
)]
fn load() -> Result<Library, String> {
    let rados = open(c"librados.so.2")?;
    let rbd = open(c"librbd.so.1")?;
    // SAFETY: each field has the type of a pointer to the function of that name, see the head.
    unsafe {
        Ok(Library {
            create: transmute(symbol(rados, c"rados_create2")?),
            conf_set: transmute(symbol(rados, c"rados_conf_set")?),
            conf_read_file: transmute(symbol(rados, c"rados_conf_read_file")?),
            conf_parse_env: transmute(symbol(rados, c"rados_conf_parse_env")?),
            connect: transmute(symbol(rados, c"rados_connect")?),
            shutdown: transmute(symbol(rados, c"rados_shutdown")?),
            cluster_fsid: transmute(symbol(rados, c"rados_cluster_fsid")?),
            ioctx_create: transmute(symbol(rados, c"rados_ioctx_create")?),
            ioctx_destroy: transmute(symbol(rados, c"rados_ioctx_destroy")?),
            ioctx_set_namespace: transmute(symbol(rados, c"rados_ioctx_set_namespace")?),
            ioctx_id: transmute(symbol(rados, c"rados_ioctx_get_id")?),
            open: transmute(symbol(rbd, c"rbd_open")?),
            open_read_only: transmute(symbol(rbd, c"rbd_open_read_only")?),
            close: transmute(symbol(rbd, c"rbd_close")?),
            stat: transmute(symbol(rbd, c"rbd_stat")?),
            features: transmute(symbol(rbd, c"rbd_get_features")?),
            flags: transmute(symbol(rbd, c"rbd_get_flags")?),
            overlap: transmute(symbol(rbd, c"rbd_get_overlap")?),
            id: transmute(symbol(rbd, c"rbd_get_id")?),
            snapshot_id: transmute(symbol(rbd, c"rbd_snap_get_id")?),
            lock_acquire: transmute(symbol(rbd, c"rbd_lock_acquire")?),
            lock_owners: transmute(symbol(rbd, c"rbd_lock_get_owners")?),
            lock_owners_cleanup: transmute(symbol(rbd, c"rbd_lock_get_owners_cleanup")?),
            diff_iterate: transmute(symbol(rbd, c"rbd_diff_iterate2")?),
            create_completion: transmute(symbol(rbd, c"rbd_aio_create_completion")?),
            return_value: transmute(symbol(rbd, c"rbd_aio_get_return_value")?),
            release: transmute(symbol(rbd, c"rbd_aio_release")?),
            read: transmute(symbol(rbd, c"rbd_aio_read")?),
            writev: transmute(symbol(rbd, c"rbd_aio_writev")?),
            discard: transmute(symbol(rbd, c"rbd_aio_discard")?),
            write_zeroes: transmute(symbol(rbd, c"rbd_aio_write_zeroes")?),
            flush: transmute(symbol(rbd, c"rbd_aio_flush")?),
        })
    }
}

fn open(name: &CStr) -> Result<Pointer, String> {
    // SAFETY: the name ends with a zero. What the library runs as it is loaded is Ceph's own set-up of static data, for which
    // any thread will do.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    match handle.is_null() {
        true => Err(last_error()),
        false => Ok(handle),
    }
}

/// The function `name` of a library.
#[cold]
#[inline(never)]
fn symbol(library: Pointer, name: &CStr) -> Result<Pointer, String> {
    // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    match found.is_null() {
        true => Err(last_error()),
        false => Ok(found),
    }
}

/// What the loader reports of its last failure on this thread.
fn last_error() -> String {
    // SAFETY: the text, if there is one, ends with a zero and stays until the thread's next call of the loader.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    text.unwrap_or_else(|| "the loader gives no reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_installed_is_named() {
        let error = open(c"libnot-installed.so.1").unwrap_err();
        assert!(error.contains("libnot-installed.so.1"), "{error}");
    }

    #[test]
    fn a_library_that_lacks_a_function_is_refused_with_its_name() {
        let c = open(c"libc.so.6").unwrap();
        let missing = symbol(c, c"rbd_not_there");
        assert!(missing.unwrap_err().contains("rbd_not_there"));
    }
}
