//! Arrays of ours against the kernel's md, in the guest, which has it: the script `tests/guest/lab/raid5.sh` measures
//! them in turns. The processor is emulated for all of them.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Args, Measured, fio};
use crate::guest::lab::{self, LabScript};
use crate::guest::stripped;
use crate::shell;

/// The contenders by their names in the script: ours as a disk of the kernel, md, ours without the kernel's client, and a plain
/// file as a disk of the kernel: the bound of the way.
const CONTENDERS: [(&str, &str); 4] = [
    ("kernel", "outboard, kernel nbd"),
    ("md", "md"),
    ("client", "outboard, fio nbd"),
    ("file", "plain file, kernel nbd"),
];

/// Seconds that the guest takes before and after what is measured, at most.
const AROUND_S: u32 = 600;

/// Measures them all in one guest.
pub(super) fn measure(args: &Args, binary: &Path) -> Result<Vec<Measured>> {
    let folder = shell::target().join("guest");
    let guest = lab::build(&folder, &stripped(binary, &folder)?)?;
    let settings = format!("RUNTIME={} ROUNDS={}", args.seconds, args.rounds);
    let contenders = u32::try_from(CONTENDERS.len())?;
    let limit_s = AROUND_S + 2 * args.seconds * args.rounds * contenders;
    let mut measured = Vec::new();
    let place = folder.join("run/raid5");
    let script = LabScript {
        name: "raid5",
        settings: &settings,
        programs: &[],
    };
    lab::script(&guest, script, &place, limit_s, |out| {
        for (file, name) in CONTENDERS {
            let samples = (1..=args.rounds).map(|round| {
                let report = out.join(format!("{file}-{round}.json"));
                let report = std::fs::read_to_string(report)
                    .with_context(|| format!("no report of {name}"))?;
                Ok(fio::parse(&report)?.sample)
            });
            measured.push(Measured {
                name: name.to_owned(),
                samples: samples.collect::<Result<_>>()?,
            });
        }
        Ok(())
    })?;
    Ok(measured)
}
