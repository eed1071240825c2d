//! Tests of the names of what is served.

use super::choose::{choose, prefixes};
use crate::commands::inspect::DiskContent;
use crate::graph::{NamedDisk, resolve};

fn disks(texts: &[&str]) -> Vec<NamedDisk> {
    texts.iter().map(|text| resolve(text).unwrap()).collect()
}

#[test]
fn one_disk_needs_no_name_before_the_names_on_it() {
    assert_eq!(prefixes(&disks(&["/srv/a.img"])).unwrap(), [""]);
    assert_eq!(prefixes(&disks(&["nas=/srv/a.img"])).unwrap(), ["nas/"]);
}

#[test]
fn several_disks_are_distinguished_by_their_files() {
    let names = disks(&["/srv/a.img", "x=/srv/a.img", "nbd://host/c"]);
    assert_eq!(prefixes(&names).unwrap(), ["a/", "x/", "c/"]);
    assert!(prefixes(&disks(&["/srv/a.img", "/mnt/a.raw"])).is_err());
    assert!(prefixes(&disks(&["/srv/a.img", "memory(1M)"])).is_err());
}

#[test]
fn a_disk_on_which_nothing_is_known_is_left_out() {
    let disk = &disks(&["/srv/a.img"])[0];
    let choice = choose(disk, "", &DiskContent::default());
    assert!(choice.chosen.is_empty());
    assert_eq!(choice.left_out[0].what, "whole");
}
