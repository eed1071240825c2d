//! What the live page costs the clients of a server: reads while it is open and while it is closed, from one server that
//! has a thousand idle clients besides, each of which is in every snapshot.
//!
//! The page is a reader of its events, not a browser: a browser on this machine takes processor time from the server as
//! any other program does.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::fio::Until;
use super::work::Load;
use super::{Args, Measured, disk, idle, one, ready, rounds};
use crate::process;
use crate::servers::{Launcher, Server, free_port};

/// Idle clients.
const CLIENTS: u32 = 1000;
/// Time for the first snapshot.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Reads with the page open, and closed.
pub(super) fn measure(launcher: &Launcher, args: &Args, load: &Load) -> Result<Vec<Measured>> {
    let path = disk(&launcher.folder)?;
    let port = free_port()?;
    let page = format!("--http=127.0.0.1:{port}");
    let with_page = Launcher {
        ours: [&launcher.ours[..], &[page]].concat(),
        before: None,
        folder: launcher.folder.clone(),
    };
    process::allow_files(CLIENTS)?;
    let serving = with_page.start(Server::Ours, &path.to_string_lossy())?;
    let clients = (0..CLIENTS).map(|_| idle::connect(&serving));
    let clients: Vec<TcpStream> = clients.collect::<Result<_>>()?;
    let names = ["page open", "page closed"].map(str::to_owned).to_vec();
    let measured = rounds(args, names, |which| {
        ready(&path)?;
        let open = (which == 0).then(|| OpenPage::open(port)).transpose()?;
        let sample = one(&serving, load, Until::Seconds(args.seconds))?;
        if let Some(page) = open {
            page.close(args.seconds)?;
        }
        Ok(sample)
    });
    drop(clients);
    measured
}

/// A page that receives events.
struct OpenPage {
    stream: TcpStream,
    reader: std::thread::JoinHandle<usize>,
}

impl OpenPage {
    /// Opens it, and waits until it receives something.
    fn open(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(OPEN_LIMIT))?;
        stream.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        if &first != b"HTTP/1.1 200" {
            bail!("the page: {}", String::from_utf8_lossy(&first));
        }
        let mut events = stream.try_clone()?;
        let read = move || {
            let mut buffer = vec![0; 1 << 20];
            let mut count = 0;
            while let Ok(len @ 1..) = events.read(&mut buffer) {
                count += buffer[..len]
                    .windows(5)
                    .filter(|at| at == b"\nid: ")
                    .count();
            }
            count
        };
        let reader = std::thread::Builder::new().spawn(read)?;
        Ok(Self { stream, reader })
    }

    /// Closes it; fails unless it received snapshots all the time.
    fn close(self, seconds: u32) -> Result<()> {
        self.stream.shutdown(Shutdown::Both)?;
        let count = self.reader.join().ok().context("the reader panicked")?;
        if count < seconds as usize / 2 {
            bail!("the page received {count} snapshots in {seconds} s");
        }
        Ok(())
    }
}
