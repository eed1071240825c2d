//! Opening an image, and what its metadata report.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

use super::handles::{Handles, wait_for_closes};
use super::library::{Pointer, library};
use super::{Image, ImageSpec, RbdError, checked};

/// How long an opening waits for images of this process that are being closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// Seconds that the first connection may take, unless the configuration has other ones; Ceph's own default are 300.
const CONNECT_SECONDS: &CStr = c"30";
/// `RBD_FEATURE_STRIPINGV2`
const FEATURE_STRIPING: u64 = 1 << 1;
/// `RBD_FEATURE_EXCLUSIVE_LOCK`
const FEATURE_LOCK: u64 = 1 << 2;
/// `RBD_FEATURE_FAST_DIFF`
const FEATURE_FAST_DIFF: u64 = 1 << 4;
/// `RBD_FLAG_OBJECT_MAP_INVALID`, `RBD_FLAG_FAST_DIFF_INVALID`
const FLAGS_INVALID: u64 = 0b11;
/// `RBD_LOCK_MODE_EXCLUSIVE`
const EXCLUSIVE: c_int = 0;

/// Opens an image.
pub(super) fn open(spec: &ImageSpec) -> Result<Image, RbdError> {
    let library = library()?;
    // One that was dropped just now may have the lock of this one.
    let name = spec.name.to_string();
    wait_for_closes(Some(&name), CLOSE_LIMIT);
    let mut handles = Handles::new(library, name);
    connect(&mut handles, spec)?;
    let name = &spec.name;
    let pool = text(&name.pool)?;
    // SAFETY: the cluster is connected, and the pool's handle is the library's to fill.
    let opened = checked(unsafe {
        (library.ioctx_create)(handles.cluster, pool.as_ptr(), &raw mut handles.pool)
    });
    opened.map_err(|source| RbdError::Pool {
        pool: name.pool.clone(),
        source,
    })?;
    if let Some(namespace) = &name.namespace {
        let namespace = text(namespace)?;
        // SAFETY: the pool is open; the library copies the text.
        unsafe { (library.ioctx_set_namespace)(handles.pool, namespace.as_ptr()) };
    }
    let read_only = spec.is_read_only();
    let open = match read_only {
        true => library.open_read_only,
        false => library.open,
    };
    let image = text(&name.image)?;
    let snapshot = name.snapshot.as_deref().map(text).transpose()?;
    let snapshot = snapshot
        .as_ref()
        .map_or(null(), |snapshot| snapshot.as_ptr());
    // SAFETY: the pool is open, the texts end with a zero, and the image's handle is the library's to fill.
    let opened = checked(unsafe {
        open(
            handles.pool,
            image.as_ptr(),
            &raw mut handles.image,
            snapshot,
        )
    });
    let failed = |source| RbdError::Image {
        name: name.clone(),
        source,
    };
    opened.map_err(failed)?;
    if !read_only {
        if number(library.features, &handles).map_err(failed)? & FEATURE_LOCK == 0 {
            return Err(RbdError::NoLock(name.clone()));
        }
        // SAFETY: the image is open.
        let locked = checked(unsafe { (library.lock_acquire)(handles.image, EXCLUSIVE) });
        locked.map_err(|source| refused(&handles, spec, source))?;
    }
    Ok(Image {
        handles: Arc::new(handles),
        read_only,
    })
}

/// Connects to the cluster.
fn connect(handles: &mut Handles, spec: &ImageSpec) -> Result<(), RbdError> {
    let library = handles.library;
    let id = spec.id.as_deref().unwrap_or("admin");
    let failed = |source| RbdError::Connect {
        id: id.to_owned(),
        source,
    };
    let cluster = text(spec.cluster.as_deref().unwrap_or("ceph"))?;
    let user = text(&format!("client.{id}"))?;
    // SAFETY: the texts end with a zero, and the handle is the library's to fill.
    let made =
        unsafe { (library.create)(&raw mut handles.cluster, cluster.as_ptr(), user.as_ptr(), 0) };
    checked(made).map_err(failed)?;
    let conf = spec.conf.as_ref().map(|path| path.display().to_string());
    let path = conf.as_deref().map(text).transpose()?;
    // SAFETY: the cluster's handle is made and not connected; texts end with a zero, and no text is what the library takes for
    // its own places: CEPH_CONF, /etc/ceph, ~/.ceph; CEPH_ARGS.
    let (read, connected) = unsafe {
        let cluster = handles.cluster;
        let timeout = c"client_mount_timeout".as_ptr();
        (library.conf_set)(cluster, timeout, CONNECT_SECONDS.as_ptr());
        let path = path.as_ref().map_or(null(), |path| path.as_ptr());
        let read = checked((library.conf_read_file)(cluster, path));
        match &read {
            Err(_) if conf.is_some() => (read, Ok(())),
            // Without a file the monitors may be in the environment.
            _ => {
                (library.conf_parse_env)(cluster, null());
                (Ok(()), checked((library.connect)(cluster)))
            }
        }
    };
    let path = conf.unwrap_or_default();
    read.map_err(|source| RbdError::Config { path, source })?;
    connected.map_err(failed)
}

