//! `cargo xtask manual`: all manual pages, in the folders man1, man5 and man7 of a folder.
//!
//! Those of commands come from the binary, which has their definitions; outboard.toml(5), outboard-disks(7) and
//! outboard-formats(7) are made of the guides ([`guide_page`]).

mod guide_page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Where pages go, and whose they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that gets them, such as /usr/local/share/man
    folder: PathBuf,
    /// The binary that has the commands; that of `cargo build --release` when not given
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// A manual page.
#[derive(Debug)]
pub(crate) struct Page {
    /// `outboard-disks.7`
    pub(crate) file: String,
    pub(crate) section: String,
    pub(crate) text: String,
}

/// Writes the pages.
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => shell::build_release()?,
    };
    let work = tempfile::tempdir()?;
    let pages = pages(Command::new(binary), work.path())?;
    for page in &pages {
        let folder = args.folder.join(format!("man{}", page.section));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join(&page.file);
        fs::write(&file, &page.text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    println!("{} pages are in {}", pages.len(), args.folder.display());
    Ok(())
}

/// All pages, by the names of their files; `binary` writes those of its commands into `work`.
pub(crate) fn pages(mut binary: Command, work: &Path) -> Result<Vec<Page>> {
    let folder = work.join("man");
    shell::output(binary.arg("manual").arg(&folder))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        pages.push(page(file.into_owned(), fs::read_to_string(&path)?)?);
    }
    for guide in &guide_page::PAGES {
        let text = guide.render(&shell::root().join("docs"))?;
        pages.push(page(guide.file(), text)?);
    }
    pages.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(pages)
}

fn page(file: String, text: String) -> Result<Page> {
    let (_, section) = file.rsplit_once('.').context("a page without a section")?;
    Ok(Page {
        section: section.to_owned(),
        file,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_guides_have_a_title_and_what_the_guides_have() {
        let docs = shell::root().join("docs");
        let files: Vec<String> = guide_page::PAGES.iter().map(|page| page.file()).collect();
        assert_eq!(
            files,
            ["outboard.toml.5", "outboard-disks.7", "outboard-formats.7"]
        );
        for (page, wanted) in guide_page::PAGES
            .iter()
            .zip(["read_only", "throttle(DISK", "bitmap"])
        {
            let text = page.render(&docs).expect("the guides are there");
            assert!(text.starts_with(".TH OUTBOARD"), "{text}");
            let wanted = wanted.replace('-', "\\-");
            assert!(text.contains(&wanted), "{}: {wanted}", page.file());
            assert!(!text.contains("<!--"), "{}", page.file());
        }
    }

    /// A format that is added to the documents is added to its page.
    #[test]
    fn the_page_on_formats_has_each_format() {
        let docs = shell::root().join("docs");
        let listed: Vec<&str> = guide_page::PAGES
            .iter()
            .flat_map(guide_page::GuidePage::sources)
            .collect();
        for entry in fs::read_dir(docs.join("formats")).expect("a folder of the tree") {
            let name = entry.expect("its entry").file_name();
            let source = format!("formats/{}", name.to_string_lossy());
            assert!(listed.contains(&source.as_str()), "{source}");
        }
    }
}
