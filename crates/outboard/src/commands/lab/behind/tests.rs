//! Tests of how the kernel's socket tables are read, and of finding a socket's owner.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use super::{owner_of, tcp_inodes, tcp_listeners, unix_inodes, unix_listeners};

const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2A39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
   1: 0100007F:2A39 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0
";

#[test]
fn only_listening_sockets_of_the_port_count() {
    assert_eq!(tcp_inodes(TCP, 10809), [4711]);
    assert_eq!(tcp_inodes(TCP, 22), [4713]);
    assert_eq!(tcp_inodes(TCP, 23), [0_u64; 0]);
    assert_eq!(tcp_inodes("", 22), [0_u64; 0]);
}

#[test]
fn a_unix_socket_is_known_by_its_whole_path() {
    let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                 0000000000000000: 00000002 00000000 00010000 0001 01 4711 /run/a b\n\
                 0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/a\n\
                 0000000000000000: 00000003 00000000 00000000 0001 03 4713\n";
    assert_eq!(unix_inodes(table, "/run/a b"), [4711]);
    assert_eq!(unix_inodes(table, "/run/a"), [4712]);
}

#[test]
fn this_process_is_found_behind_its_own_sockets() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("bound").port();
    assert_eq!(owner_of(&tcp_listeners(port)), Some(std::process::id()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s");
    let unix = UnixListener::bind(&path).expect("a socket");
    assert_eq!(owner_of(&unix_listeners(&path)), Some(std::process::id()));
    drop((tcp, unix));
}
