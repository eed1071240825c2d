//! What is lacking is reported, and steps come in the order in which they can be taken. Nothing is built.

use std::path::Path;

use attach::{AttachError, AttachRequest, Attachment};
use lab::Cancel;
use lab::host::safety::ExportContent;
use lab::plan::Target;
use lab::runner::{BuildContext, DiskFacts, LeftOut};

use super::facts::MachineFacts;
use super::features::lacking;
use super::names::Names;
use super::step::{BuildStep, RecipeResult};
use super::{DiskAccess, TargetBuilder, TargetKind, WriteRules};

const RAID: &str = r#"
name = "raid"
kind = "disk"
disk = "array({a}, {b})"
images = [{ name = "a", size = "64M" }, { name = "b", size = "64M", served = "tcp" }]
setup = ["array create --level 1 {a} {b}"]
filesystem = "ext4"
"#;
const LOOP: &str = r#"
name = "loop"
kind = "disk"
disk = "{a}"
images = [{ name = "a", size = "64M" }]
filesystem = "ext4"
via = "loop"
"#;

/// A program that has no disk: recipes are made without it.
#[derive(Debug)]
struct NoDisks;

impl DiskAccess for NoDisks {
    fn write_rules<'a>(&self, _: &Target, _: &BuildContext<'a>) -> Box<dyn WriteRules + 'a> {
        unreachable!("nothing is built")
    }

    fn attach_request(&self, disk: &str) -> Result<AttachRequest, String> {
        unreachable!("{disk} is not attached")
    }

    fn attach(&self, request: &AttachRequest) -> Result<Attachment, AttachError> {
        unreachable!("{request:?} is not attached")
    }

    fn facts(&self, disk: &str) -> DiskFacts {
        unreachable!("{disk} is not built")
    }

    fn export_content(&self, uri: &str) -> ExportContent {
        unreachable!("{uri} is not read")
    }
}

fn target(text: &str) -> Target {
    toml::from_str(text).unwrap()
}

/// A machine that can do everything requested here.
fn able() -> MachineFacts {
    let mut facts = MachineFacts::of_this_machine();
    facts.root = true;
    facts.fuse = true;
    facts.loops = true;
    facts.filesystems.insert("ext4".into());
    facts
}

fn lacks(text: &str, facts: &MachineFacts) -> Option<String> {
    lacking(&target(text), facts).unwrap()
}

fn steps(text: &str) -> Result<(Vec<BuildStep>, RecipeResult), LeftOut> {
    let builder = TargetBuilder {
        facts: able(),
        disks: Box::new(NoDisks),
    };
    let cancel = Cancel::default();
    let context = BuildContext {
        base: Path::new("/base"),
        scratch: Path::new("/base/scratch"),
        built: &[],
        cancel: &cancel,
        write_serials: &[],
    };
    let recipe = builder.recipe(&target(text), &context)?;
    Ok((recipe.steps, recipe.place))
}

#[test]
fn a_machine_that_can_do_it_lacks_nothing() {
    assert_eq!(lacks(RAID, &able()), None);
    assert_eq!(lacks(LOOP, &able()), None);
}

#[test]
fn what_is_lacking_is_one_sentence_with_what_to_do() {
    let change = |change: fn(&mut MachineFacts)| {
        let mut facts = able();
        change(&mut facts);
        facts
    };
    let cases = [
        (change(|f| f.root = false), "sudo"),
        (change(|f| f.fuse = false), "/dev/fuse"),
        (change(|f| f.loops = false), "/dev/loop-control"),
        (change(|f| f.filesystems.clear()), "this kernel has no ext4"),
        (
            change(|f| f.folders.clear()),
            "needs mkfs.ext4: apt-get install e2fsprogs",
        ),
    ];
    for (facts, part) in cases {
        let told = lacks(RAID, &facts).unwrap();
        assert!(told.contains(part), "{told}");
        assert!(!told.contains('\n') && !told.ends_with('.'), "{told}");
    }
}

#[test]
fn a_plans_own_needs_are_probed_too() {
    let with = |need: &str| format!("needs = [{need:?}]\n{LOOP}");
    assert_eq!(
        lacks(&with("module:no_such"), &able()).unwrap(),
        "this kernel has no module no-such"
    );
    assert!(
        lacks(&with("program:no-such"), &able())
            .unwrap()
            .contains("no-such")
    );
    let error = lacking(&target(&with("luck")), &able()).unwrap_err();
    assert!(error.to_string().contains("luck"), "{error}");
}

#[test]
fn nfs_needs_a_server_that_runs_and_smb_brings_its_own() {
    let mut facts = able();
    facts.folders = vec!["/nowhere".into()];
    for name in ["nfs", "cifs"] {
        facts.filesystems.insert(name.into());
    }
    let mount = |kind: &str| format!("name = \"m\"\nkind = \"mount\"\ntype = \"{kind}\"");
    let told = lacks(&mount("nfs"), &MachineFacts::default()).unwrap();
    assert!(told.contains("root"), "{told}");
    let told = lacks(&mount("nfs"), &facts).unwrap();
    assert!(told.contains("apt-get install nfs-common"), "{told}");
    let told = lacks(&mount("cifs"), &facts).unwrap();
    assert_eq!(told, "needs mount.cifs: apt-get install cifs-utils");
    let programs = tempfile::tempdir().unwrap();
    std::fs::write(programs.path().join("mount.cifs"), "").unwrap();
    facts.folders = vec![programs.path().to_owned()];
    let told = lacks(&mount("cifs"), &facts).unwrap();
    assert_eq!(told, "needs smbd: apt-get install samba");
    for name in ["mount.nfs", "exportfs", "smbd", "pdbedit"] {
        std::fs::write(programs.path().join(name), "").unwrap();
    }
    facts.nfs_server = false;
    let told = lacks(&mount("nfs"), &facts).unwrap();
    assert!(told.contains("an NFS server that runs"), "{told}");
    facts.nfs_server = true;
    assert_eq!(lacks(&mount("nfs"), &facts), None);
    assert_eq!(lacks(&mount("cifs"), &facts), None);
}

