//! The commands that make a layer and take it away again, and where its device then is. Pure.

use lab::plan::Layer;
use lab::units::Bytes;

/// Sectors of device mapper.
const SECTOR: u64 = 512;
/// What goes to one device before the next one's turn.
const CHUNK_SECTORS: u64 = 128;
/// The same as mdadm wants it.
const CHUNK_KIB: u64 = CHUNK_SECTORS * SECTOR / 1024;
/// The volume's name in its group.
const VOLUME: &str = "volume";

/// A device that a layer is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct LayerDevice {
    /// Where it is, or a name in brackets.
    pub(super) device: String,
    /// Its size, where the plan says it.
    pub(super) size: Option<Bytes>,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commands {
    /// One after the other.
    pub(super) make: Vec<Vec<String>>,
    /// When it has to go.
    pub(super) undo: Vec<String>,
}

/// Where the device of a layer is.
pub(super) fn device(layer: Layer, label: &str) -> String {
    match layer {
        Layer::MdMirror | Layer::MdStripe | Layer::MdRaid5 | Layer::MdRaid6 => {
            format!("/dev/md/{label}")
        }
        Layer::DmLinear | Layer::DmStripe => format!("/dev/mapper/{label}"),
        Layer::Volume => format!("/dev/mapper/{label}-{VOLUME}"),
    }
}

/// How `layer` is made of `parts` under the name `label`.
///
/// # Errors
/// The devices below a table have no known size: one sentence without a full stop.
pub(super) fn commands(
    layer: Layer,
    label: &str,
    parts: &[LayerDevice],
) -> Result<Commands, String> {
    Ok(match layer {
        Layer::MdMirror => md(label, redundant(1), parts),
        Layer::MdRaid5 => md(label, redundant(5), parts),
        Layer::MdRaid6 => md(label, redundant(6), parts),
        Layer::MdStripe => {
            let chunk = format!("--chunk={CHUNK_KIB}");
            md(label, vec!["--level=0".to_owned(), chunk], parts)
        }
        Layer::DmLinear => dm(label, linear(parts)?),
        Layer::DmStripe => dm(label, striped(parts)?),
        Layer::Volume => volume(label, parts),
    })
}

fn md(label: &str, own: Vec<String>, parts: &[LayerDevice]) -> Commands {
    let device = device(Layer::MdMirror, label);
    let mut make = words(&["mdadm", "--create", &device, "--run", "--quiet"]);
    make.extend(words(&["--metadata=1.2"]));
    make.extend(own);
    make.push(format!("--raid-devices={}", parts.len()));
    make.extend(parts.iter().map(|part| part.device.clone()));
    Commands {
        make: vec![make],
        undo: words(&["mdadm", "--quiet", "--stop", &device]),
    }
}

/// As ours of these levels are made: with a bitmap (mdadm chooses our chunk, too), and without an initial resync.
fn redundant(level: u32) -> Vec<String> {
    let level = format!("--level={level}");
    let own = [level.as_str(), "--bitmap=internal", "--assume-clean"];
    words(&own)
}

fn dm(label: &str, table: Vec<String>) -> Commands {
    // Name, no UUID, any minor number, and the lines of the table.
    let device = format!("{label},,,rw,{}", table.join(","));
    Commands {
        make: vec![words(&["dmsetup", "create", "--concise", &device])],
        undo: words(&["dmsetup", "remove", "--retry", label]),
    }
}

fn linear(parts: &[LayerDevice]) -> Result<Vec<String>, String> {
    let mut begin = 0;
    let mut lines = Vec::new();
    for part in parts {
        let sectors = sectors(part)?;
        lines.push(format!("{begin} {sectors} linear {} 0", part.device));
        begin += sectors;
    }
    Ok(lines)
}

fn striped(parts: &[LayerDevice]) -> Result<Vec<String>, String> {
    let mut least = u64::MAX;
    for part in parts {
        least = least.min(sectors(part)?);
    }
    let each = least / CHUNK_SECTORS * CHUNK_SECTORS;
    let count = parts.len();
    let all = each * count as u64;
    let mut line = format!("0 {all} striped {count} {CHUNK_SECTORS}");
    for part in parts {
        line.push_str(&format!(" {} 0", part.device));
    }
    Ok(vec![line])
}

fn sectors(part: &LayerDevice) -> Result<u64, String> {
    let size = part.size.ok_or("a table stands on images alone")?;
    Ok(size.0 / SECTOR)
}

