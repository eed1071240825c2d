//! Tests of the expression language: [`grammar`] of its form, [`meaning`] of its names, [`absolute`] paths, [`arrays`], [`sizes`],
//! [`times`], [`volumes`].

mod absolute;
mod arrays;
mod grammar;
mod names;
mod outline;
mod sizes;
mod times;
mod volumes;

use super::ExpressionError;
use super::error::ExpressionProblem;

/// What the error's caret line marks in the text.
fn marked(error: &ExpressionError) -> &str {
    let mark = &error.mark;
    &mark.text[mark.span.start..mark.span.end]
}

/// The problem of `text`, and what it marks.
fn problem_of(text: &str) -> (ExpressionProblem, String) {
    match super::resolve(text) {
        Ok(disk) => panic!("{text} was taken as {disk:?}"),
        Err(error) => (error.problem.clone(), marked(&error).to_owned()),
    }
}

/// Each text is refused where it is marked, with a message that says so.
fn refused_there(cases: &[(&str, &str, &str)]) {
    for (text, place, message) in cases {
        let (problem, marked) = problem_of(text);
        assert_eq!(marked, *place, "{text}");
        assert!(problem.to_string().contains(message), "{text}: {problem}");
    }
}
