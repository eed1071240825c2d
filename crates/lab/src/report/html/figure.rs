//! A figure: drawing, caption, and below it the same figures as a table and as CSV.

use maud::{Markup, html};

use super::parts::key;
use crate::report::contents::{Figure, Table};
use crate::report::data::lines_of;

/// Everything of one figure. Titles are unique within their section only.
pub(super) fn figure(figure: &Figure, section: &str) -> Markup {
    let name = format!("{section}: {}", figure.title);
    let mut lines = vec![figure.table.head.clone()];
    lines.extend(figure.table.rows.iter().cloned());
    let file = format!("{}.csv", figure.file);
    html! {
        figure {
            h3 { (figure.title) }
            @if !figure.key.is_empty() {
                (key("Lines", figure.key.iter().map(|(look, name)| (*look, name.as_str()))))
            }
            (figure.drawing)
            figcaption { (figure.caption) }
            details {
                summary aria-label={ "Table: " (figure.title) } { "Table" }
                (scrolled(&name, &table(&figure.table, Some(&figure.title))))
                p class="csv" { a download=(file) href=(data_uri(&lines_of(&lines))) { "CSV" span class="unseen" { ": " (figure.title) } } }
            }
        }
    }
}

/// What may be wider than its place; the keyboard reaches it to scroll.
pub(super) fn scrolled(name: &str, inside: &Markup) -> Markup {
    html! { div class="wide" role="region" aria-label={ (name) ", table" } tabindex="0" { (inside) } }
}

/// A plain table.
pub(super) fn table(table: &Table, caption: Option<&str>) -> Markup {
    let words: Vec<bool> = (0..table.head.len())
        .map(|column| column == 0 || has_words(table, column))
        .collect();
    html! {
        table {
            @if let Some(caption) = caption { caption class="unseen" { (caption) } }
            thead { tr { @for (column, cell) in table.head.iter().enumerate() {
                @if words[column] { th scope="col" class="text" { (cell) } } @else { th scope="col" { (cell) } }
            } } }
            tbody { @for row in &table.rows { tr { @for (column, cell) in row.iter().enumerate() {
                @if column == 0 { th scope="row" { (cell) } }
                @else if words[column] { td class="text" { (cell) } }
                @else { td { (cell) } }
            } } } }
        }
    }
}

fn has_words(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column));
    cells.any(|cell| is_words(cell))
}

/// Whether a cell is to be read and not to be compared with those above it.
fn is_words(cell: &str) -> bool {
    cell.starts_with(|first: char| first.is_alphabetic() || first == '/')
}

/// Text as an address, with everything but letters, digits and a few marks escaped (RFC 2397, 3986).
fn data_uri(text: &str) -> String {
    let mut out = String::from("data:text/csv;charset=utf-8,");
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => {
                out.push(char::from(byte))
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_nothing_that_could_end_it() {
        let address = data_uri("a,\"b\" <c>&'é\r\n");
        assert_eq!(
            address,
            "data:text/csv;charset=utf-8,a,%22b%22%20%3Cc%3E%26%27%C3%A9%0D%0A"
        );
    }
}
