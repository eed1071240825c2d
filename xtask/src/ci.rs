//! `cargo xtask ci` and `cargo xtask test`: what has to pass, in the order that tells soonest what is wrong.
//!
//! One profile builds everything, so that clippy, the tests, the guest's binary and the documentation share
//! what is compiled. A step that fails does not hide what the later ones would say.

use anyhow::{Result, bail};

use crate::{browser, clock, fuzz, guest, packages, shell, soak, suite, tidy};

/// Seconds that all fuzz targets share: enough to see that they run and to repeat what was once found.
const FUZZ_SECONDS: u32 = 60;

/// A part of what has to pass.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        run: format,
    },
    Step {
        name: "tidy",
        run: || tidy::run(&tidy::Args::default()),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "tests",
        run: all_tests,
    },
    Step {
        name: "browser",
        run: in_browser,
    },
    Step {
        name: "guest",
        run: in_guest,
    },
    Step {
        name: "soak",
        run: soak_briefly,
    },
    Step {
        name: "documentation",
        run: documentation,
    },
    Step {
        name: "fuzz",
        run: fuzz_briefly,
    },
];

/// Everything that has to pass, with the time each part took.
pub(crate) fn run() -> Result<()> {
    let begin = clock::now();
    packages::ensure(&[
        packages::TESTS,
        packages::BROWSER,
        packages::GUEST,
        packages::FUZZ,
    ])?;
    let mut said = vec![format!(
        "{:<14}{:>7.1} s",
        "packages",
        begin.elapsed().as_secs_f64()
    )];
    let mut failed = Vec::new();
    for step in STEPS {
        println!("\n== {}", step.name);
        let start = clock::now();
        let outcome = (step.run)();
        let seconds = start.elapsed().as_secs_f64();
        let verdict = match outcome {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                failed.push(step.name);
                format!("FAILED: {error:#}")
            }
        };
        println!("== {} {verdict}", step.name);
        said.push(format!("{:<14}{seconds:>7.1} s  {verdict}", step.name));
    }
    println!("\n{}", said.join("\n"));
    println!("in all {:.0} s", begin.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("did not pass: {}", failed.join(", "));
    }
    Ok(())
}

/// The workspace's tests, or those that the filter selects, and the report in a browser. `browser` alone
/// runs that alone.
pub(crate) fn test(filter: Option<&str>) -> Result<()> {
    let mut failed = Vec::new();
    if filter != Some("browser") {
        packages::ensure(&[packages::TESTS])?;
        let tests = suite::run(filter, false);
        failed.extend(tests.err().map(|error| format!("{error:#}")));
    }
    if matches!(filter, None | Some("browser")) {
        let report = browser::run_if_possible(&shell::build()?);
        failed.extend(report.err().map(|error| format!("{error:#}")));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", failed.join("; ")),
    }
}

/// Here nothing is skipped: what lacks is installed.
fn in_browser() -> Result<()> {
    browser::run(&shell::build()?)
}

fn all_tests() -> Result<()> {
    suite::run(None, true)
}

fn format() -> Result<()> {
    shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))?;
    if fuzz::is_there() {
        shell::run(&mut shell::cargo([
            "fmt",
            "--manifest-path",
            fuzz::MANIFEST,
            "--check",
        ]))?;
    }
    Ok(())
}

fn clippy() -> Result<()> {
    let args = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    shell::run(&mut shell::cargo(args))
}

fn in_guest() -> Result<()> {
    guest::run(&guest::Args::default())
}

fn soak_briefly() -> Result<()> {
    soak::brief(&shell::build()?)
}

/// The documentation is for those who work here too, so it has the private items and links to them.
fn documentation() -> Result<()> {
    let args = [
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    shell::run(shell::cargo(args).env("RUSTDOCFLAGS", flags))
}

fn fuzz_briefly() -> Result<()> {
    fuzz::run_shared(FUZZ_SECONDS)
}
