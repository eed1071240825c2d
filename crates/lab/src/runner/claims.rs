//! What a run writes without a filesystem, claimed before anything is built.
//!
//! Invariant: a raw place that may be written was claimed, or the run does not begin or leaves it out. An
//! export has no serial that we could see; its URI is typed instead, and its content is read by the builder.

use super::build::{Builder, LeftOut};
use super::request::RunRequest;
use crate::LabError;
use crate::host::TargetPlace;
use crate::host::safety::{Claim, allow_export, claim};
use crate::plan::{Target, TargetKind};

/// What came of a target that may be written.
#[derive(Debug)]
pub(super) enum Claimed {
    /// It is not written raw, or only what the lab made.
    Not,
    /// Its serial or its URI was typed; a device is held.
    Typed(Option<Claim>),
}

impl Claimed {
    /// What keeps others away.
    pub(super) fn held(self) -> Option<Claim> {
        match self {
            Self::Not => None,
            Self::Typed(claim) => claim,
        }
    }
}

/// Claims of what was given besides the plan's own targets.
pub(super) fn of_request(
    request: &RunRequest,
    builder: &dyn Builder,
) -> Result<Vec<Claim>, LabError> {
    let written = request.targets.iter().filter(|target| !target.read_only);
    let claims = written.map(|target| of_place(&target.place, &request.write_serials, builder));
    let claims: Result<Vec<Option<Claim>>, String> = claims.collect();
    Ok(claims
        .map_err(LabError::BadRequest)?
        .into_iter()
        .flatten()
        .collect())
}

/// The claim of one of the plan's own targets, where it names a device or an export that is there.
pub(super) fn of_target(
    target: &Target,
    serials: &[String],
    builder: &dyn Builder,
) -> Result<Claimed, LeftOut> {
    let TargetKind::Raw {
        device,
        uri,
        writes: true,
        ..
    } = &target.kind
    else {
        return Ok(Claimed::Not);
    };
    let place = match (device, uri) {
        (Some(path), _) => TargetPlace::Device(path.clone()),
        (_, Some(uri)) => TargetPlace::Uri(uri.clone()),
        (None, None) => return Ok(Claimed::Not),
    };
    of_place(&place, serials, builder)
        .map(Claimed::Typed)
        .map_err(LeftOut)
}

fn of_place(
    place: &TargetPlace,
    serials: &[String],
    builder: &dyn Builder,
) -> Result<Option<Claim>, String> {
    let claimed = match place {
        TargetPlace::Directory(_) | TargetPlace::There { .. } => Ok(None),
        TargetPlace::Device(path) => claim(path, serials).map(Some),
        TargetPlace::Uri(uri) => {
            allow_export(uri, builder.export_content(uri), serials).map(|()| None)
        }
    };
    claimed.map_err(|refused| refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::safety::ExportContent;
    use crate::plan::builtin;
    use crate::runner::{BuildContext, Built, TargetSpec};

    /// A builder that finds this on every export.
    struct FixedContent(ExportContent);

    impl Builder for FixedContent {
        fn build(&mut self, _: &Target, _: &BuildContext<'_>) -> Result<Built, LeftOut> {
            Err(LeftOut("nothing is built".into()))
        }

        fn describe(&self, _: &Target, _: &BuildContext<'_>) -> Result<Vec<String>, LeftOut> {
            Err(LeftOut("nothing is built".into()))
        }

        fn export_content(&self, _: &str) -> ExportContent {
            self.0.clone()
        }
    }

    const EMPTY: FixedContent = FixedContent(Ok(None));

    fn raw(key: &str, value: &str, writes: bool) -> Target {
        let text =
            format!("name = \"a\"\nkind = \"raw\"\n{key} = \"{value}\"\nwrites = {writes}\n");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_device_or_a_file_with_data_is_left_out_when_it_would_be_written_and_not_when_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, b"data").unwrap();
        let path = path.to_str().unwrap();
        let LeftOut(why) = of_target(&raw("device", path, true), &[], &EMPTY).unwrap_err();
        assert!(why.contains("is not written: the file holds data"), "{why}");
        let read = of_target(&raw("device", path, false), &[], &EMPTY);
        assert!(matches!(read, Ok(Claimed::Not)));
    }

    #[test]
    fn an_export_is_written_only_when_its_uri_was_typed() {
        let uri = "nbd://nas/photos";
        let LeftOut(why) = of_target(&raw("uri", uri, true), &[], &EMPTY).unwrap_err();
        assert!(
            why.ends_with("add --write-serial 'nbd://nas/photos'"),
            "{why}"
        );
        let typed = of_target(&raw("uri", uri, true), &[uri.to_owned()], &EMPTY);
        assert!(matches!(typed, Ok(Claimed::Typed(None))));
        let read = of_target(&raw("uri", uri, false), &[], &EMPTY);
        assert!(matches!(read, Ok(Claimed::Not)));
    }

    #[test]
    fn an_export_that_holds_something_is_refused_as_a_device_is_also_when_its_uri_was_typed() {
        let uri = "nbd://nas/photos";
        let typed = [uri.to_owned()];
        let failed = Err("what is on it cannot be found out: connection refused".to_owned());
        let cases = [
            (Ok(Some("ext4".to_owned())), "the export holds ext4"),
            (
                Ok(Some("LVM2_member".to_owned())),
                "the export is a member (LVM2_member)",
            ),
            (
                failed,
                "what is on it cannot be found out: connection refused",
            ),
        ];
        for (content, why) in cases {
            let builder = FixedContent(content);
            let refused = of_target(&raw("uri", uri, true), &typed, &builder);
            let expected = format!("{uri} is not written: {why}");
            assert_eq!(refused.unwrap_err(), LeftOut(expected));
            let read = of_target(&raw("uri", uri, false), &typed, &builder);
            assert!(matches!(read, Ok(Claimed::Not)));
        }
    }

    #[test]
    fn a_run_does_not_begin_that_would_write_what_was_given_and_may_not_be_written() {
        let plan = builtin("quick").unwrap();
        let mut target = TargetSpec::at(TargetPlace::Uri("nbd://nas/photos".into()));
        let request = RunRequest::new(plan, "/nowhere".into());
        assert!(
            of_request(&request.clone().on(target.clone()), &EMPTY)
                .unwrap()
                .is_empty()
        );
        target.read_only = false;
        assert!(of_request(&request.on(target), &EMPTY).is_err());
    }
}
