//! The process at the other end of a connection, and what processes have open, on this machine. Source:
//! proc(5).

/// Entries of `/proc` that are looked at.
const PROCESSES_MAX: usize = 100_000;

/// One row of `/proc/net/tcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SocketRow {
    local: String,
    remote: String,
    inode: u64,
}

/// The processes of this machine at the other end of TCP connections that `processes` have.
pub(super) fn at_the_other_end(processes: &[u32]) -> Vec<u32> {
    let rows = tcp_rows();
    let own: Vec<u64> = processes.iter().flat_map(|id| inodes_of(*id)).collect();
    let ours = rows.iter().filter(|row| own.contains(&row.inode));
    let theirs: Vec<u64> = ours
        .flat_map(|our| {
            let back = |row: &&SocketRow| (&row.local, &row.remote) == (&our.remote, &our.local);
            rows.iter().filter(back).map(|row| row.inode)
        })
        .filter(|inode| !own.contains(inode))
        .collect();
    owners(&theirs)
}

/// Processes with `wanted` in their command line, and its words.
pub(super) fn processes(wanted: impl Fn(&[String]) -> bool) -> Vec<u32> {
    let ids = all();
    ids.filter(|id| wanted(&words(*id))).collect()
}

fn words(process: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries
        .take(PROCESSES_MAX)
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn tcp_rows() -> Vec<SocketRow> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok());
    tables.flat_map(|table| rows_of(&table)).collect()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`.
fn rows_of(table: &str) -> Vec<SocketRow> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        Some(SocketRow {
            local: (*cells.get(1)?).to_owned(),
            remote: (*cells.get(2)?).to_owned(),
            inode: cells.get(9)?.parse().ok()?,
        })
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The processes that have one of these sockets open, of those that may be looked at.
fn owners(inodes: &[u64]) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let has = |id: &u32| inodes_of(*id).iter().any(|inode| inodes.contains(inode));
    all().filter(has).collect()
}

fn inodes_of(process: u32) -> Vec<u64> {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let inode = |link: std::path::PathBuf| {
        let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        number.parse().ok()
    };
    links.filter_map(inode).collect()
}

/// The files and devices that a process has open.
pub(super) fn files_of(process: u32) -> Vec<std::path::PathBuf> {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut files: Vec<_> = links.filter(|link| link.is_absolute()).collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0\n\
        1: 0100007F:A2C2 0100007F:2A39 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0 20 4 30 10 -1\n";

    #[test]
    fn rows_name_the_connected_process() {
        let rows = rows_of(TABLE);
        assert_eq!((rows[0].inode, rows[1].inode), (77, 78));
        assert_eq!(rows[1].remote, rows[0].local);
    }

    #[test]
    fn a_process_that_talks_to_itself_has_no_peer() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let _one = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let _other = listener.accept().expect("its other end");
        assert!(at_the_other_end(&[std::process::id()]).is_empty());
    }

    #[test]
    fn what_a_process_has_open_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let files = files_of(std::process::id());
        assert!(files.iter().any(|path| path == file.path()), "{files:?}");
    }
}
