//! SMB by the kernel's server and client (ksmbd and cifs): a share of ours on a port of loopback.
//!
//! Invariants: nobody else's configuration, users or port are touched; the share has one user with a
//! password that is drawn for it and stands in no command that is kept; the files go with the folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use lab::tools::Invocation;
use ring::rand::SecureRandom as _;

use super::carry_out::Work;
use super::process::{free_port, program};
use super::step::line;

/// The share, and the only user, who is root: what is measured is below a directory of root's.
const SHARE: &str = "exported";
const USER: &str = "root";
/// Of SMB.
const VERSION: &str = "vers=3.1.1";

/// The commands as they can be pasted into a shell, as far as they are known.
pub(super) fn shown(folder: &Path, directory: &Path, options: Option<&str>) -> Vec<String> {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (config, users) = (file("ksmbd.conf"), file("users"));
    let options = mount_options(&file("credentials"), "PORT", options);
    let at = directory.to_string_lossy();
    let place = place();
    vec![
        line(&[
            "ksmbd.adduser",
            "-a",
            USER,
            "-p",
            "PASSWORD",
            "-c",
            &config,
            "-i",
            &users,
        ]),
        line(&["ksmbd.mountd", "-n", "-c", &config, "-u", &users]),
        line(&["mount", "-t", "cifs", "-o", &options, &place, &at]),
    ]
}

fn place() -> String {
    format!("//127.0.0.1/{SHARE}")
}

fn mount_options(credentials: &str, port: &str, more: Option<&str>) -> String {
    let own = format!("credentials={credentials},port={port},{VERSION}");
    match more {
        Some(more) => format!("{own},{more}"),
        None => own,
    }
}

/// What the server reads.
fn config(port: u16, exported: &Path) -> String {
    format!(
        "[global]\nbind interfaces only = yes\ninterfaces = lo\ntcp port = {port}\nmap to guest = never\n\
         [{SHARE}]\npath = {}\nread only = no\nvalid users = {USER}\n",
        exported.display()
    )
}

impl Work<'_> {
    /// A share of `exported` with a server of its own, mounted.
    pub(super) fn smb(
        &mut self,
        exported: &Path,
        folder: &Path,
        directory: &Path,
        options: Option<&str>,
    ) -> Result<(), String> {
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (conf, users, credentials) = (file("ksmbd.conf"), file("users"), file("credentials"));
        let password = password()?;
        let port = free_port()?;
        secret(&conf, &config(port, exported))?;
        secret(
            &credentials,
            &format!("username={USER}\npassword={password}\n"),
        )?;
        secret(&users, "")?;
        let shown = shown(folder, directory, options);
        self.commands.extend(shown.into_iter().take(2));
        self.run_noted(&["modprobe", "ksmbd"])?;
        let add = ["-a", USER, "-p", &password, "-c", &conf, "-i", &users];
        self.run(Path::new("ksmbd.adduser"), &add)?;
        self.start_smb(&conf, &users, folder, port)?;
        let options = mount_options(&credentials, &port.to_string(), options);
        self.mount(
            &["mount", "-t", "cifs", "-o", &options, &place()],
            directory,
        )
    }

    fn start_smb(
        &mut self,
        conf: &str,
        users: &str,
        folder: &Path,
        port: u16,
    ) -> Result<(), String> {
        let args = ["-n", "-c", conf, "-u", users];
        let daemon = Invocation::new(&program("ksmbd.mountd")?, args);
        let server = self.start("ksmbd.mountd", &daemon, &folder.join("ksmbd.log"))?;
        let ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let otherwise = "the kernel's SMB server does not listen";
        self.wait_until(&server, otherwise, ready)?;
        // The part of the server that is in the kernel outlives its helper.
        self.undo(&["ksmbd.control", "--shutdown"]);
        self.servers.push(server.pid);
        Ok(())
    }
}

fn password() -> Result<String, String> {
    let mut bytes = [0_u8; 16];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "this machine gives no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file that only root reads.
fn secret(path: &str, text: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_listens_on_loopback_and_lets_one_user_in() {
        let text = config(4450, Path::new("/a"));
        for part in [
            "bind interfaces only = yes\ninterfaces = lo\n",
            "tcp port = 4450\n",
            "map to guest = never\n",
            "[exported]\npath = /a\n",
            "valid users = root\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn no_password_stands_in_a_command_that_is_shown() {
        let lines = shown(Path::new("/f"), Path::new("/m"), Some("cache=none"));
        assert!(lines[0].contains("-p PASSWORD"), "{lines:?}");
        assert_eq!(
            lines[2],
            "mount -t cifs -o credentials=/f/credentials,port=PORT,vers=3.1.1,cache=none \
             //127.0.0.1/exported /m"
        );
        let (a, b) = (password().expect("random"), password().expect("random"));
        assert!(a.len() == 32 && a != b);
    }
}
