//! SSHFS with a server of our own: sshd on a port of loopback, with keys made for it.
//!
//! Invariants: nobody else's keys, configuration or port are touched; the keys go with the folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::carry_out::{POLL, START, Work, is_running};
use super::facts::Facts;
use super::standing::Part;

/// Where sshd wants a folder before it starts as root.
const SSHD_FOLDER: &str = "/run/sshd";

impl Work<'_> {
    /// A server with keys of its own, for one user and one port of loopback.
    pub(super) fn sshfs(
        &mut self,
        exported: &Path,
        folder: &Path,
        directory: &Path,
        options: Option<&str>,
    ) -> Result<(), String> {
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (host_key, key) = (file("host-key"), file("key"));
        for key in [&host_key, &key] {
            self.run_noted(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])?;
        }
        let port = free_port().map_err(|error| format!("cannot find a free port: {error}"))?;
        let config = file("sshd_config");
        std::fs::write(&config, sshd_config(port, folder))
            .map_err(|error| format!("cannot write {config}: {error}"))?;
        if std::fs::create_dir(SSHD_FOLDER).is_ok() {
            self.standing.add(Part::Borrowed(SSHD_FOLDER.into()));
        }
        let program = Facts::of_this_machine().program("sshd");
        let program = program.ok_or("there is no sshd")?;
        let args = ["-D", "-e", "-f", &config].map(str::to_owned);
        self.note_words("sshd", &args);
        let said = folder.join("sshd.log");
        let child = self.start(&program, &args, &said)?;
        let pid = child.id();
        self.standing.add(Part::Process {
            name: "sshd".into(),
            child,
        });
        // sshd writes this only once it listens: with -e, that is its first line.
        self.wait_for_line(pid, "listening on", &said)?;
        let port = port.to_string();
        let own = "StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR";
        let mut joined = format!("IdentityFile={key},IdentitiesOnly=yes,{own}");
        if let Some(more) = options {
            joined = format!("{joined},{more}");
        }
        let from = format!("localhost:{}", exported.display());
        let at = directory.to_string_lossy().into_owned();
        let program = Facts::of_this_machine().program("sshfs");
        let program = program.ok_or("there is no sshfs")?;
        // In the foreground: its ssh stays in its process group, and would be ended with a command that
        // goes to the background. What was measured then was the directory under the mount.
        let args = ["-f", "-p", &port, "-o", &joined, &from, &at].map(str::to_owned);
        self.note_words("sshfs", &args);
        let child = self.start(&program, &args, &folder.join("sshfs.log"))?;
        let client = child.id();
        self.standing.add(Part::Process {
            name: "sshfs".into(),
            child,
        });
        self.wait_for_mount(client, folder, directory)?;
        self.standing.add(Part::Mount(directory.to_owned()));
        self.servers.push(pid);
        Ok(())
    }

    /// Until another filesystem than the folder's is at `directory`.
    fn wait_for_mount(&self, pid: u32, folder: &Path, directory: &Path) -> Result<(), String> {
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        let started = engine::clock::now();
        while device(directory).is_none_or(|found| Some(found) == device(folder)) {
            let waited = engine::clock::now().duration_since(started);
            if self.cancel.is_cancelled() || !is_running(pid) || waited > START {
                return Err("sshfs did not mount".to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn wait_for_line(&self, pid: u32, part: &str, said: &Path) -> Result<(), String> {
        let started = engine::clock::now();
        loop {
            let text = std::fs::read_to_string(said).unwrap_or_default();
            if text.contains(part) {
                return Ok(());
            }
            let waited = engine::clock::now().duration_since(started);
            if self.cancel.is_cancelled() || !is_running(pid) || waited > START {
                let why = text.lines().rfind(|line| !line.trim().is_empty());
                return Err(why
                    .unwrap_or("its server does not listen")
                    .trim()
                    .to_owned());
            }
            std::thread::sleep(POLL);
        }
    }
}

/// A port of loopback that nobody listens on.
pub(super) fn free_port() -> std::io::Result<u16> {
    lab::host::listeners::free_port(std::net::Ipv4Addr::LOCALHOST.into())
}

fn sshd_config(port: u16, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{folder}/host-key\"\n\
         AuthorizedKeysFile \"{folder}/key.pub\"\nStrictModes no\nPidFile none\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
         AllowTcpForwarding no\nSubsystem sftp internal-sftp\n"
    )
}
