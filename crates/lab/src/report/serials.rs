//! Serial numbers of disks replaced by hashes, for reports that are shown to others.
//!
//! A serial is the value of a field of that name, and the end of a name below `/dev/disk/by-id/`. Each
//! is replaced in all texts of the run: in targets, commands and findings. The same serial
//! has the same hash in every report, so a disk can be followed; a reader that knows how a maker numbers
//! disks can try them all, so this keeps serials from being read, not from being found out.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::LabError;
use crate::store::RunRecord;

/// Shorter ones would be found in every other word.
const SERIAL_MIN: usize = 5;
/// Where names with serials are.
const BY_ID: &str = "/dev/disk/by-id/";

/// The run with its serials hashed.
///
/// # Errors
/// [`LabError::BadRequest`] when a figure has no JSON form, which a stored run rules out.
pub fn hash_serials(run: &RunRecord) -> Result<RunRecord, LabError> {
    let unusable = |error: serde_json::Error| {
        LabError::BadRequest(format!("run {} has no JSON form: {error}", run.id))
    };
    let mut value = serde_json::to_value(run).map_err(unusable)?;
    let mut serials = BTreeSet::new();
    collect(&value, &mut serials);
    let mut serials: Vec<String> = serials.into_iter().collect();
    // One that is a part of another must not be replaced first.
    serials.sort_by_key(|serial| std::cmp::Reverse(serial.len()));
    replace(&mut value, &serials);
    // As text, since all other runs are read from text: readers of values are as large as readers of text.
    let text = serde_json::to_vec(&value).map_err(unusable)?;
    serde_json::from_slice(&text).map_err(unusable)
}

fn collect(value: &Value, serials: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => serials.extend(by_id(text)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, serials)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if let (true, Value::String(serial)) = (name.contains("serial"), field) {
                    serials.extend(long_enough(serial));
                }
                collect(field, serials);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn long_enough(serial: &str) -> Option<String> {
    let serial = serial.trim();
    (serial.len() >= SERIAL_MIN).then(|| serial.to_owned())
}

/// The serials in `ata-MODEL_SERIAL-part1`, `nvme-MODEL_SERIAL`, `wwn-0x5000…` of a text.
fn by_id(text: &str) -> impl Iterator<Item = String> {
    let names = text.split(BY_ID).skip(1).map(|rest| {
        let is_inside = |letter: char| letter.is_ascii_alphanumeric() || "-_.:+".contains(letter);
        let end = rest.find(|letter| !is_inside(letter));
        &rest[..end.unwrap_or(rest.len())]
    });
    names.filter_map(|name| {
        let name = match name.rsplit_once("-part") {
            Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => name,
        };
        let serial = match name.rsplit_once('_') {
            Some((_, serial)) => serial,
            None => name.split_once('-')?.1,
        };
        // Behind it comes a slot at its adapter: `usb-Maker_Disk_4C53-0:0`.
        let serial = match serial.rsplit_once('-') {
            Some((serial, place)) if place.contains(':') => serial,
            _ => serial,
        };
        long_enough(serial)
    })
}

fn replace(value: &mut Value, serials: &[String]) {
    match value {
        Value::String(text) => {
            for serial in serials
                .iter()
                .filter(|serial| text.contains(serial.as_str()))
                .collect::<Vec<_>>()
            {
                *text = text.replace(serial.as_str(), &hashed(serial));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, serials)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, serials)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first 40 bits of the SHA-256, which no reader takes for a serial.
fn hashed(serial: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, serial.as_bytes());
    let hex: String = digest
        .as_ref()
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256-{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_serial_is_the_end_of_a_name_by_id_without_partition_or_place() {
        let of = |text: &str| by_id(text).collect::<Vec<_>>();
        assert_eq!(
            of("/dev/disk/by-id/ata-WDC_WD40_WD-WCC7K0XXXX"),
            ["WD-WCC7K0XXXX"]
        );
        assert_eq!(
            of("a '/dev/disk/by-id/nvme-Maker_970_S466NX0-part2' b"),
            ["S466NX0"]
        );
        assert_eq!(
            of("/dev/disk/by-id/usb-Maker_Ultra_4C530001-0:0"),
            ["4C530001"]
        );
        assert_eq!(
            of("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"),
            ["0x5000c500a1b2c3d4"]
        );
        assert!(of("/dev/disk/by-id/x").is_empty() && of("/dev/sda").is_empty());
    }

    #[test]
    fn a_serial_is_nowhere_in_any_form_of_the_report_and_the_rest_is_as_it_was() {
        let mut run = synthetic::run(1);
        let (path, serial) = (
            "/dev/disk/by-id/ata-WDC_WD40_WD-WCC7K0XXXX-part1",
            "WCC7K0XXXX",
        );
        run.manifest.targets[0].source = path.into();
        run.commands[0].line = format!("fio '--filename={path}'");
        run.findings.push(crate::checks::Finding::remark(
            crate::checks::Check::Run,
            format!("the disk WD-{serial} is warm"),
        ));
        let hidden = hash_serials(&run).unwrap();
        let forms = |run: &RunRecord| {
            [
                crate::report::html(run),
                crate::report::markdown(run),
                crate::report::json(run).unwrap(),
            ]
        };
        assert!(forms(&run).iter().all(|form| form.contains(serial)));
        assert!(forms(&hidden).iter().all(|form| !form.contains(serial)));
        assert!(
            hidden.manifest.targets[0]
                .source
                .contains("WDC_WD40_sha256-")
        );
        assert_eq!(hidden.cells, run.cells);
        assert!(hash_serials(&synthetic::run(1)).unwrap() == synthetic::run(1));
    }
}
