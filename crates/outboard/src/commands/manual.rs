//! `outboard manual`: the manual pages of all commands, from the definitions that `--help` is made of. Those of sections 5
//! and 7 are made of the guides, by `cargo xtask manual`.
//!
//! The pages are clap_mangen's, but for the title line: that leaves an empty date out, and mandoc(1) takes the next word for
//! it. Pages have no date, so that two builds of one version give equal bytes.

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use crate::cli::definition;
use crate::failure::Failure;

/// Arguments of `manual`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that gets the pages: outboard.1 and one for each command; `man -l PAGE` shows one
    folder: PathBuf,
}

/// A manual page.
#[derive(Debug)]
struct Page {
    file: String,
    text: String,
}

/// Writes the pages.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let folder = &args.folder;
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut pages = pages(definition())?.into_iter();
        pages.try_for_each(|page| std::fs::write(folder.join(&page.file), &page.text))
    };
    write().map_err(|error| {
        Failure::because(format!("cannot write into {}", folder.display()), &error)
    })
}

/// The pages of a command and of those below it.
fn pages(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut found = Vec::new();
    add_pages(&command, None, &mut found)?;
    Ok(found)
}

fn add_pages(command: &Command, above: Option<&str>, found: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in below {
        add_pages(one, Some(name), found)?;
    }
    found.push(Page {
        file: format!("{name}.1"),
        text: text(command, name, above)?,
    });
    Ok(())
}

fn text(command: &Command, name: &str, above: Option<&str>) -> io::Result<String> {
    let mut rendered = Vec::new();
    Man::new(command.clone()).render(&mut rendered)?;
    let rendered = String::from_utf8_lossy(&rendered);
    let mut text = tidied(&rendered, &title_line(name));
    if let Some(above) = above {
        let above = above.replace('-', "\\-");
        text.push_str(&format!(".SH SEE ALSO\n.BR {above} (1)\n"));
    }
    Ok(text)
}

fn title_line(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let title = name.to_uppercase();
    format!(".TH {title} 1 \"\" \"outboard {version}\" \"User Commands\"")
}

/// A page with its title line, and with vertical space by its macro alone and without blanks at the ends of lines: mandoc(1)
/// complains of what clap_mangen writes.
fn tidied(rendered: &str, title: &str) -> String {
    let lines: Vec<&str> = rendered.lines().map(str::trim_end).collect();
    let is_space = |at: Option<usize>| at.and_then(|at| lines.get(at)) == Some(&"");
    let is_kept = |(at, line): &(usize, &&str)| {
        **line != ".br" || !(is_space(at.checked_sub(1)) || is_space(Some(at + 1)))
    };
    let kept = lines.iter().enumerate().filter(is_kept);
    let kept = kept.map(|(_, line)| match *line {
        "" => ".sp",
        line if line.starts_with(".TH ") => title,
        line => line,
    });
    kept.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_users_start_has_a_page_and_internal_ones_have_none() {
        let pages = pages(definition()).expect("memory takes them");
        let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        for file in [
            "outboard.1",
            "outboard-serve.1",
            "outboard-volume-snapshot-merge.1",
        ] {
            assert!(files.contains(&file), "{files:?}");
        }
        assert!(
            !files.iter().any(|file| file.contains("background")),
            "{files:?}"
        );
    }

    #[test]
    fn a_break_next_to_vertical_space_is_left_out_and_others_stay() {
        let rendered = ".TH a 1\na \n.br\n\n.br\nb\n.br\nc\n";
        let tidied = tidied(rendered, ".TH A");
        assert_eq!(tidied, ".TH A\na\n.sp\nb\n.br\nc\n");
    }
}
