//! Comments, messages and defined names of a file, by its layout: enough for text that rustfmt has seen.

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line of a comment.
    Comment,
    /// A line of a document, its consoles left out.
    Document,
    /// One line of a string literal of several words.
    Message,
    /// What an item or a field is called.
    Name,
}

/// Text of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) kind: Kind,
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// Words that a literal has at least when it is a message and not a key, an option or a user's name.
const MESSAGE_WORDS_MIN: usize = 3;

/// Words in front of a name that an item defines.
const ITEMS: &[&str] = &[
    "fn", "struct", "enum", "trait", "union", "type", "const", "static", "mod",
];

/// The pieces of a file; none where its ending says that nothing in it is ours to word.
pub(super) fn pieces<'a>(path: &str, text: &'a str) -> Vec<Piece<'a>> {
    let ending = path.rsplit('.').next().unwrap_or_default();
    let lines = text.lines().enumerate();
    match ending {
        "rs" => rust(text),
        // What stands four in is a console or code.
        "md" => lines
            .filter(|(_, line)| !line.starts_with("    ") && !line.is_empty())
            .map(|(index, line)| piece(Kind::Document, index, line))
            .collect(),
        "sh" | "py" | "toml" => lines
            .filter_map(|(index, line)| {
                let comment = line.trim_start().strip_prefix('#')?;
                Some(piece(Kind::Comment, index, comment))
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn piece(kind: Kind, index: usize, text: &str) -> Piece<'_> {
    Piece {
        kind,
        line: index + 1,
        text,
    }
}

/// Raw literals are patterns and what other programs print; they are left out. So are literals of one or
/// two words: those are keys, options and protocol text.
fn rust(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut open = Open::Nothing;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if open == Open::Nothing && trimmed.starts_with("//") {
            let comment = trimmed.trim_start_matches(['/', '!']);
            pieces.push(piece(Kind::Comment, index, comment));
            continue;
        }
        if let Some(name) = defined(trimmed).filter(|_| open == Open::Nothing) {
            pieces.push(piece(Kind::Name, index, name));
        }
        for literal in literals(line, &mut open) {
            if literal.split_whitespace().count() >= MESSAGE_WORDS_MIN {
                pieces.push(piece(Kind::Message, index, literal));
            }
        }
    }
    pieces
}

/// The name of the item that begins on this line.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split(' ').skip_while(|word| {
        matches!(*word, "pub" | "async" | "unsafe" | "const" | "in") || word.starts_with("pub(")
    });
    let first = words.next()?;
    let name = match ITEMS.contains(&first) {
        true => words.next()?,
        // `const NAME`: the word was skipped above.
        false if line.contains("const ") => first,
        false => return None,
    };
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&name[..end.unwrap_or(name.len())])
}

/// A literal that goes on in the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Literal,
    /// With so many `#`.
    Raw(usize),
}

/// What stands between the quotes of ordinary literals on one line.
fn literals<'a>(line: &'a str, open: &mut Open) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        match *open {
            Open::Nothing => {
                let Some(at) = rest.find('"') else {
                    return found;
                };
                let before = &rest[..at];
                if before.contains("//") && !before.contains("://") {
                    return found;
                }
                rest = &rest[at + 1..];
                // A quote as a character: '"', b'"', '\"'.
                if (before.ends_with('\'') || before.ends_with("'\\")) && rest.starts_with('\'') {
                    continue;
                }
                let hashes = before.len() - before.trim_end_matches('#').len();
                *open = match before.trim_end_matches('#').ends_with('r') {
                    true => Open::Raw(hashes),
                    false => Open::Literal,
                };
            }
            Open::Raw(hashes) => {
                let end = format!("\"{}", "#".repeat(hashes));
                let Some(at) = rest.find(&end) else {
                    return found;
                };
                rest = &rest[at + end.len()..];
                *open = Open::Nothing;
            }
            Open::Literal => {
                let end = closing_quote(rest);
                found.push(&rest[..end.unwrap_or(rest.len())]);
                let Some(end) = end else {
                    return found;
                };
                rest = &rest[end + 1..];
                *open = Open::Nothing;
            }
        }
    }
}

/// Where the literal ends, escaped quotes left out.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return Some(at),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}
