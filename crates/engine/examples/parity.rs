//! How fast parity gives back two missing members of a RAID 6, on one core: `cargo xtask bench parity`
//! runs it.
//!
//! `parity NAME SECONDS` prints, for the kernel of that name (`best`: the one that is used), its
//! name and two figures in 10^6 bytes for each second of processor time: data of the stripes that were
//! dealt with, as Linux counts in its `raid6: … gen() … MB/s`, and of these the data that was missing.
//! Without arguments it prints the names, the fastest last.

use std::io::Write as _;
use std::time::Duration;

use engine::parity::Kernel;
use rustix::time::{ClockId, clock_gettime};

/// Members of the array, as in the kernel's own measurement: six chunks of data, P and Q.
const MEMBERS: usize = 8;
/// Bytes of a chunk.
const CHUNK: usize = 64 << 10;
/// Stripes that take turns, so that what a stripe needs is not left in the core's own caches.
const STRIPES: usize = 128;
/// The data that is missing.
const LOST: [usize; 2] = [1, 4];

/// One stripe: its data, P, Q.
struct Stripe {
    data: Vec<Vec<u8>>,
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Stripe {
    fn new(number: usize) -> Self {
        let byte = |at: usize| (at * 31 + number * 7).to_le_bytes()[0];
        let data: Vec<Vec<u8>> = (0..MEMBERS - 2)
            .map(|member| (0..CHUNK).map(|at| byte(at * (member + 1))).collect())
            .collect();
        let (mut p, mut q) = (vec![0; CHUNK], vec![0; CHUNK]);
        let terms: Vec<Option<&[u8]>> = data.iter().map(|chunk| Some(&**chunk)).collect();
        Kernel::best().syndrome(&terms, &mut p, &mut q);
        Self { data, p, q }
    }

    fn rebuild(&self, kernel: Kernel, first: &mut [u8], second: &mut [u8]) {
        let mut terms = [None; MEMBERS - 2];
        for (term, chunk) in terms.iter_mut().zip(&self.data) {
            *term = Some(&**chunk);
        }
        for lost in LOST {
            terms[lost] = None;
        }
        kernel.from_both(&terms, [&self.p, &self.q], LOST, [first, second]);
    }
}

/// Processor time of this thread: others on the machine do not count.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// Rebuilds stripe by stripe for `time`; stripes for each second.
fn measure(kernel: Kernel, time: Duration) -> f64 {
    let stripes: Vec<Stripe> = (0..STRIPES).map(Stripe::new).collect();
    let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
    for stripe in &stripes {
        stripe.rebuild(kernel, &mut first, &mut second);
        let is_right = first == stripe.data[LOST[0]] && second == stripe.data[LOST[1]];
        assert!(is_right, "what comes back is what was lost");
    }
    let mut count = 0_u32;
    let start = spent();
    loop {
        for stripe in &stripes {
            stripe.rebuild(kernel, &mut first, &mut second);
            count += 1;
        }
        let spent = spent() - start;
        if spent >= time {
            return f64::from(count) / spent.as_secs_f64();
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(seconds)) = (args.next(), args.next()) else {
        for kernel in Kernel::all() {
            writeln!(out, "{}", kernel.name())?;
        }
        return Ok(());
    };
    let known = Kernel::all().iter().find(|kernel| kernel.name() == name);
    let kernel = known.copied().unwrap_or_else(Kernel::best);
    let seconds: f64 = seconds.parse().map_err(std::io::Error::other)?;
    let stripes = measure(kernel, Duration::from_secs_f64(seconds));
    let megabytes = |chunks: usize| stripes * (chunks * CHUNK) as f64 / 1e6;
    let (data, rebuilt) = (megabytes(MEMBERS - 2), megabytes(LOST.len()));
    writeln!(out, "{}\t{data:.0}\t{rebuilt:.0}", kernel.name())
}
