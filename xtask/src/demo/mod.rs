//! `cargo xtask demo`: the main job, from a disk image to a report, as a user would do it by hand.
//!
//! Every command is printed before it runs. Everything happens in a folder under the target folder, on a
//! real disk rather than in memory, with servers and attachments of its own; it is gone afterwards, and that
//! is checked. What stays is the report.

mod stage;
mod traces;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::{clock, data, packages, shell};
use stage::Stage;

/// Sizes of the files that are written and verified, in bytes: small, odd, large.
const FILES: &[u64] = &[1, 511, 4096, 100_000, 1 << 20, 7_654_321, 32 << 20];

/// Runs it, and sees to it that nothing is left.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[packages::DEMO])?;
    ensure!(
        packages::is_root()?,
        "a block device takes root: run the demo as root"
    );
    println!("building outboard");
    let binary = shell::build_release()?;
    let begin = clock::now();
    let report = shell::target().join("demo/report.html");
    let stage = Stage::new(binary, &shell::target().join("demo"))?;
    let folder = stage.folder().to_path_buf();
    let outcome = play(&stage, &report);
    let cleared = stage.clear();
    outcome?;
    cleared?;
    let left = traces::of(&folder);
    if !left.is_empty() {
        bail!("left behind: {}", left.join(", "));
    }
    println!(
        "\nNothing is left behind but the report: {}",
        report.display()
    );
    println!("Done in {:.0} s.", begin.elapsed().as_secs_f64());
    Ok(())
}

fn play(stage: &Stage, report: &PathBuf) -> Result<()> {
    // Paths are relative to the stage's folder, where the commands run.
    let (image, mount, local) = ("media.img", "mnt", "local");
    std::fs::create_dir(stage.folder().join(local))?;

    println!("\nA disk of 1 GiB with ext4, served on the loopback:");
    stage.outboard(&["disk", "create", image, "1G", "--fs", "ext4"])?;
    let uri = stage.serve(&format!("media={image}"))?;

    println!("\nAttached and mounted, as it would be on another machine:");
    stage.outboard(&["attach", &uri, "--mount", mount])?;
    stage.outboard(&["status"])?;

    println!("\nFiles written to it:");
    for (number, size) in FILES.iter().enumerate() {
        let file = stage.folder().join(format!("local/{number}"));
        data::fill(&file, *size, number as u64 + 1)?;
    }
    stage.sh("cd local && sha256sum * >../sums")?;
    stage.sh("cp -r local mnt/files && sync -f mnt/files")?;

    println!("\nDetached, attached again, and compared:");
    stage.outboard(&["detach", mount])?;
    stage.outboard(&["attach", &uri, "--mount", mount])?;
    stage.sh("cd mnt/files && sha256sum --check --quiet ../../sums")?;
    println!("all {} files are what they were", FILES.len());

    println!("\nHow fast, against this machine's own disk:");
    stage.outboard(&["lab", "run", "quick", mount, "--against", local])?;
    let made = stage.outboard_says(&["lab", "report", "--open-path"])?;
    std::fs::copy(made.trim(), report).with_context(|| format!("{} is no report", made.trim()))?;

    println!("\nTaken down:");
    stage.outboard(&["detach", mount])?;
    stage.stop_serving()
}
