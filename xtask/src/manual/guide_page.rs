//! Manual pages of sections 5 and 7, from the guides: one source, so that neither goes stale.
//!
//! What a guide shows in a browser becomes the nearest that man(7) has: its second headings are sections, tables are lists by
//! their first column, links are their texts. Comments of HTML are left out.

use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

/// A page that is made of guides.
pub(super) struct GuidePage {
    /// `outboard-disks`
    pub(super) name: &'static str,
    pub(super) section: u8,
    /// What it is, in one line.
    about: &'static str,
    /// Documents in Markdown, below docs. Of one the headings are sections; of several each is a section.
    sources: &'static [&'static str],
}

/// All of them.
pub(super) const PAGES: [GuidePage; 3] = [
    GuidePage {
        name: "outboard.toml",
        section: 5,
        about: "configuration of outboard serve",
        sources: &["guide/config.md"],
    },
    GuidePage {
        name: "outboard-disks",
        section: 7,
        about: "disk expressions of outboard",
        sources: &["guide/disks.md"],
    },
    GuidePage {
        name: "outboard-formats",
        section: 7,
        about: "formats that outboard writes on disks",
        sources: &[
            "formats/md.md",
            "formats/dm-raid.md",
            "formats/lvm.md",
            "formats/overlay.md",
            "formats/client-overlays.md",
            "formats/writer.md",
            "formats/cache.md",
            "formats/bucket.md",
            "formats/copy-state.md",
        ],
    },
];

impl GuidePage {
    /// What it is made of.
    #[cfg(test)]
    pub(super) fn sources(&self) -> impl Iterator<Item = &'static str> {
        self.sources.iter().copied()
    }

    /// The name of its file.
    pub(super) fn file(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }

    /// The page as man(7) has it.
    pub(super) fn render(&self, docs: &Path) -> Result<String> {
        let mut writer = Writer::new(self.sources.len() > 1);
        let name = format!("{} - {}", self.name, self.about);
        writer.roff.control("SH", ["NAME"]).text([roman(name)]);
        if !writer.has_several {
            writer.heading(1, "DESCRIPTION");
        }
        for source in self.sources {
            let file = docs.join(source);
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let events = Parser::new_ext(&text, Options::ENABLE_TABLES);
            events.for_each(|event| writer.take(event));
        }
        writer.roff.control("SH", ["SEE ALSO"]);
        writer.roff.text([bold("outboard"), roman("(1)")]);
        Ok(self.finish(&writer.roff.to_roff()))
    }

    /// The page with its title line, without blanks at the ends of lines, and with vertical space by its macro alone:
    /// mandoc(1) complains of others. It has no date, so that two builds of one version give equal bytes.
    fn finish(&self, body: &str) -> String {
        let (title, section) = (self.name.to_uppercase(), self.section);
        let part = match section {
            5 => "File Formats",
            _ => "Miscellaneous",
        };
        let version = env!("CARGO_PKG_VERSION");
        let mut page = format!(".TH {title} {section} \"\" \"outboard {version}\" \"{part}\"\n");
        for line in body.lines().map(str::trim_end) {
            page.push_str(if line.is_empty() { ".sp" } else { line });
            page.push('\n');
        }
        page
    }
}

/// A table under way.
#[derive(Default)]
struct Table {
    head: Vec<Vec<Inline>>,
    row: Vec<Vec<Inline>>,
    is_in_head: bool,
}

struct Writer {
    roff: Roff,
    /// Of several documents, each of which is a section.
    has_several: bool,
    /// Text that was not written yet.
    pending: Vec<Inline>,
    is_bold: bool,
    is_italic: bool,
    /// A block of code, or HTML that is left out.
    code: Option<String>,
    is_skipped: bool,
    /// Numbers of the lists that are open; `None`: without numbers.
    lists: Vec<Option<u64>>,
    table: Option<Table>,
    /// Nothing was written since the last heading or item: a paragraph needs no space before it.
    is_first: bool,
}

