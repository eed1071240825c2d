//! Tests of the FUSE messages and of what each request comes to.

use block::{Errno, Geometry, Range, Support, WriteFlags};
use proptest::prelude::*;

use super::plan::{DiskRequest, RequestPlan, errno, errno_of, plan};
use super::proto::{Call, IN_HEADER_LEN, ProtoError, Request, decode};
use super::reply::{self, DISK, ROOT};

const SIZE: u64 = 1 << 20;

fn request(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(IN_HEADER_LEN + body.len()).unwrap();
    let mut out = len.to_le_bytes().to_vec();
    out.extend_from_slice(&opcode.to_le_bytes());
    out.extend_from_slice(&77u64.to_le_bytes());
    out.extend_from_slice(&node.to_le_bytes());
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(body);
    out
}

fn io_body(offset: u64, size: u32, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&size.to_le_bytes());
    body.extend_from_slice(&[0; 20]);
    body.extend_from_slice(data);
    body
}

fn step<'a>(request: &Request<'a>, change: impl FnOnce(&mut Geometry)) -> RequestPlan<'a> {
    let mut geometry = Geometry::native(SIZE);
    change(&mut geometry);
    plan(request, &geometry, "outboard-1")
}

fn call(call: Call<'_>) -> Request<'_> {
    Request {
        unique: 77,
        node: DISK,
        call,
    }
}

#[test]
fn a_read_is_decoded_with_its_reply_number() {
    let bytes = request(15, DISK, &io_body(4096, 512, &[]));
    let expected = Call::Read {
        offset: 4096,
        size: 512,
    };
    assert_eq!(decode(&bytes), Ok(call(expected)));
}

#[test]
fn a_write_carries_exactly_its_data() {
    let bytes = request(16, DISK, &io_body(8, 3, b"abc"));
    let expected = Call::Write {
        offset: 8,
        data: b"abc",
    };
    assert_eq!(decode(&bytes), Ok(call(expected)));
    let short = request(16, DISK, &io_body(8, 4, b"abc"));
    assert!(matches!(decode(&short), Err(ProtoError::Short { .. })));
}

#[test]
fn a_length_that_is_not_the_one_read_is_an_error() {
    let mut bytes = request(15, DISK, &io_body(0, 1, &[]));
    bytes.push(0);
    assert!(matches!(decode(&bytes), Err(ProtoError::Length { .. })));
}

#[test]
fn init_announces_big_requests_and_many_in_flight() {
    let init = call(Call::Init {
        major: 7,
        minor: 40,
        flags: u32::MAX,
        max_readahead: 9,
    });
    let RequestPlan::Answer(body) = step(&init, |_| {}) else {
        panic!("it is answered");
    };
    assert_eq!(body.len(), 64);
    assert_eq!(body[..8], [7, 0, 0, 0, 31, 0, 0, 0]);
    assert_eq!(body[16..18], 512u16.to_le_bytes());
    assert_eq!(body[20..24], (1u32 << 20).to_le_bytes());
    assert_eq!(body[28..30], 256u16.to_le_bytes());
}

#[test]
fn an_ability_the_kernel_lacks_is_not_requested() {
    let offered = 1 | 1 << 5;
    let body = reply::init(offered, 0);
    assert_eq!(body[12..16], offered.to_le_bytes());
}

#[test]
fn another_protocol_version_is_answered_as_the_protocol_says() {
    let init = |major| {
        call(Call::Init {
            major,
            minor: 0,
            flags: 0,
            max_readahead: 0,
        })
    };
    assert_eq!(step(&init(6), |_| {}), RequestPlan::Refuse(errno::EPROTO));
    assert!(matches!(step(&init(8), |_| {}), RequestPlan::Answer(body) if body[0] == 7));
}

#[test]
fn only_the_disk_can_be_found_and_opened() {
    let look = |name| Request {
        node: ROOT,
        ..call(Call::Lookup { name })
    };
    assert!(matches!(step(&look(b"outboard-1"), |_| {}), RequestPlan::Answer(b) if b.len() == 128));
    assert_eq!(
        step(&look(b"other"), |_| {}),
        RequestPlan::Refuse(errno::ENOENT)
    );
    assert!(matches!(step(&call(Call::Open), |_| {}), RequestPlan::Answer(b) if b.len() == 16));
    let root = Request {
        node: ROOT,
        ..call(Call::Open)
    };
    assert_eq!(step(&root, |_| {}), RequestPlan::Refuse(errno::EPERM));
}

#[test]
fn the_file_has_the_disks_size() {
    let RequestPlan::Answer(body) = step(&call(Call::GetAttr), |_| {}) else {
        panic!("it is answered");
    };
    assert_eq!(body.len(), 104);
    assert_eq!(body[24..32], SIZE.to_le_bytes());
    let RequestPlan::Answer(body) = step(&call(Call::Statfs), |_| {}) else {
        panic!("it is answered");
    };
    assert_eq!(body.len(), 80);
    assert_eq!(body[..8], (SIZE / 4096).to_le_bytes());
}

#[test]
fn a_read_is_cut_at_the_end_and_empty_behind_it() {
    let read = |offset| call(Call::Read { offset, size: 4096 });
    let last = Range::new(SIZE - 512, 512);
    assert_eq!(
        step(&read(SIZE - 512), |_| {}),
        RequestPlan::Disk(DiskRequest::Read(last))
    );
    assert_eq!(step(&read(SIZE), |_| {}), RequestPlan::Answer(Vec::new()));
    assert_eq!(
        step(&read(u64::MAX), |_| {}),
        RequestPlan::Answer(Vec::new())
    );
}

#[test]
fn a_write_past_the_end_is_a_full_disk_and_one_to_a_read_only_disk_is_refused() {
    let write = call(Call::Write {
        offset: SIZE - 1,
        data: b"ab",
    });
    assert_eq!(step(&write, |_| {}), RequestPlan::Refuse(errno::ENOSPC));
    assert_eq!(
        step(&write, |g| g.read_only = true),
        RequestPlan::Refuse(errno::EROFS)
    );
}

#[test]
fn a_hole_is_zeroed_because_the_loop_device_relies_on_zeroes() {
    let falloc = |mode| {
        call(Call::Fallocate {
            offset: 0,
            len: 4096,
            mode,
        })
    };
    let range = Range::new(0, 4096);
    let zero = |flags| RequestPlan::Disk(DiskRequest::Zero(range, flags));
    assert_eq!(step(&falloc(3), |_| {}), zero(WriteFlags::empty()));
    assert_eq!(step(&falloc(17), |_| {}), zero(WriteFlags::NO_HOLE));
    for refused in [0, 1, 8, 32] {
        let step = step(&falloc(refused), |_| {});
        assert_eq!(step, RequestPlan::Refuse(errno::EOPNOTSUPP));
    }
    for slow in [Support::None, Support::Emulated] {
        let step = step(&falloc(3), |g| g.write_zeroes = slow);
        assert_eq!(step, RequestPlan::Refuse(errno::EOPNOTSUPP));
    }
}

#[test]
fn a_sync_asks_the_disk_to_flush_unless_it_has_no_cache() {
    let sync = call(Call::Fsync);
    assert_eq!(step(&sync, |_| {}), RequestPlan::Disk(DiskRequest::Flush));
    let answered = step(&sync, |g| g.flush = Support::None);
    assert_eq!(answered, RequestPlan::Answer(Vec::new()));
}

#[test]
fn every_error_has_a_number_and_a_full_disk_stays_one() {
    assert_eq!(errno_of(Errno::NoSpace), errno::ENOSPC);
    for error in Errno::ALL {
        assert!(errno_of(error) > 0);
    }
}

#[test]
fn an_answer_begins_with_its_length_error_and_number() {
    let header = reply::header(77, errno::EIO, 0);
    assert_eq!(header[..4], 16u32.to_le_bytes());
    assert_eq!(header[4..8], (-5i32).to_le_bytes());
    assert_eq!(header[8..], 77u64.to_le_bytes());
}

proptest! {
    #[test]
    fn no_request_panics_and_every_range_lies_on_the_disk(
        opcode in 0u32..60,
        node in 0u64..4,
        body in prop::collection::vec(any::<u8>(), 0..96),
        offset in 0u64..SIZE * 2,
    ) {
        let mut body = body;
        if let Some(field) = body.get_mut(8..16) {
            field.copy_from_slice(&offset.to_le_bytes());
        }
        let bytes = request(opcode, node, &body);
        if let Ok(request) = decode(&bytes) {
            let step = step(&request, |g| g.block_size = 512);
            if let RequestPlan::Disk(DiskRequest::Read(range) | DiskRequest::Write(range, _) | DiskRequest::Zero(range, _)) = step {
                prop_assert!(range.end() <= SIZE);
                prop_assert_eq!(range.offset % 512, 0);
            }
        }
        prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