fn volume(label: &str, parts: &[LayerDevice]) -> Commands {
    let devices: Vec<&str> = parts.iter().map(|part| part.device.as_str()).collect();
    // No other disk of this machine is looked at.
    let seen = devices.join(",");
    let own = ["--quiet", "--yes", "--devices", &seen];
    let run =
        |command: &str, more: &[&str]| words(&[&["lvm", command][..], &own[..], more].concat());
    let fresh = ["--zero", "n", "--wipesignatures", "n"];
    let size = ["--name", VOLUME, "--extents", "100%FREE", label];
    Commands {
        make: vec![
            run("pvcreate", &devices),
            run("vgcreate", &[&[label], &devices[..]].concat()),
            run("lvcreate", &[&fresh[..], &size[..]].concat()),
        ],
        undo: run("vgremove", &["--force", label]),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use lab::units::MIB;

    use super::*;

    fn parts(sizes: &[u64]) -> Vec<LayerDevice> {
        let devices = ["/dev/loop3", "/dev/nbd0", "/dev/loop4"].into_iter();
        let parts = sizes.iter().zip(devices).map(|(mib, device)| LayerDevice {
            device: device.to_owned(),
            size: Some(Bytes(mib * MIB)),
        });
        parts.collect()
    }

    fn made(layer: Layer, sizes: &[u64]) -> Vec<String> {
        let commands = commands(layer, "outboard7_0_0", &parts(sizes)).unwrap();
        let all = commands.make.iter().chain([&commands.undo]);
        all.map(|words| words.join(" ")).collect()
    }

    #[test]
    fn a_mirror_of_md_is_made_as_ours_are() {
        assert_eq!(
            made(Layer::MdMirror, &[64, 64]),
            [
                "mdadm --create /dev/md/outboard7_0_0 --run --quiet --metadata=1.2 --level=1 \
                 --bitmap=internal --assume-clean --raid-devices=2 /dev/loop3 /dev/nbd0",
                "mdadm --quiet --stop /dev/md/outboard7_0_0",
            ]
        );
    }

    #[test]
    fn arrays_of_md_with_parity_are_made_as_ours_are() {
        assert_eq!(
            made(Layer::MdRaid5, &[64, 64, 64])[0],
            "mdadm --create /dev/md/outboard7_0_0 --run --quiet --metadata=1.2 --level=5 \
             --bitmap=internal --assume-clean --raid-devices=3 /dev/loop3 /dev/nbd0 /dev/loop4"
        );
        assert_eq!(
            device(Layer::MdRaid6, "outboard7_0_0"),
            "/dev/md/outboard7_0_0"
        );
    }

    #[test]
    fn a_linear_table_has_a_line_for_each_part_where_the_last_one_ended() {
        assert_eq!(
            made(Layer::DmLinear, &[64, 32]),
            [
                "dmsetup create --concise outboard7_0_0,,,rw,0 131072 linear /dev/loop3 0,\
                 131072 65536 linear /dev/nbd0 0",
                "dmsetup remove --retry outboard7_0_0",
            ]
        );
    }

    #[test]
    fn stripes_end_with_whole_chunks_of_the_smallest_part() {
        let lines = striped(&parts(&[64, 65])).unwrap();
        assert_eq!(
            lines,
            ["0 262144 striped 2 128 /dev/loop3 0 /dev/nbd0 0"],
            "twice the smaller one"
        );
        let mut odd = parts(&[64, 64]);
        odd[0].size = Some(Bytes(64 * MIB - 512));
        let lines = striped(&odd).unwrap();
        assert!(lines[0].starts_with("0 261888 striped"), "{lines:?}");
    }

    #[test]
    fn lvm_is_shown_no_other_device_than_ours() {
        for line in made(Layer::Volume, &[64, 64]) {
            assert!(
                line.contains("--devices /dev/loop3,/dev/nbd0"),
                "{line} looks at every disk"
            );
        }
        let all = made(Layer::Volume, &[64]);
        assert!(all[1].ends_with("outboard7_0_0 /dev/loop3"), "{}", all[1]);
        assert!(all[2].contains("--extents 100%FREE"), "{}", all[2]);
        assert_eq!(
            device(Layer::Volume, "outboard7_0_0"),
            "/dev/mapper/outboard7_0_0-volume"
        );
    }

    #[test]
    fn a_table_needs_the_sizes_of_what_it_stands_on() {
        let unknown = LayerDevice {
            device: "/dev/md/x".into(),
            size: None,
        };
        assert!(commands(Layer::DmLinear, "x", &[unknown]).is_err());
    }
}
