//! What measuring takes of a processor: the lab itself and an agent, while fio runs, as parts of one core.
//!
//! The lab reports its own share of each measurement, without fio's; the agent, which the lab follows
//! meanwhile, is read from the kernel. Both of them together are what the mark is set on. The lab is at
//! work for the whole of `--seconds`, ten at least: the kernel counts processor time in hundredths of a
//! second, and in less both would be none. An agent costs as much on the other machine as on this one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::Sample;
use super::{Args, Measured};
use crate::clock;
use crate::process;

/// An agent that runs.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // It is ours, and has nothing to finish.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs the lab with an agent, `--rounds` times.
pub(super) fn measure(args: &Args, binary: &Path, folder: &Path) -> Result<Vec<Measured>> {
    let folder = folder.join("lab-cost");
    std::fs::create_dir_all(&folder).context("no folder for the lab")?;
    let mut measured: Vec<Measured> = ["lab and agent", "lab", "agent"]
        .map(|name| Measured {
            name: name.to_owned(),
            samples: Vec::new(),
        })
        .into();
    for _ in 0..args.rounds {
        let (lab, agent) = once(binary, &folder, args.seconds)?;
        for (one, part) in measured.iter_mut().zip([lab + agent, lab, agent]) {
            one.samples.push(Sample {
                core_percent: Some(part * 100.0),
                ..Sample::default()
            });
        }
    }
    Ok(measured)
}

/// The parts of a core that the lab and the agent took.
fn once(binary: &Path, folder: &Path, seconds: u32) -> Result<(f64, f64)> {
    let (agent, port) = start_agent(binary, folder)?;
    let plan = folder.join("plan.toml");
    std::fs::write(&plan, plan_of(seconds)).context("the plan cannot be written")?;
    let store = folder.join("lab.sqlite");
    let (began, before) = (clock::now(), process::cpu_seconds(agent.0.id())?);
    let output = Command::new(binary)
        .args(["lab", "run"])
        .arg(&plan)
        .arg(folder)
        .args(["--json", "--store"])
        .arg(&store)
        .args([
            "--agent",
            &format!("127.0.0.1:{port}"),
            "--agent-token-file",
        ])
        .arg(folder.join("token"))
        .stdin(Stdio::null())
        .output()
        .context("the lab does not start")?;
    if !output.status.success() {
        bail!("the lab: {}", String::from_utf8_lossy(&output.stderr));
    }
    let spent = process::cpu_seconds(agent.0.id())? - before;
    let agent = spent / (clock::now() - began).as_secs_f64();
    Ok((lab_part(&output.stdout)?, agent))
}

fn start_agent(binary: &Path, folder: &Path) -> Result<(Agent, u64)> {
    let mut child = Command::new(binary)
        .args(["agent", "--listen", "127.0.0.1:0", "--json", "--token-file"])
        .arg(folder.join("token"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("the agent does not start")?;
    let stdout = child.stdout.take().context("its output is not there")?;
    let agent = Agent(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let announced: Value = serde_json::from_str(&line).context("the agent prints no JSON")?;
    let port = announced["port"]
        .as_u64()
        .context("the agent reports no port")?;
    // What starting costs is no part of it.
    std::thread::sleep(Duration::from_secs(1));
    Ok((agent, port))
}

/// What the lab took of each measurement, by its own account.
fn lab_part(json: &[u8]) -> Result<f64> {
    let record: Value = serde_json::from_slice(json).context("the lab says no JSON")?;
    let cells = record["run"]["cells"]
        .as_array()
        .context("no measurements")?;
    let sum = |pointer: &str| -> f64 {
        let values = cells.iter().filter_map(|cell| cell.pointer(pointer));
        values.filter_map(Value::as_f64).sum()
    };
    let elapsed = sum("/elapsed");
    if elapsed <= 0.0 {
        bail!("nothing was measured");
    }
    Ok(sum("/evidence/lab_cpu") / elapsed)
}

/// A light load for so many seconds: what the lab does does not hang on it.
/// Shortest measurement, s.
const SECONDS_MIN: u32 = 10;

fn plan_of(seconds: u32) -> String {
    format!(
        "name = \"lab-cost\"\n\
         summary = \"what the lab takes itself\"\n\
         [data]\nsize = \"64M\"\nlayout_ms = 30000\n\
         [budget]\nblocks_min = 1\nblocks_max = 1\nprecision = 0.03\ntime_ms = 1000\nlimit_ms = 600000\n\
         [[workload]]\nname = \"read\"\ntitle = \"Random read\"\npattern = \"random\"\n\
         direction = \"read\"\nblock_size = \"4K\"\ndepth = 1\njobs = 1\nruntime_ms = {}\n",
        seconds.max(SECONDS_MIN) * 1000
    )
}
