//! Agents that lie, hang up and come back, and what an agent does on this machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::client::Dialled;
use super::http::{Head, parse_head};
use super::local::{AgentService, FioServer, Iperf3Server, Rights};
use super::protocol::{ANSWER_LEN_MAX, HEAD_LEN_MAX};
use super::*;
use crate::Cancel;
use crate::host::sockets;
use crate::units::Nanos;

#[derive(Debug)]
struct PlainDial(SocketAddr);

impl Dial for PlainDial {
    fn dial(&self) -> std::io::Result<Dialled> {
        let socket = TcpStream::connect(self.0)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Dialled {
            stream: Box::new(socket.try_clone()?),
            socket,
        })
    }

    fn place(&self) -> String {
        self.0.to_string()
    }
}

fn secret() -> Token {
    Token::new("0123456789abcdef").unwrap()
}

/// A connection on which a signal interrupts every other call, as by a ring that is closed.
struct Interrupted {
    stream: TcpStream,
    calls: u32,
}

impl Interrupted {
    fn signal(&mut self) -> std::io::Result<()> {
        self.calls += 1;
        match self.calls % 2 {
            1 => Err(std::io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    }
}

impl Read for Interrupted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.signal()?;
        // A byte at a time, so that there are many calls.
        let len = buffer.len().min(1);
        self.stream.read(&mut buffer[..len])
    }
}

impl Write for Interrupted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.signal()?;
        self.stream.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.signal()?;
        self.stream.flush()
    }
}

/// Dials what is interrupted all the time.
#[derive(Debug)]
struct Interrupting(SocketAddr);

impl Dial for Interrupting {
    fn dial(&self) -> std::io::Result<Dialled> {
        let socket = TcpStream::connect(self.0)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let stream = Interrupted {
            stream: socket.try_clone()?,
            calls: 0,
        };
        Ok(Dialled {
            stream: Box::new(stream),
            socket,
        })
    }

    fn place(&self) -> String {
        self.0.to_string()
    }
}

/// An agent that takes one request on each connection and sends a given answer.
fn agent(answers: Vec<Vec<u8>>) -> AgentAddress {
    AgentAddress {
        dial: Arc::new(PlainDial(listening(answers))),
        token: secret(),
        cancel: Cancel::default(),
    }
}

/// Where such an agent listens.
fn listening(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    engine::thread("fake agent", move || {
        for answer in answers {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.contains("Authorization: Bearer 0123456789abcdef\r\n"));
            // A client that has heard enough hangs up.
            drop(client.write_all(&answer));
        }
    })
    .unwrap();
    address
}

fn error_text(answer: &[u8]) -> String {
    let about = agent(vec![answer.to_vec()]).about();
    about.expect_err("it is no agent").to_string()
}

