//! Tokens -> [`Expression`]. Recursive descent; knows the grammar, not the names of disks.

use super::error::{ExpressionError, ExpressionProblem};
use super::syntax::{Argument, Call, Expression, Key, Named, Span, Word};
use super::token::{Token, TokenKind, Tokens, is_name};

/// Deepest nesting of calls.
pub(super) const DEPTH_MAX: usize = 64;

/// Longest text, bytes.
pub(super) const TEXT_MAX: usize = 64 * 1024;

/// Parses `[NAME=]DISK`.
pub(crate) fn parse_named(text: &str) -> Result<Named, ExpressionError> {
    let mut parser = Parser::new(text)?;
    parser
        .named()
        .map_err(|(span, problem)| ExpressionError::new(text, span, problem))
}

type Parsed<T> = Result<T, (Span, ExpressionProblem)>;

struct Parser<'a> {
    tokens: Tokens<'a>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, ExpressionError> {
        if text.len() > TEXT_MAX {
            let problem = ExpressionProblem::TooLong { max: TEXT_MAX };
            return Err(ExpressionError::new("", Span::default(), problem));
        }
        Ok(Self {
            tokens: Tokens::new(text),
            depth: 0,
        })
    }

    fn named(&mut self) -> Parsed<Named> {
        if let Some(disk) = self.path() {
            return Ok(Named { name: None, disk });
        }
        let first = self.tokens.next()?;
        let TokenKind::Key(text) = first.kind else {
            let disk = self.whole_disk(first)?;
            return Ok(Named { name: None, disk });
        };
        let name = Some(Key {
            text,
            span: first.span,
        });
        if let Some(disk) = self.path() {
            return Ok(Named { name, disk });
        }
        let next = self.tokens.next()?;
        let disk = self.whole_disk(next)?;
        Ok(Named { name, disk })
    }

    fn path(&mut self) -> Option<Expression> {
        let (path, span) = self.tokens.path_to_the_end()?;
        let text = path.to_owned();
        Some(Expression::Word(Word { text, span }))
    }

    /// A disk and nothing behind it.
    fn whole_disk(&mut self, first: Token) -> Parsed<Expression> {
        let (disk, next) = self.value(first, "a disk")?;
        match next.kind {
            TokenKind::End => Ok(disk),
            _ => Err(unexpected(&next, "the end of the disk")),
        }
    }

    /// A word or a call that begins with `first`, and the token behind it.
    fn value(&mut self, first: Token, expected: &'static str) -> Parsed<(Expression, Token)> {
        let TokenKind::Word { text, quoted } = first.kind else {
            return Err(unexpected(&first, expected));
        };
        let span = first.span;
        let word = Word { text, span };
        let next = self.tokens.next()?;
        if next.kind != TokenKind::Open {
            if word.text.is_empty() {
                return Err((span, ExpressionProblem::EmptyWord));
            }
            return Ok((Expression::Word(word), next));
        }
        if quoted || !is_name(&word.text) {
            return Err((span, ExpressionProblem::NotAName { text: word.text }));
        }
        let call = self.call(word, next.span)?;
        let next = self.tokens.next()?;
        Ok((Expression::Call(call), next))
    }

    /// What follows `NAME(`.
    fn call(&mut self, name: Word, open: Span) -> Parsed<Call> {
        if self.depth == DEPTH_MAX {
            return Err((name.span, ExpressionProblem::TooDeep { max: DEPTH_MAX }));
        }
        self.depth += 1;
        let mut arguments: Vec<Argument> = Vec::new();
        let end = loop {
            let first = self.tokens.next()?;
            if let TokenKind::Close = first.kind {
                break first.span.end;
            }
            let (argument, next) = self.argument(first, open)?;
            let keyed_before = arguments.last().is_some_and(|last| last.key.is_some());
            if keyed_before && argument.key.is_none() {
                return Err((argument.value.span(), ExpressionProblem::PositionalAfterKey));
            }
            arguments.push(argument);
            match next.kind {
                TokenKind::Comma => {}
                TokenKind::Close => break next.span.end,
                TokenKind::End => return Err((open, ExpressionProblem::UnclosedCall)),
                _ => return Err(unexpected(&next, "`,` or `)`")),
            }
        };
        self.depth -= 1;
        let span = Span {
            start: name.span.start,
            end,
        };
        Ok(Call {
            name,
            arguments,
            span,
        })
    }

    fn argument(&mut self, first: Token, open: Span) -> Parsed<(Argument, Token)> {
        let (key, first) = match first.kind {
            TokenKind::Key(text) => {
                let key = Key {
                    text,
                    span: first.span,
                };
                (Some(key), self.tokens.next()?)
            }
            _ => (None, first),
        };
        if first.kind == TokenKind::End {
            return Err((open, ExpressionProblem::UnclosedCall));
        }
        let (value, next) = self.value(first, "an argument")?;
        Ok((Argument { key, value }, next))
    }
}

fn unexpected(token: &Token, expected: &'static str) -> (Span, ExpressionProblem) {
    let found = match &token.kind {
        TokenKind::Word { text, .. } => format!("`{}`", shortened(text)),
        TokenKind::Key(text) => format!("`{}=`", shortened(text)),
        TokenKind::Open => "`(`".to_owned(),
        TokenKind::Close => "`)`".to_owned(),
        TokenKind::Comma => "`,`".to_owned(),
        TokenKind::End => "nothing more".to_owned(),
    };
    (
        token.span,
        ExpressionProblem::Unexpected { found, expected },
    )
}

fn shortened(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