#[test]
fn gvfs_belongs_to_a_session_and_it_is_said_what_to_do_instead() {
    let mount = "name = \"m\"\nkind = \"mount\"\ntype = \"gvfs\"";
    let error = super::mount::recipe(&target(mount), Path::new("/f").to_owned()).unwrap_err();
    assert!(error.to_string().contains("mount one"), "{error}");
}

#[test]
fn what_the_kernel_makes_of_disks_needs_its_modules_and_the_programs_that_ask_for_it() {
    let text = |layer: &str, served: &str| {
        format!(
            "name = \"k\"\nkind = \"kernel\"\nfilesystem = \"ext4\"\nlayers = [\"{layer}\"]\n\
             images = [{{ name = \"a\", size = \"64M\" }}, {{ name = \"b\", size = \"64M\"{served} }}]"
        )
    };
    let cases = [
        ("md-mirror", "raid1", "mdadm"),
        ("md-stripe", "raid0", "mdadm"),
        ("md-raid5", "raid456", "mdadm"),
        ("md-raid6", "raid456", "mdadm"),
        ("dm-linear", "dm-mod", "dmsetup"),
        ("dm-stripe", "dm-mod", "dmsetup"),
        ("volume", "dm-mod", "lvm"),
    ];
    for (layer, module, program) in cases {
        let programs = tempfile::tempdir().unwrap();
        let mut facts = able();
        facts.modules.clear();
        facts.nbd = false;
        facts.folders = vec![programs.path().to_owned()];
        std::fs::write(programs.path().join("losetup"), "").unwrap();
        std::fs::write(programs.path().join("mkfs.ext4"), "").unwrap();
        let told = lacks(&text(layer, ""), &facts).unwrap();
        assert_eq!(told, format!("this kernel has no module {module}"));
        facts.modules.insert(module.to_owned());
        let told = lacks(&text(layer, ""), &facts).unwrap();
        assert!(told.starts_with(&format!("needs {program}: ")), "{told}");
        std::fs::write(programs.path().join(program), "").unwrap();
        assert_eq!(lacks(&text(layer, ""), &facts), None);
        let told = lacks(&text(layer, ", served = \"tcp\""), &facts).unwrap();
        assert!(told.contains("nbd module"), "{told}");
    }
}

#[test]
fn an_array_is_made_after_its_halves_can_be_reached_and_before_it_is_attached() {
    let (steps, place) = steps(RAID).unwrap();
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            BuildStep::Folder(_) => "folder",
            BuildStep::Image { .. } => "image",
            BuildStep::Own(_) => "own",
            BuildStep::Serve { .. } => "serve",
            BuildStep::Attach { .. } => "attach",
            BuildStep::Loop { .. } => "loop",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "folder", "image", "image", "serve", "own", "folder", "attach"
        ]
    );
    assert_eq!(
        place,
        RecipeResult::Directory("/base/scratch/outboard-raid/mounted".into())
    );
}

#[test]
fn a_dry_run_shows_every_command_with_what_is_known_of_its_names() {
    let (steps, place) = steps(RAID).unwrap();
    let lines = super::step::Recipe { steps, place }.shown(&Names::default());
    let all = lines.join("\n");
    assert!(all.contains("fallocate --length 67108864"), "{all}");
    assert!(all.contains("nbd://127.0.0.1:PORT/b"), "{all}");
    assert!(
        all.contains("outboard array create --level 1 /base/scratch/outboard-raid/a.img"),
        "{all}"
    );
    assert!(!all.contains("{a}") && !all.contains("{b}"), "{all}");
}

#[test]
fn only_arrays_are_made_before_a_disk_is_attached() {
    let wrong = RAID.replace("array create --level 1", "array remove");
    let error = steps(&wrong).unwrap_err();
    assert!(error.to_string().contains("array create"), "{error}");
}

#[test]
fn a_loop_device_stands_on_one_image() {
    let wrong = LOOP.replace("disk = \"{a}\"", "disk = \"linear({a})\"");
    assert!(steps(&wrong).unwrap_err().to_string().contains("one image"));
}

#[test]
fn an_export_without_a_filesystem_is_measured_itself() {
    let text = "name = \"n\"\nkind = \"served\"\ndisk = \"null(1G)\"\ntransport = \"tcp\"";
    let (_, place) = steps(text).unwrap();
    assert_eq!(place, RecipeResult::Export);
    assert!(matches!(
        target(text).kind,
        TargetKind::Served {
            filesystem: None,
            ..
        }
    ));
}