#[test]
fn what_is_no_agent_is_distinguished() {
    let with_body = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    assert!(error_text(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").contains("no HTTP"));
    assert!(error_text(b"HTTP/1.1 200 OK\r\n\r\n{}").contains("no given length"));
    assert!(error_text(&with_body("200 OK", "{}")).contains("no agent of this version"));
    assert!(error_text(&with_body("401 Unauthorized", "x")).contains("another token"));
    assert!(error_text(&with_body("403 Forbidden", "--allow-fio\n")).contains("--allow-fio"));
    let said = error_text(&with_body("500 No", "a\u{7}b\nsecond line"));
    assert_eq!(
        said, "it answers 500: ab",
        "one line without control characters"
    );
}

#[test]
fn an_agent_that_says_too_much_is_cut_off() {
    let long = vec![b'x'; HEAD_LEN_MAX + 10];
    assert!(error_text(&long).contains("a head that is too long"));
    let length = ANSWER_LEN_MAX + 1;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    assert!(error_text(head.as_bytes()).contains("too long"));
    let overflow = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n";
    assert!(error_text(overflow.as_bytes()).contains("a length that is none"));
    let mut endless = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
    endless.resize(ANSWER_LEN_MAX + 100_000, b'x');
    let samples = agent(vec![endless]).samples(None).unwrap();
    let lost = wait_for(|| samples.lost());
    assert!(lost.contains("a line that is too long"), "{lost}");
}

/// A ring that was closed behind a measurement interrupted the calls of its thread, and the agent counted
/// as lost. The doctor then sent four requests; now one is enough.
#[test]
fn a_signal_in_the_middle_of_a_call_loses_no_agent() {
    let lines = b"HTTP/1.0 200 OK\r\n\r\n{\"at\":7,\"samples\":[]}\n".to_vec();
    let refusal = b"HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nno\n".to_vec();
    let address = listening(vec![refusal, lines]);
    let agent = AgentAddress {
        dial: Arc::new(Interrupting(address)),
        token: secret(),
        cancel: Cancel::default(),
    };
    let refused = agent.about().expect_err("it is refused");
    assert!(matches!(refused, AgentError::Forbidden(_)), "{refused}");
    let (mut lines, _) = agent.sample_lines(None).unwrap();
    assert_eq!(lines.next_line().unwrap(), b"{\"at\":7,\"samples\":[]}");
}

fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nothing within 20 s");
}

/// The first agent is lost in the middle of a line; half a line is no sample.
#[test]
fn a_lost_agent_is_reported_and_found_again() {
    let line = |at: u64| format!("{{\"at\":{at},\"samples\":[[\"cpu\",\"0/user\",0.5]]}}\n");
    let first = format!("HTTP/1.0 200 OK\r\n\r\n{}{{\"at\":2,", line(1)).into_bytes();
    let second = format!("HTTP/1.0 200 OK\r\n\r\n{}", line(3)).into_bytes();
    let mut samples = agent(vec![first, second]).samples(None).unwrap();
    let mut times = Vec::new();
    wait_for(|| samples.lost());
    wait_for(|| {
        times.extend(samples.collect().into_iter().map(|line| line.at));
        (times.len() == 2).then_some(())
    });
    assert_eq!(times, [Nanos(1), Nanos(3)]);
}

/// Writing out may take two minutes there, and Ctrl-C waited for them; another request took ten seconds.
#[test]
fn a_cancelled_run_does_not_wait_for_the_answer_of_an_agent() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let cancel = Cancel::default();
    let address = AgentAddress {
        dial: Arc::new(PlainDial(listener.local_addr().unwrap())),
        token: secret(),
        cancel: cancel.clone(),
    };
    let silent = engine::thread("silent agent", move || {
        let clients: Vec<_> = (0..2).map(|_| listener.accept().unwrap()).collect();
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
        clients
    });
    let other = address.clone();
    let looks = engine::thread("counters", move || {
        other.look(None, Side::After, &|| Nanos(0)).map(|_| ())
    });
    let began = engine::clock::now();
    let dropped = address.drop_caches(None).expect_err("no answer");
    let looked = looks.unwrap().join().unwrap().expect_err("no answer");
    let took = engine::clock::now().duration_since(began);
    assert!(took < Duration::from_secs(2), "{took:?}");
    for error in [dropped, looked] {
        assert!(error.to_string().contains("cancelled"), "{error}");
    }
    drop(silent.unwrap().join().unwrap());
}

/// One that hangs must not hold up the end of a run.
#[test]
fn dropping_the_samples_does_not_wait_for_the_agent() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = AgentAddress {
        dial: Arc::new(PlainDial(listener.local_addr().unwrap())),
        token: secret(),
        cancel: Cancel::default(),
    };
    let silent = engine::thread("silent agent", move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
        client
    })
    .unwrap();
    let samples = address.samples(None).unwrap();
    let _client = silent.join().unwrap();
    let began = engine::clock::now();
    drop(samples);
    let took = engine::clock::now().duration_since(began);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn tokens_are_long_enough_fit_a_head_and_are_not_printed() {
    assert!(Token::new("0123456789abcdef").is_some());
    for text in [
        "",
        "short",
        "0123456789abcde\r\nX: y",
        "0123456789 abcdefgh",
    ] {
        assert!(Token::new(text).is_none(), "{text:?}");
    }
    assert!(Token::new(&"x".repeat(Token::LEN_MAX + 1)).is_none());
    assert!(!format!("{:?}", secret()).contains("0123"));
}

fn may(drop_caches: bool, fio: bool) -> Rights {
    Rights {
        drop_caches,
        fio,
        ..Rights::default()
    }
}

#[test]
fn this_machine_shows_itself() {
    let host = AgentService::new("s".into(), may(false, true));
    let about = host.about();
    assert_eq!(about.protocol, protocol::VERSION);
    assert!(about.machine.cores > 0 && !about.boot.is_empty());
    assert!(!about.drops_caches && about.runs_fio);
    let text = serde_json::to_string(&about).unwrap();
    assert_eq!(serde_json::from_str::<About>(&text).unwrap(), about);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let counters = host.counters(host.server_at(port));
    assert!(counters.server.is_some() && counters.agent.is_some());
    assert!(counters.tick.0 > 0 && !counters.cores.is_empty());
    assert_eq!(host.counters(None).server, None);
    // How long tasks waited for a core is read on the agent's machine, of the server's cgroup or of all.
    if std::path::Path::new("/proc/pressure/cpu").exists() {
        let pressure = counters.processor.unwrap().pressure.unwrap();
        assert!(pressure.file.ends_with("cpu.pressure") || pressure.file == "/proc/pressure/cpu");
    }
    let mut sampler = AgentService::sampler(None);
    assert_eq!(
        host.line(&mut sampler),
        None,
        "the first reading has no difference"
    );
}