impl Writer {
    fn new(has_several: bool) -> Self {
        Self {
            roff: Roff::new(),
            has_several,
            pending: Vec::new(),
            is_bold: false,
            is_italic: false,
            code: None,
            is_skipped: false,
            lists: Vec::new(),
            table: None,
            is_first: true,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => self.pending.push(bold(text.as_ref())),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::CodeBlock(_) => self.code = Some(String::new()),
            Tag::HtmlBlock => self.is_skipped = true,
            Tag::Strong => self.is_bold = true,
            Tag::Emphasis => self.is_italic = true,
            Tag::List(first) => {
                self.paragraph();
                self.lists.push(*first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => self.table = Some(Table::default()),
            Tag::TableHead => {
                if let Some(table) = &mut self.table {
                    table.is_in_head = true;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let title = plain(&std::mem::take(&mut self.pending));
                self.titled(level, &title);
            }
            TagEnd::Paragraph => self.paragraph(),
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::HtmlBlock => self.is_skipped = false,
            TagEnd::Strong => self.is_bold = false,
            TagEnd::Emphasis => self.is_italic = false,
            TagEnd::Item => {
                self.paragraph();
                self.is_first = false;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.is_first = false;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.pending);
                if let Some(table) = &mut self.table {
                    let cells = match table.is_in_head {
                        true => &mut table.head,
                        false => &mut table.row,
                    };
                    cells.push(cell);
                }
            }
            TagEnd::TableHead => {
                if let Some(table) = &mut self.table {
                    table.is_in_head = false;
                }
            }
            TagEnd::TableRow => self.table_row(),
            TagEnd::Table => {
                self.table = None;
                self.is_first = false;
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_skipped {
            return;
        }
        if let Some(code) = &mut self.code {
            code.push_str(text);
            return;
        }
        self.pending.push(match (self.is_bold, self.is_italic) {
            (true, _) => bold(text),
            (false, true) => italic(text),
            (false, false) => roman(text),
        });
    }

    /// A heading of a document. The first one of a page of one document is its title, which NAME has.
    fn titled(&mut self, level: HeadingLevel, title: &str) {
        let level = level as usize - usize::from(!self.has_several);
        if level > 0 {
            self.heading(level, title);
        }
    }

    fn heading(&mut self, level: usize, title: &str) {
        match level {
            1 => self.roff.control("SH", [title.to_uppercase().as_str()]),
            _ => self.roff.control("SS", [title]),
        };
        self.is_first = true;
    }

    /// Writes the text that is pending as a paragraph.
    fn paragraph(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        if !std::mem::take(&mut self.is_first) {
            // Within an item what follows stays at its place.
            let request = if self.lists.is_empty() { "PP" } else { "IP" };
            self.roff.control(request, []);
        }
        self.roff.text(std::mem::take(&mut self.pending));
    }

    fn item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}.", *number - 1)
            }
            _ => "*".to_owned(),
        };
        self.roff.control("IP", [mark.as_str(), "3"]);
        self.is_first = true;
    }

    fn code_block(&mut self) {
        let code = self.code.take().unwrap_or_default();
        if !std::mem::take(&mut self.is_first) {
            self.roff.control("PP", []);
        }
        self.roff.control("RS", ["4"]).control("nf", []);
        for line in code.trim_end().lines() {
            self.roff.text([roman(line)]);
        }
        self.roff.control("fi", []).control("RE", []);
    }

    /// A row is an item of its first cell, with the others behind it, which their column names from the third on.
    fn table_row(&mut self) {
        let Some(table) = &mut self.table else {
            return;
        };
        let row = std::mem::take(&mut table.row);
        let mut cells = row.into_iter();
        let first = cells.next().filter(|cell| !cell.is_empty());
        let first = first.unwrap_or_else(|| vec![roman("-")]);
        let mut body: Vec<Inline> = Vec::new();
        for (column, cell) in cells.enumerate().filter(|(_, cell)| !cell.is_empty()) {
            if !body.is_empty() {
                body.push(roman("; "));
            }
            let name = table.head.get(column + 1).map(|name| plain(name));
            if let Some(name) = name.filter(|name| column > 0 && !name.is_empty()) {
                body.push(roman(format!("{name}: ")));
            }
            body.extend(cell);
        }
        self.roff.control("TP", []).text(first);
        if body.is_empty() {
            body.push(roman("-"));
        }
        self.roff.text(body);
        self.is_first = false;
    }
}

/// A text without fonts.
fn plain(inlines: &[Inline]) -> String {
    let texts = inlines.iter().map(|inline| match inline {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.as_str(),
        Inline::LineBreak => " ",
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a document that is the only one of its page.
    fn rendered(markdown: &str) -> String {
        let mut writer = Writer::new(false);
        Parser::new_ext(markdown, Options::ENABLE_TABLES).for_each(|event| writer.take(event));
        writer.roff.to_roff()
    }

    #[test]
    fn headings_paragraphs_and_fonts_are_those_of_man() {
        let page = rendered(
            "# A title\n\nOne *two* **three** `four`\nfive.\n\nSix.\n\n## Next\n\nText.\n",
        );
        let expected =
            "One \\fItwo\\fR \\fBthree\\fR \\fBfour\\fR five.\n.PP\nSix.\n.SH NEXT\nText.\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn a_row_of_a_table_is_an_item_with_the_names_of_further_columns() {
        let table = "| key | meaning | default |\n|---|---|---|\n| `name` | what it is called | none |\n| `b` |  | 3 |\n";
        let expected =
            ".TP\n\\fBname\\fR\nwhat it is called; default: none\n.TP\n\\fBb\\fR\ndefault: 3\n";
        assert_eq!(rendered(table), expected);
    }

    #[test]
    fn code_keeps_its_lines_and_comments_are_left_out() {
        let page = rendered("<!-- session a\nstop\n-->\n\n    $ one\n\n    .two\n\nBehind.\n");
        let expected = ".RS 4\n.nf\n$ one\n\n\\&.two\n.fi\n.RE\n.PP\nBehind.\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn items_have_marks_or_numbers_and_links_are_their_texts() {
        let page = rendered("* a [link](there.md)\n* b\n\n1. one\n2. two\n");
        let expected = ".IP * 3\na link\n.IP * 3\nb\n.IP 1. 3\none\n.IP 2. 3\ntwo\n";
        assert_eq!(page, expected);
    }
}
