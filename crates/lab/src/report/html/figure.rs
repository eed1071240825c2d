//! A figure: drawing, caption, and below it the same figures as a table and as CSV.

use maud::{Markup, html};

use crate::report::data::lines_of;

/// Everything of one figure.
pub(super) struct Figure {
    /// Above the drawing.
    pub(super) title: Option<String>,
    pub(super) drawing: Markup,
    /// With n and interval.
    pub(super) caption: String,
    /// The table's head.
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// The CSV's name, without its ending.
    pub(super) file: &'static str,
}

impl Figure {
    pub(super) fn markup(&self) -> Markup {
        let mut lines = vec![
            self.head
                .iter()
                .map(|head| (*head).to_owned())
                .collect::<Vec<_>>(),
        ];
        lines.extend(self.rows.iter().cloned());
        html! {
            figure {
                @if let Some(title) = &self.title { h3 { (title) } }
                (self.drawing)
                figcaption { (self.caption) }
                details {
                    summary { "Table" }
                    div class="wide" { (table(&self.head, &self.rows)) }
                    p class="csv" { a download={ (self.file) ".csv" } href=(data_uri(&lines_of(&lines))) { "CSV" } }
                }
            }
        }
    }
}

/// A plain table.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        table {
            thead { tr { @for cell in head { th scope="col" { (cell) } } } }
            tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
        }
    }
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