#[test]
fn what_a_server_has_in_memory_is_seen_and_gone_after_a_drop() {
    if AgentService::can_drop_caches().is_err() {
        eprintln!("skipped: dropping caches needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let mut disk = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
    disk.read_to_end(&mut Vec::new()).unwrap();
    let host = AgentService::new("s".into(), may(true, false));
    let dropped = host
        .drop_caches(Some(std::process::id()), &mut |_| true)
        .unwrap();
    let Some(found) = dropped.residency else {
        eprintln!("skipped: this filesystem does not show its page cache");
        return;
    };
    assert!(found.sampled > 0 && found.part() < 0.1, "{found:?}");
    let again = host.drop_caches(None, &mut |_| true).unwrap();
    assert_eq!(again.residency, None);
    // One that was abandoned for a disk that does not answer keeps no later one out.
    let abandoned = host.drop_caches(None, &mut |_| false);
    assert_eq!(abandoned.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert!(host.drop_caches(None, &mut |_| true).is_ok());
    drop(disk);
}

#[test]
fn fio_takes_jobs_of_another_fio_and_ends_as_a_whole() {
    let server = match FioServer::start(Ipv4Addr::LOCALHOST.into(), &[]) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let port = server.ready().port;
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(
        &job,
        "[x]\nioengine=null\nsize=1g\ntime_based\nruntime=60\n",
    )
    .unwrap();
    let mut client = Command::new("fio")
        .arg(format!("--client=ip:127.0.0.1,{port}"))
        .arg(&job)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The job runs in a process below the server.
    let pid = sockets::owner_of_tcp(port).unwrap();
    // Helper, connection, job.
    wait_for(|| (crate::sensors::read::below(pid).len() > 2).then_some(()));
    let below = crate::sensors::read::below(pid);
    drop(server);
    assert!(!sockets::listens(port));
    wait_for(|| {
        let is_gone = |pid: &u32| crate::sensors::read::one_process(*pid).is_none();
        below.iter().all(is_gone).then_some(())
    });
    wait_for(|| client.try_wait().unwrap());
}

#[test]
fn a_job_that_was_sent_to_another_fio_has_a_result() {
    let Ok(server) = FioServer::start(Ipv4Addr::LOCALHOST.into(), &[]) else {
        eprintln!("skipped: there is no fio");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    std::fs::write(&job, "[x]\nioengine=null\nsize=1m\nbs=4k\nrw=read\n").unwrap();
    let output = Command::new("fio")
        .arg(format!("--client=ip:127.0.0.1,{}", server.ready().port))
        .args(["--output-format=json+".as_ref(), job.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let result = crate::fio::parse(&text).unwrap();
    assert_eq!(result.bytes, crate::units::Bytes(1 << 20));
    assert_eq!(result.ios, 256);
}

/// Both ways, one after the other, as the doctor has it.
#[test]
fn iperf3_takes_tests_one_after_the_other_and_ends_when_dropped() {
    use crate::tools::{self, Tool, iperf3};
    let Ok(installed) = tools::find(iperf3::PROGRAM) else {
        eprintln!("skipped: there is no iperf3");
        return;
    };
    let server = Iperf3Server::start(Ipv4Addr::LOCALHOST.into()).unwrap();
    let port = server.ready().port;
    let folder = tempfile::tempdir().unwrap();
    let place = tools::ToolDirs {
        directory: folder.path(),
        beside: &[],
        work: folder.path(),
        seed: 0,
    };
    for reverse in [true, false] {
        let test = Tool::Iperf3(iperf3::Iperf3Options {
            host: Some(Ipv4Addr::LOCALHOST.to_string()),
            port: Some(port),
            streams: 2,
            reverse,
            runtime_ms: 1000,
        });
        let ran = tools::run(&test, &installed, &place, &mut |_| true).unwrap();
        let headline = ran.result.headline().expect("a figure").value;
        assert!(headline > 1e6, "{headline} bytes/s over loopback");
        assert!(server.is_running());
    }
    drop(server);
    assert!(!sockets::listens(port));
}

proptest! {
    #[test]
    fn no_head_makes_it_panic_and_cuts_change_nothing(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0usize..60,
    ) {
        std::hint::black_box(parse_head(&bytes).is_ok());
        let whole = b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  12 \r\nX: y\r\n\r\nrest";
        let end = whole.len() - 4;
        let head = Head { status: 200, length: Some(12) };
        let expected = if cut < end { None } else { Some((head, end)) };
        prop_assert_eq!(parse_head(&whole[..cut.min(whole.len())]), Ok(expected));
    }
}
