//! SMB by Samba's server and the kernel's client (cifs): a share of ours on a port of loopback.
//!
//! Invariants: no other configuration, users or port are touched; the share has one user with a
//! password that is drawn for it and is in no command, only in files with mode 0600. All that
//! the server keeps is in a folder of its own among the temporary files: its sockets need a short path, and
//! nothing of it is written to the disk that is measured.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lab::tools::Invocation;

use super::carry_out::TargetBuild;
use super::process::{DEAF, ServerProcess, free_port, program};
use super::step::{NetworkShare, line, program_line};
use super::teardown::Resource;
use crate::agent::random_hex;

/// The share, and the only user, root: what is measured is below a directory of root's.
const SHARE: &str = "exported";
const USER: &str = "root";
/// Of SMB.
const VERSION: &str = "vers=3.1.1";
/// What the server prints, among its files.
const LOG: &str = "smbd.log";

/// Where the server of the target in `folder` keeps its files.
fn state(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("outboard-lab-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

/// The commands as they can be pasted into a shell, as far as they are known.
pub(super) fn shown(share: &NetworkShare) -> Vec<String> {
    let state = state(&share.folder);
    let config = inside(&state, "smb.conf");
    let mount = mount_words(&inside(&state, "credentials"), "PORT", share);
    let at = share.directory.to_string_lossy();
    vec![
        program_line("pdbedit", &user_args(&config)),
        program_line("smbd", &server_args(&config)),
        line(&[&mount[..], &[at.into_owned()]].concat()),
    ]
}

fn inside(state: &Path, name: &str) -> String {
    state.join(name).to_string_lossy().into_owned()
}

/// pdbedit reads the password from its standard input.
fn user_args(config: &str) -> [&str; 6] {
    let asks = "--password-from-stdin";
    ["--configfile", config, "--create", "--user", USER, asks]
}

/// It has a process group already, and would fail to make another.
fn server_args(config: &str) -> [&str; 4] {
    ["--foreground", "--no-process-group", "--configfile", config]
}

/// The mount without its directory.
fn mount_words(credentials: &str, port: &str, share: &NetworkShare) -> Vec<String> {
    let mut options = format!("credentials={credentials},port={port},{VERSION}");
    if let Some(more) = &share.options {
        options = format!("{options},{more}");
    }
    let share = format!("//127.0.0.1/{SHARE}");
    let words = ["mount", "-t", "cifs", "-o", &options, &share];
    words.map(str::to_owned).into()
}

/// What the server reads.
fn config(port: u16, state: &Path, exported: &Path) -> String {
    let (log, state) = (state.join(LOG), state.display());
    format!(
        "[global]\nserver role = standalone server\n\
         interfaces = 127.0.0.1/8\nbind interfaces only = yes\nsmb ports = {port}\n\
         map to guest = never\npassdb backend = tdbsam\ndos charset = ASCII\n\
         disable netbios = yes\ndisable spoolss = yes\nload printers = no\nprinting = bsd\n\
         printcap name = /dev/null\n\
         private dir = {state}\nlock directory = {state}\nstate directory = {state}\n\
         cache directory = {state}\npid directory = {state}\nncalrpc dir = {state}/ncalrpc\n\
         log file = {}\n\
         [{SHARE}]\npath = {}\nread only = no\nvalid users = {USER}\n",
        log.display(),
        exported.display()
    )
}

impl TargetBuild<'_> {
    /// A share with a server of its own, mounted.
    pub(super) fn smb(&mut self, share: &NetworkShare) -> Result<(), String> {
        let state = state(&share.folder);
        let made = DirBuilder::new().mode(0o700).create(&state);
        made.map_err(|error| format!("cannot make {}: {error}", state.display()))?;
        self.standing.add(Resource::Folder(state.clone()));
        let port = free_port()?;
        let password = password()?;
        let (conf, credentials) = (inside(&state, "smb.conf"), inside(&state, "credentials"));
        secret(&conf, &config(port, &state, &share.exported))?;
        let said = format!("username={USER}\npassword={password}\n");
        secret(&credentials, &said)?;
        self.note_words("pdbedit", &user_args(&conf));
        // pdbedit reads the password twice.
        let input = inside(&state, "input");
        secret(&input, &format!("{password}\n{password}\n"))?;
        let file = OpenOptions::new().read(true).open(&input);
        let input = file.map_err(|error| format!("cannot read {input}: {error}"))?;
        self.run_with(&program("pdbedit")?, &user_args(&conf), input.into())?;
        let args = server_args(&conf);
        self.note_words("smbd", &args);
        let smbd = Invocation::new(&program("smbd")?, args);
        let ready = |_: &ServerProcess| TcpStream::connect(("127.0.0.1", port)).is_ok();
        let server = self.start("smbd", &smbd, &state.join(LOG), DEAF, ready)?;
        self.servers.push(server.pid);
        let mount = mount_words(&credentials, &port.to_string(), share);
        self.mount(&mount, &share.directory)
    }
}

fn password() -> Result<String, String> {
    random_hex::<16>().map_err(|error| error.to_string())
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
    fn the_server_listens_on_loopback_lets_one_user_in_and_keeps_all_in_its_folder() {
        let text = config(4450, Path::new("/tmp/s"), Path::new("/a"));
        for part in [
            "interfaces = 127.0.0.1/8\nbind interfaces only = yes\nsmb ports = 4450\n",
            "map to guest = never\n",
            "[exported]\npath = /a\n",
            "valid users = root\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let folders = text.lines().filter(|line| line.contains(" dir"));
        for line in folders {
            assert!(line.contains("= /tmp/s"), "{line}");
        }
    }

    #[test]
    fn no_password_stands_in_a_command() {
        let lines = shown(&NetworkShare {
            client: lab::plan::MountType::Cifs,
            exported: "/f/disk/exported".into(),
            folder: "/f/disk".into(),
            directory: "/m".into(),
            options: Some("cache=none".into()),
        });
        let state = state(Path::new("/f/disk"));
        let state = state.display();
        assert_eq!(
            lines,
            [
                format!(
                    "pdbedit --configfile {state}/smb.conf --create --user root --password-from-stdin"
                ),
                format!("smbd --foreground --no-process-group --configfile {state}/smb.conf"),
                format!(
                    "mount -t cifs -o credentials={state}/credentials,port=PORT,vers=3.1.1,cache=none \
                     //127.0.0.1/exported /m"
                ),
            ]
        );
        let (a, b) = (password().expect("random"), password().expect("random"));
        assert!(a.len() == 32 && a != b);
    }

    #[test]
    fn two_servers_at_once_have_folders_of_their_own() {
        let (a, b) = (state(Path::new("/f/a")), state(Path::new("/f/b")));
        assert_ne!(a, b);
    }
}