/// Why the lock was not given.
fn refused(handles: &Handles, spec: &ImageSpec, source: io::Error) -> RbdError {
    const OWNERS: usize = 4;
    let name = spec.name.clone();
    let mut mode = 0;
    let mut owners = [null_mut::<c_char>(); OWNERS];
    let mut count = OWNERS;
    let library = handles.library;
    // SAFETY: the image is open. The library fills as many texts as it reports, all of which it frees again after the first
    // was copied.
    let owner = unsafe {
        let (into, len) = (owners.as_mut_ptr(), &raw mut count);
        let found = (library.lock_owners)(handles.image, &raw mut mode, into, len);
        (found >= 0 && count > 0).then(|| {
            let owner = CStr::from_ptr(owners[0]).to_string_lossy().into_owned();
            (library.lock_owners_cleanup)(into, count);
            owner
        })
    };
    match owner {
        Some(owner) => RbdError::InUse { name, owner },
        None => RbdError::Image { name, source },
    }
}

/// The ids of cluster, pool, image and snapshot.
pub(super) fn facts(handles: &Handles, snapshot: Option<&str>) -> Option<[String; 4]> {
    let library = handles.library;
    // SAFETY: the pool is open.
    let pool = unsafe { (library.ioctx_id)(handles.pool) };
    let cluster = filled(library.cluster_fsid, handles.cluster)?;
    let image = filled(library.id, handles.image)?;
    let mut id = 0;
    if let Some(snapshot) = snapshot {
        let snapshot = text(snapshot).ok()?;
        let name = snapshot.as_ptr();
        // SAFETY: the image is open, the text ends with a zero, and the number is the library's to fill.
        checked(unsafe { (library.snapshot_id)(handles.image, name, &raw mut id) }).ok()?;
    }
    Some([cluster, pool.to_string(), image, id.to_string()])
}

/// The parts of `len` bytes at `offset` that have objects, where the image has an index of them.
pub(super) fn allocated(
    handles: &Handles,
    (size, object_size): (u64, u64),
    offset: u64,
    len: u64,
) -> io::Result<Option<Vec<(u64, u64)>>> {
    let library = handles.library;
    let features = number(library.features, handles)?;
    let is_indexed = features & (FEATURE_FAST_DIFF | FEATURE_STRIPING) == FEATURE_FAST_DIFF
        && number(library.flags, handles)? & FLAGS_INVALID == 0
        // What an image has no object for may be its parent's.
        && number(library.overlap, handles)? == 0;
    if !is_indexed {
        return Ok(None);
    }
    // Whole objects: librbd before 17 reports wrong offsets for parts of them (Ceph's issue 53784).
    let start = offset / object_size * object_size;
    let end = (offset + len).next_multiple_of(object_size).min(size);
    let mut found: Vec<(u64, u64)> = Vec::new();
    // SAFETY: the image is open, and `extent_found` gets the address of `found`, of which nothing else has a reference until
    // the call is over.
    checked(unsafe {
        let into = (&raw mut found).cast();
        (library.diff_iterate)(
            handles.image,
            null(),
            start,
            end - start,
            1,
            1,
            extent_found,
            into,
        )
    })?;
    Ok(Some(found))
}

/// Adds an extent to those found.
///
/// # Safety
/// `into` is the address of a `Vec<(u64, u64)>` of which there is no reference.
unsafe extern "C" fn extent_found(offset: u64, len: usize, exists: c_int, into: Pointer) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { &mut *into.cast::<Vec<(u64, u64)>>() };
    match found.last_mut() {
        _ if exists == 0 => {}
        Some((start, before)) if *start + *before == offset => *before += len as u64,
        _ => found.push((offset, len as u64)),
    }
    0
}

fn number(
    function: unsafe extern "C" fn(Pointer, *mut u64) -> c_int,
    handles: &Handles,
) -> io::Result<u64> {
    let mut value = 0;
    // SAFETY: the image is open, and the value is the library's to fill.
    checked(unsafe { function(handles.image, &raw mut value) })?;
    Ok(value)
}

/// The text that a function of the library makes of a handle.
fn filled(
    function: unsafe extern "C" fn(Pointer, *mut c_char, usize) -> c_int,
    handle: Pointer,
) -> Option<String> {
    let mut text = [0_u8; 128];
    // SAFETY: the handle is open. The library fills as many bytes as it is given, the last of them a zero.
    let result = unsafe { function(handle, text.as_mut_ptr().cast(), text.len()) };
    checked(result).ok()?;
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    Some(text.to_string_lossy().into_owned())
}

fn text(text: &str) -> Result<CString, RbdError> {
    CString::new(text).map_err(|_| RbdError::Zero(text.to_owned()))
}
