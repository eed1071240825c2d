//! Every kind of disk leads the rules to what is below it; real devices are refused through each.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab_drivers::build::Names;
use testkit::{LoopDevice, requires};

use super::*;

/// A folder of ours with a table in it, and one of another user.
struct Folders {
    ours: tempfile::TempDir,
    theirs: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        Self { ours, theirs }
    }

    /// A file of ours, or of a user.
    fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn check(&self, expression: &str, serials: &[String]) -> Result<(), String> {
        let foreign = OwnWriteRules {
            ours: vec![self.ours.path().to_owned()],
            exports: Vec::new(),
            serials,
            content: |_| Ok(None),
        };
        foreign.check(expression)
    }

    /// One expression of every kind over `disk`, each of which would write to it. `ours` is a file of
    /// ours with data in it.
    fn over(&self, disk: &str) -> Vec<String> {
        let ours = Self::file(&self.ours, "a.img", "data");
        let table = |name: &str, text: String| {
            let path = Self::file(&self.ours, name, &text);
            format!("dm({path})")
        };
        let dm = table(
            "linear",
            format!("0 8 linear {ours} 0\n8 8 linear {disk} 0\n"),
        );
        vec![
            disk.to_owned(),
            format!("file({disk})"),
            format!("file({disk}, direct=true)"),
            format!("blocks({disk}, size=512)"),
            format!("partition({disk}, 1)"),
            format!("linear({ours}, {disk})"),
            format!("stripe({disk}, {ours}, chunk=4K)"),
            format!("array({ours}, {disk}, missing)"),
            format!("overlay({ours}, {disk})"),
            format!("delay({disk}, read=1ms)"),
            format!("throttle({disk}, ops=5)"),
            format!("fault({disk}, does=fail)"),
            dm.clone(),
            table("striped", format!("0 16 striped 2 8 {ours} 0 {disk} 0\n")),
            table("snapshot", format!("0 8 snapshot {ours} {disk} P 8\n")),
            table("wrapped", format!("0 8 linear delay({disk},read=1ms) 0\n")),
            table("of-tables", format!("0 8 linear {dm} 0\n")),
            format!("linear(memory(1M), delay(partition({dm}, 2), write=1ms))"),
        ]
    }
}

#[test]
fn a_file_of_a_user_is_refused_through_every_kind_of_disk_and_one_of_ours_through_none() {
    let folders = Folders::new();
    let precious = Folders::file(&folders.theirs, "precious", "data");
    let plain = folders.check(&precious, &[]).expect_err("a file with data");
    assert!(plain.contains("precious is not written"), "{plain}");
    for expression in folders.over(&precious) {
        assert_eq!(
            folders.check(&expression, &[]),
            Err(plain.clone()),
            "{expression}"
        );
    }
    let image = Folders::file(&folders.ours, "b.img", "data");
    for expression in folders.over(&image) {
        assert_eq!(folders.check(&expression, &[]), Ok(()), "{expression}");
    }
}

#[test]
fn what_is_never_written_may_be_a_user_s() {
    let folders = Folders::new();
    let precious = Folders::file(&folders.theirs, "precious", "data");
    let ours = Folders::file(&folders.ours, "a.img", "data");
    let tables = [
        ("origin", format!("0 8 snapshot-origin {precious}\n")),
        ("snapshot", format!("0 8 snapshot {precious} {ours} P 8\n")),
    ];
    let tables = tables.map(|(name, text)| {
        let path = Folders::file(&folders.theirs, name, &text);
        format!("dm({path})")
    });
    let read = [
        format!("overlay({precious}, {ours})"),
        format!("file({precious}, read-only=true)"),
        "linear(memory(1M), null(1M), zero(1M), error(1M))".to_owned(),
        "remote(nbd://nas.lan/photos, read-only=true)".to_owned(),
    ];
    for expression in read.iter().chain(&tables) {
        assert_eq!(folders.check(expression, &[]), Ok(()), "{expression}");
    }
}

