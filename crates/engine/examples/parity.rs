//! How fast parity is computed, and gives back what is missing, on one core: `cargo xtask bench` of its rows `parity…` runs it.
//!
//! `parity WHAT NAME SECONDS` prints, for the kernel of that name (`best`: the one that is used), its name and 10^6 bytes
//! for each second of processor time: data of the stripes that were dealt with, as Linux counts in its
//! `raid6: … gen() … MB/s`. WHAT is one of
//!
//! * `xor`: the parity of all data;
//! * `syndrome`: P and Q of all data;
//! * `two-lost`: two chunks of data from the others, P and Q; then another figure is the data that was missing;
//! * `copy`: all data copied, without any kernel.
//!
//! Without arguments it prints the names, the fastest last.

use std::hint::black_box;
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

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Computation {
    Xor,
    Syndrome,
    TwoLost,
    Copy,
}

/// What it is computed into.
struct Output {
    chunks: Vec<Vec<u8>>,
}

impl Computation {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "xor" => Self::Xor,
            "syndrome" => Self::Syndrome,
            "two-lost" => Self::TwoLost,
            "copy" => Self::Copy,
            _ => return None,
        })
    }

    /// Does it for one stripe.
    fn run(self, kernel: Kernel, stripe: &Stripe, output: &mut Output) {
        if self == Self::Copy {
            for (from, into) in stripe.data.iter().zip(&mut output.chunks) {
                into.copy_from_slice(black_box(from));
            }
            return;
        }
        let [first, second, ..] = output.chunks.as_mut_slice() else {
            unreachable!("there is a chunk for each of data");
        };
        let data = stripe.data.iter().map(|chunk| &**chunk);
        match self {
            Self::Xor => kernel.xor(&data.collect::<Vec<_>>(), first),
            Self::Syndrome => {
                let terms: Vec<Option<&[u8]>> = data.map(Some).collect();
                kernel.syndrome(&terms, first, second);
            }
            _ => stripe.rebuild(kernel, first, second),
        }
    }

    /// Whether the output is what it should be.
    fn is_right(self, stripe: &Stripe, output: &Output) -> bool {
        let [first, second, ..] = output.chunks.as_slice() else {
            return false;
        };
        match self {
            Self::Xor => *first == stripe.p,
            Self::Syndrome => (first, second) == (&stripe.p, &stripe.q),
            Self::TwoLost => (first, second) == (&stripe.data[LOST[0]], &stripe.data[LOST[1]]),
            Self::Copy => output.chunks == stripe.data,
        }
    }
}

/// Goes on stripe by stripe for `time`; stripes for each second.
fn measure(job: Computation, kernel: Kernel, time: Duration) -> f64 {
    let stripes: Vec<Stripe> = (0..STRIPES).map(Stripe::new).collect();
    let mut output = Output {
        chunks: vec![vec![0; CHUNK]; MEMBERS - 2],
    };
    for stripe in &stripes {
        job.run(kernel, stripe, &mut output);
        assert!(job.is_right(stripe, &output), "it is computed right");
    }
    let mut count = 0_u32;
    let start = spent();
    loop {
        for stripe in &stripes {
            job.run(kernel, stripe, &mut output);
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
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, name, seconds] = args.as_slice() else {
        for kernel in Kernel::all() {
            writeln!(out, "{}", kernel.name())?;
        }
        return Ok(());
    };
    let unknown = || std::io::Error::other("xor, syndrome, two-lost or copy");
    let job = Computation::of(what).ok_or_else(unknown)?;
    let known = Kernel::all().iter().find(|kernel| kernel.name() == name);
    let kernel = known.copied().unwrap_or_else(Kernel::best);
    let seconds: f64 = seconds.parse().map_err(std::io::Error::other)?;
    let stripes = measure(job, kernel, Duration::from_secs_f64(seconds));
    let megabytes = |chunks: usize| stripes * (chunks * CHUNK) as f64 / 1e6;
    let data = megabytes(MEMBERS - 2);
    match job {
        Computation::TwoLost => {
            let rebuilt = megabytes(LOST.len());
            writeln!(out, "{}\t{data:.0}\t{rebuilt:.0}", kernel.name())
        }
        _ => writeln!(out, "{}\t{data:.0}", kernel.name()),
    }
}
