//! SSHFS with a server of our own: sshd on a port of loopback, with keys made for it.
//!
//! Invariants: no other keys, configuration or port are touched; the keys are removed with the folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lab::tools::Invocation;

use super::carry_out::TargetBuild;
use super::process::{DEAF, ServerProcess, free_port, program};
use super::step::{NetworkShare, line};
use super::teardown::Resource;

/// Where sshd wants a folder before it starts as root.
const SSHD_FOLDER: &str = "/run/sshd";

/// What is mounted.
fn source(share: &NetworkShare) -> String {
    format!("localhost:{}", share.exported.display())
}

/// The command as it can be pasted into a shell, as far as it is known.
pub(super) fn shown(share: &NetworkShare) -> Vec<String> {
    let at = share.directory.to_string_lossy();
    vec![line(&["sshfs", &source(share), &at])]
}

impl TargetBuild<'_> {
    /// A server with keys of its own, for one user and one port of loopback.
    pub(super) fn sshfs(&mut self, share: &NetworkShare) -> Result<(), String> {
        let NetworkShare {
            folder, directory, ..
        } = share;
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (host_key, key) = (file("host-key"), file("key"));
        for key in [&host_key, &key] {
            self.run_noted(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])?;
        }
        let port = free_port()?;
        let config = file("sshd_config");
        std::fs::write(&config, sshd_config(port, folder))
            .map_err(|error| format!("cannot write {config}: {error}"))?;
        if std::fs::create_dir(SSHD_FOLDER).is_ok() {
            self.standing.add(Resource::Borrowed(SSHD_FOLDER.into()));
        }
        let args = ["-D", "-e", "-f", &config];
        self.note_words("sshd", &args);
        let sshd = Invocation::new(&program("sshd")?, args);
        // sshd writes this only once it listens: with -e, that is its first line.
        let ready = |sshd: &ServerProcess| sshd.output().contains("listening on");
        let server = self.start("sshd", &sshd, &folder.join("sshd.log"), DEAF, ready)?;
        let port = port.to_string();
        let own = "StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR";
        let mut joined = format!("IdentityFile={key},IdentitiesOnly=yes,{own}");
        if let Some(more) = &share.options {
            joined = format!("{joined},{more}");
        }
        let from = source(share);
        let at = directory.to_string_lossy();
        // In the foreground: its ssh stays in its process group, and would be ended with a command that
        // goes to the background. What was measured then was the directory under the mount.
        let args = ["-f", "-p", &port, "-o", &joined, &from, &at];
        self.note_words("sshfs", &args);
        let sshfs = Invocation::new(&program("sshfs")?, args);
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        // Mounted is what is another filesystem than the folder around it.
        let ready = |_: &ServerProcess| {
            device(directory).is_some_and(|found| Some(found) != device(folder))
        };
        let log = folder.join("sshfs.log");
        let client = self.start("sshfs", &sshfs, &log, "sshfs did not mount", ready)?;
        self.standing.add(Resource::Mount(directory.to_owned()));
        self.servers.push(server.pid);
        // Its ssh, which has the work of the cipher, is no child of it any more.
        self.clients.extend(client.group());
        Ok(())
    }
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
