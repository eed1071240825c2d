//! Text -> tokens with their places.
//!
//! A token that is directly followed by `=` is a key: `chunk=64K` is two tokens, while the `=` in
//! `nbd+unix:///a?socket=/s` belongs to the word, since what stands before it is no name. A comma ends a word, except between the
//! servers of a URI that has a slash behind them: `nbd://a,b/root`.

use super::error::ExpressionProblem;
use super::syntax::Span;

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A bare or quoted word, without its quotes.
    Word {
        /// The characters.
        text: String,
        /// Whether it was quoted.
        quoted: bool,
    },
    /// A name and the `=` behind it.
    Key(String),
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// The end of the text.
    End,
}

/// A token and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// What.
    pub(super) kind: TokenKind,
    /// Where; a key's span leaves the `=` out.
    pub(super) span: Span,
}

/// Reads tokens from a text, one at a time.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the front of `text`.
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// What is left, if it is a path up to its end; the place is then the end.
    pub(super) fn path_to_the_end(&mut self) -> Option<(&'a str, Span)> {
        self.skip_blanks();
        let rest = self.rest();
        if !["/", "./", "../"]
            .iter()
            .any(|start| rest.starts_with(start))
        {
            return None;
        }
        let start = self.at;
        self.at = self.text.len();
        Some((
            rest,
            Span {
                start,
                end: self.at,
            },
        ))
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The next token; [`TokenKind::End`] for ever at the end.
    pub(super) fn next(&mut self) -> Result<Token, (Span, ExpressionProblem)> {
        self.skip_blanks();
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok(self.token(TokenKind::End, start));
        };
        let single = match first {
            '(' => TokenKind::Open,
            ')' => TokenKind::Close,
            ',' => TokenKind::Comma,
            '\'' | '"' => return self.quoted(first),
            _ => return Ok(self.bare()),
        };
        self.at += first.len_utf8();
        Ok(self.token(single, start))
    }

    const fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token {
            kind,
            span: Span {
                start,
                end: self.at,
            },
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Token, (Span, ExpressionProblem)> {
        let start = self.at;
        self.at += quote.len_utf8();
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(quote) else {
                let opening = Span {
                    start,
                    end: start + quote.len_utf8(),
                };
                return Err((opening, ExpressionProblem::UnclosedQuote { quote }));
            };
            text.push_str(&rest[..length]);
            self.at += length + quote.len_utf8();
            if !self.rest().starts_with(quote) {
                break;
            }
            text.push(quote);
            self.at += quote.len_utf8();
        }
        if self.rest().starts_with('=') {
            let key = self.token(TokenKind::Key(text), start);
            self.at += 1;
            return Ok(key);
        }
        Ok(self.token(TokenKind::Word { text, quoted: true }, start))
    }

    fn bare(&mut self) -> Token {
        let start = self.at;
        let rest = self.rest();
        if let Some((key, _)) = rest.split_once('=')
            && is_key(key)
        {
            self.at += key.len();
            let token = self.token(TokenKind::Key(key.to_owned()), start);
            self.at += 1;
            return token;
        }
        let list = server_list(rest);
        let end = rest[list..].find(ends_a_word);
        let length = end.map_or(rest.len(), |end| list + end);
        self.at += length;
        let text = rest[..length].to_owned();
        self.token(
            TokenKind::Word {
                text,
                quoted: false,
            },
            start,
        )
    }
}

fn ends_a_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | '(' | ')' | '\'' | '"')
}

/// The length of a URI's beginning up to the slash behind its servers, if it names several; else 0.
fn server_list(text: &str) -> usize {
    let is_end = |c: char| ends_a_word(c) && c != ',';
    let word = &text[..text.find(is_end).unwrap_or(text.len())];
    let Some(start) = word.find("://").map(|at| at + "://".len()) else {
        return 0;
    };
    let is_scheme = |c: char| c.is_ascii_alphabetic() || c == '+';
    let Some(end) = word[start..].find('/').map(|at| start + at) else {
        return 0;
    };
    let authority = &word[start..end];
    // Not a URI behind the comma, nor a path or a key.
    let is_next_uri = authority.ends_with(':') && word[end..].starts_with("//");
    let is_server = |server: &str| !matches!(server, "" | "." | "..") && !server.contains('=');
    let scheme = word[..start - "://".len()].to_ascii_lowercase();
    let is_list = scheme.starts_with("nbd")
        && scheme.chars().all(is_scheme)
        && authority.contains(',')
        && authority.split(',').all(is_server)
        && !is_next_uri;
    if is_list { end } else { 0 }
}

/// Whether `text` may stand before a `=` without quotes.
pub(super) fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'))
}

/// Whether `text` may be the name of a call.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// Whether `text`, written as it is, reads back as one bare word wherever a word may stand.
pub(super) fn is_bare_word(text: &str) -> bool {
    let key = text.split_once('=').is_some_and(|(key, _)| is_key(key));
    // At the head of an expression `/x` would run to the end of the text; a bare word has no blank
    // or bracket in it, so both readings give the same.
    !text.is_empty() && !key && !text.contains(ends_a_word)
}
