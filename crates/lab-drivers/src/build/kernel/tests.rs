//! Steps come in the order in which they can be taken, and are shown with what is known of them.

use std::path::Path;

use lab::plan::Target;

use super::super::names::Names;
use super::super::step::{BuildStep, Recipe, RecipeResult};
use super::{KernelStep, recipe};

const MIRROR: &str = r#"
name = "md-nbd"
kind = "kernel"
images = [{ name = "a", size = "64M" }, { name = "b", size = "64M", served = "tcp" }]
layers = ["md-mirror", "volume"]
filesystem = "ext4"
"#;

fn made(text: &str) -> Recipe {
    let target: Target = toml::from_str(text).unwrap();
    recipe(&target, Path::new("/base/outboard-md-nbd").to_owned(), 4).unwrap()
}

#[test]
fn devices_come_before_layers_and_layers_before_the_filesystem() {
    let recipe = made(MIRROR);
    let kinds: Vec<&str> = recipe
        .steps
        .iter()
        .map(|step| match step {
            BuildStep::Folder(_) => "folder",
            BuildStep::Image { .. } => "image",
            BuildStep::Serve { .. } => "serve",
            BuildStep::Kernel(KernelStep::Loop(_)) => "loop",
            BuildStep::Kernel(KernelStep::Nbd(_)) => "nbd",
            BuildStep::Kernel(KernelStep::Layer { layer, .. }) => layer.as_str(),
            BuildStep::Kernel(KernelStep::Mount { .. }) => "mount",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "folder",
            "image",
            "image",
            "serve",
            "loop",
            "nbd",
            "md-mirror",
            "volume",
            "folder",
            "mount"
        ]
    );
    assert_eq!(
        recipe.place,
        RecipeResult::Directory("/base/outboard-md-nbd/mounted".into())
    );
}

#[test]
fn a_dry_run_names_every_device_or_says_which_it_will_be() {
    let lines = made(MIRROR).shown(&Names::default());
    let all = lines.join("\n");
    let pid = std::process::id();
    for part in [
        "losetup --direct-io=on --find --show /base/outboard-md-nbd/a.img".to_owned(),
        "outboard attach 'nbd://127.0.0.1:PORT/b' --via kernel".to_owned(),
        format!(
            "--raid-devices=2 LOOP-a NBD-b\nlvm pvcreate --quiet --yes --devices /dev/md/outboard{pid}_4_0"
        ),
        format!("mkfs.ext4 /dev/mapper/outboard{pid}_4_1-volume"),
        format!("mount /dev/mapper/outboard{pid}_4_1-volume /base/outboard-md-nbd/mounted"),
    ] {
        assert!(all.contains(&part), "{part} is not in:\n{all}");
    }
    assert!(!all.contains('{'), "{all}");
}

#[test]
fn one_image_needs_no_layer() {
    let text = "name = \"nbd\"\nkind = \"kernel\"\nfilesystem = \"ext4\"\n\
                images = [{ name = \"a\", size = \"64M\", served = \"unix\" }]";
    let lines = made(text).shown(&Names::default());
    assert!(
        lines.iter().any(|line| line == "mkfs.ext4 NBD-a"),
        "{lines:?}"
    );
}
