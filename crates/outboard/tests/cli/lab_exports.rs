//! What `lab run` writes to an export: nothing while a filesystem, a member or a volume is on it, with any
//! `--write-serial`.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::requires;

use super::lab::plan;
use super::{Server, answer, failure, outboard, run};

const MIB: u64 = 1 << 20;

/// An image of 32 MiB with nothing in it.
fn empty(folder: &Path, name: &str) {
    let file = fs::File::create_new(folder.join(name)).expect("a file");
    file.set_len(32 * MIB).expect("there is space");
}

/// A plan that writes to the export `name` of the server in `folder`; the export's URI.
fn writing_to(folder: &Path, name: &str) -> String {
    let uri = format!("nbd+unix:///{name}?socket={}/s", folder.display());
    let text = plan().replace("direction = \"read\"", "direction = \"write\"");
    let target = format!(
        "\n[[target]]\nname = \"export\"\nkind = \"raw\"\nuri = \"{uri}\"\nwrites = true\n"
    );
    fs::write(folder.join("p.toml"), text + &target).expect("a plan");
    uri
}

/// A typed URI made the lab write over the filesystem of an export: only devices were looked at.
#[test]
fn an_export_with_something_on_it_is_never_written_and_an_empty_one_when_its_uri_was_typed() {
    let needs = ["fio", "mkfs.ext4", "blkid"].map(requires::command);
    if !requires::all(&needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("base")).expect("a folder");
    let names = ["empty", "filesystem", "member", "volume", "table"];
    for name in names {
        empty(folder, name);
    }
    let mut mkfs = Command::new("mkfs.ext4");
    let mkfs = mkfs.args(["-q", "-F", "filesystem"]).current_dir(folder);
    assert!(mkfs.status().expect("it runs").success());
    answer(
        folder,
        &["array", "create", "--level", "1", "member", "missing"],
    );
    answer(folder, &["volume", "create", "group", "--disks", "volume"]);
    let mut head = vec![0; 512];
    head[446 + 4] = 0x83;
    head[446 + 8] = 1;
    head[446 + 12] = 8;
    head[510..].copy_from_slice(&[0x55, 0xaa]);
    let mut table = vec![0; 32 << 20];
    table[..512].copy_from_slice(&head);
    fs::write(folder.join("table"), table).expect("a table");
    let disks = names.map(|name| format!("{name}={name}"));
    let mut words = vec!["serve", "--listen", "unix:s"];
    words.extend(disks.iter().map(String::as_str));
    let (_server, _) = Server::start(outboard(folder, &words));
    for (name, content) in [
        ("filesystem", "the export holds ext4"),
        ("member", "the export is a member (linux_raid_member)"),
        ("volume", "the export is a member (LVM2_member)"),
        ("table", "the export holds a partition table (dos)"),
    ] {
        let before = fs::read(folder.join(name)).expect("the disk");
        let uri = writing_to(folder, name);
        for typed in [&[][..], &["--write-serial", &uri]] {
            let words = [&["lab", "run", "p.toml", "base"], typed].concat();
            let (status, line) = failure(folder, &words);
            assert_eq!(status, Some(1), "{line}");
            let refusal = format!("{uri} is not written: {content}");
            assert!(!line.contains('\n') && line.contains(&refusal), "{line}");
        }
        assert!(
            fs::read(folder.join(name)).expect("the disk") == before,
            "{name}"
        );
    }
    let uri = writing_to(folder, "empty");
    let words = ["lab", "run", "p.toml", "base", "--small"];
    let (status, line) = failure(folder, &words);
    assert_eq!(status, Some(1), "{line}");
    assert!(line.contains("add --write-serial"), "{line}");
    let typed = [&words[..], &["--write-serial", &uri]].concat();
    let output = run(folder, &typed);
    let has_nbd = Command::new("fio").args(["--enghelp=nbd"]).output();
    if has_nbd.is_ok_and(|known| known.status.success()) {
        assert!(output.status.success(), "{output:?}");
        let written = fs::read(folder.join("empty")).expect("the disk");
        assert!(written.iter().any(|byte| *byte != 0));
    }
}