#[test]
fn a_table_that_cannot_be_read_is_refused_and_so_is_a_device_that_is_not_there() {
    let folders = Folders::new();
    let table = |text: &str| Folders::file(&folders.ours, "table", text);
    for (text, part) in [
        ("0 8 linear 253:77777 0\n", "line 1"),
        ("nonsense\n", "line 1"),
        ("0 8 linear dm(/nowhere/table) 0\n", "/nowhere/table"),
    ] {
        let path = table(text);
        let refused = folders.check(&format!("dm({path})"), &[]);
        let refused = refused.expect_err(text);
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn an_export_of_a_user_is_written_only_when_its_uri_was_typed_and_one_of_ours_always() {
    let folders = Folders::new();
    let refused = folders.check("delay(nbd://nas.lan/photos, read=1ms)", &[]);
    let refused = refused.expect_err("it was not typed");
    assert!(
        refused.ends_with("add --write-serial 'nbd://nas.lan/photos'"),
        "{refused}"
    );
    // The port that goes without saying is the same one.
    let typed = ["nbd://nas.lan:10809/photos".to_owned()];
    assert_eq!(folders.check("nbd://nas.lan/photos", &typed), Ok(()));
    let mut foreign = OwnWriteRules {
        ours: Vec::new(),
        exports: Vec::new(),
        serials: &[],
        content: |_| Ok(None),
    };
    assert!(foreign.check("nbd://127.0.0.1:4321/disk").is_err());
    foreign.add_export("nbd://127.0.0.1:4321/disk".parse().expect("a URI"));
    assert_eq!(foreign.check("nbd://127.0.0.1:4321/disk"), Ok(()));
    assert!(foreign.check("nbd://127.0.0.1:4321/other").is_err());
}

#[test]
fn an_export_that_holds_something_is_refused_through_a_node_also_when_its_uri_was_typed() {
    let typed = ["nbd://nas.lan/photos".to_owned()];
    let foreign = OwnWriteRules {
        ours: Vec::new(),
        exports: Vec::new(),
        serials: &typed,
        content: |_| Ok(Some("ext4".into())),
    };
    assert_eq!(
        foreign.check("delay(nbd://nas.lan/photos, read=1ms)"),
        Err("nbd://nas.lan/photos is not written: the export holds ext4".into())
    );
}

#[test]
fn an_array_is_made_of_nothing_of_a_user() {
    let folders = Folders::new();
    let precious = Folders::file(&folders.theirs, "precious", "data");
    let ours = Folders::file(&folders.ours, "a.img", "data");
    let foreign = OwnWriteRules {
        ours: vec![folders.ours.path().to_owned()],
        exports: Vec::new(),
        serials: &[],
        content: |_| Ok(None),
    };
    let check = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        foreign.check_command(&words)
    };
    let create = "array create --level 1";
    assert_eq!(check(&format!("{create} missing {ours}")), Ok(()));
    for line in [
        format!("{create} {ours} {precious}"),
        format!("{create} --force {ours} delay({precious},read=1ms)"),
        format!("{create} {ours} --spare {precious} missing"),
    ] {
        let refused = check(&line).expect_err(&line);
        assert!(refused.contains("precious is not written"), "{refused}");
    }
    let refused = check("array remove x").expect_err("not known");
    assert!(!refused.contains('\n'), "{refused}");
}

/// A device that holds something is refused through every kind of disk in the very words in which it is
/// refused itself; typing its serial does not help.
#[test]
fn a_real_device_is_refused_through_every_kind_of_disk_as_it_is_itself() {
    let needs = ["blkid", "mkfs.ext4"].map(requires::command);
    let needs = [&[requires::root(), requires::loop_device()], &needs[..]].concat();
    if !requires::all(&needs) {
        return;
    }
    let folders = Folders::new();
    let file = Folders::file(&folders.theirs, "disk.img", "");
    let open = fs::OpenOptions::new().write(true).open(&file);
    open.and_then(|open| open.set_len(16 << 20))
        .expect("a size");
    let device = LoopDevice::over(Path::new(&file)).expect("a loop device");
    let path = device.path().display().to_string();
    let number = fs::read_to_string(format!(
        "/sys/class/block/{}/dev",
        path.trim_start_matches("/dev/")
    ));
    let number = number.expect("its number").trim().to_owned();
    let serial = [file];
    let by_number = Folders::file(&folders.ours, "number", &format!("0 8 linear {number} 0\n"));
    let all = || {
        let mut all = folders.over(&path);
        all.push(format!("dm({by_number})"));
        all
    };
    // Empty, and its serial not typed.
    for expression in all() {
        let refused = settled(|| folders.check(&expression, &[]));
        let refused = refused.expect_err(&expression);
        assert!(refused.contains("add --write-serial"), "{refused}");
        assert_eq!(settled(|| folders.check(&expression, &serial)), Ok(()));
    }
    let made = Command::new("mkfs.ext4").args(["-q", "-F", &path]).output();
    assert!(made.is_ok_and(|made| made.status.success()));
    for expression in all() {
        let refused = settled(|| folders.check(&expression, &serial));
        let refused = refused.expect_err(&expression);
        assert!(refused.contains("holds ext4"), "{expression}: {refused}");
    }
}

/// Retries while another program, which looks at new devices, has the device open.
fn settled(check: impl Fn() -> Result<(), String>) -> Result<(), String> {
    for _ in 0..40 {
        match check() {
            Err(refused) if refused.contains("is open in") || refused.contains("is claimed by") => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            found => return found,
        }
    }
    check()
}

#[test]
fn a_path_that_replaces_a_name_in_an_expression_is_read_as_the_same_path() {
    let path = Path::new("/tmp/a, 'b' (c)");
    let mut names = Names::default();
    names.set_path("a", path);
    let text = names.expression("linear({a}, {a})");
    let read = graph::resolve(&text).expect("an expression").disk;
    let graph::Disk::Linear { disks, .. } = read else {
        panic!("{read:?}");
    };
    for disk in disks {
        assert!(
            matches!(&disk, graph::Disk::File { path: read, .. } if read == path),
            "{disk:?}"
        );
    }
}
