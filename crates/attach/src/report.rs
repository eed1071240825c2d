//! Reports what a teardown lost when no `detach` waits for its answer: to the system log, or else to the
//! kernel's. The attachment's own log is removed with it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;

use crate::daemon::message::Leftovers;

/// Where syslogd or the journal reads (syslog(3)).
const SYSTEM_LOG: &str = "/dev/log";
const KERNEL_LOG: &str = "/dev/kmsg";
/// Facility daemon, level error.
const DAEMON_ERROR: u8 = (3 << 3) | 3;

/// Reports each loss and each thing left behind of the attachment that users know as `name`.
pub(crate) fn leftovers(name: &str, leftovers: &Leftovers) {
    for lost in &leftovers.lost {
        line(&format!("{name} is detached, but {lost}"));
    }
    for left in &leftovers.left {
        line(&format!("{name}: left behind: {left}"));
    }
}

fn line(text: &str) {
    tracing::error!("{text}");
    let message = message(text, std::process::id());
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(message.as_bytes(), SYSTEM_LOG)
    });
    if sent.is_err() {
        let kernel = OpenOptions::new().write(true).open(KERNEL_LOG);
        // There is nothing else to report to.
        drop(kernel.and_then(|mut kernel| kernel.write_all(message.as_bytes())));
    }
}

/// One line: a name may have line ends in it.
fn message(text: &str, process: u32) -> String {
    let text = text.replace(char::is_control, " ");
    format!("<{DAEMON_ERROR}>outboard[{process}]: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_a_daemons_error() {
        assert_eq!(
            message("/dev/loop0: a\nb", 7),
            "<27>outboard[7]: /dev/loop0: a b"
        );
    }
}
