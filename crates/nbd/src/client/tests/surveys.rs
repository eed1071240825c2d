//! What a server has, queried without using it.

use std::time::Duration;

use nbd_proto::Framing;

use super::fake::Fake;
use super::in_engine;
use crate::client::{Address, ClientError, Target, describe, list, survey};

const SECOND: Duration = Duration::from_secs(1);

fn two_listed(fake: &Fake) {
    let mut world = fake.world();
    world.export.name = "disk".to_owned();
    world.export.description = "a disk".to_owned();
    world.listed = vec![
        ("disk".to_owned(), "short".to_owned()),
        ("ghost".to_owned(), String::new()),
    ];
}

fn named(fake: &Fake, export: &str) -> Target {
    Target {
        export: export.to_owned(),
        ..fake.target()
    }
}

#[test]
fn exports_are_listed_in_the_server_s_order_with_their_texts() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        assert!(list(&fake.target(), SECOND).await.unwrap().is_empty());
        two_listed(&fake);
        let listed = list(&fake.target(), SECOND).await.unwrap();
        let names: Vec<_> = listed.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["disk", "ghost"]);
        assert_eq!(listed[0].description, "short");
        assert_eq!(fake.world().connections, 0, "nothing is opened for data");
    });
}

/// nbd-server answers `INFO` without looking at its file: `outboard ls` showed 0 bytes for each of its exports.
#[test]
fn a_size_that_is_not_described_is_learned_by_opening_the_export() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        two_listed(&fake);
        fake.world().hides_size = true;
        let survey = survey(&fake.target(), SECOND).await.unwrap();
        let described = survey.exports[0].described.as_ref().unwrap();
        assert_eq!(described.export.size, 1 << 20);
        assert!(survey.exports[1].described.is_err());
        let world = fake.world();
        assert!(world.log.is_empty(), "nothing is requested");
    });
}

#[test]
fn one_export_is_described_without_being_used() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        two_listed(&fake);
        fake.world().export.block_size_min = 512;
        fake.world().framing = Framing::Simple;
        let target = named(&fake, "disk");
        let description = describe(&target, SECOND).await.unwrap();
        assert_eq!(description.target, target);
        assert_eq!(description.export, fake.world().export);
        assert!(!description.structured);
        assert_eq!(fake.world().connections, 0);
    });
}

#[test]
fn a_survey_describes_what_it_can_and_says_what_it_cannot() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        two_listed(&fake);
        let survey = survey(&fake.target(), SECOND).await.unwrap();
        assert_eq!(survey.exports.len(), 2);
        let disk = survey.exports[0].described.as_ref().unwrap();
        assert_eq!((disk.export.size, disk.structured), (1 << 20, true));
        let ghost = survey.exports[1].described.as_ref().unwrap_err();
        assert!(ghost.to_string().contains("no export \"ghost\""), "{ghost}");
    });
}

#[test]
fn a_server_that_is_not_there_is_named() {
    in_engine(|| async {
        let address = Address::Unix("/nonexistent/socket".into());
        let target = Target::new(address, String::new());
        let error = survey(&target, SECOND).await.unwrap_err();
        assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    });
}
