//! The grammar: what reads as what, and where errors point.

use proptest::prelude::*;

use super::{marked, problem_of};
use crate::graph::error::ExpressionProblem;
use crate::graph::parse::parse_named;
use crate::graph::resolve;
use crate::graph::syntax::{Argument, Call, Expression, Key, Named, Span, Word};

fn word(text: &str) -> Expression {
    let text = text.to_owned();
    Expression::Word(Word {
        text,
        span: Span::default(),
    })
}

fn call(name: &str, arguments: Vec<Argument>) -> Expression {
    let span = Span::default();
    let name = Word {
        text: name.to_owned(),
        span,
    };
    Expression::Call(Call {
        name,
        arguments,
        span,
    })
}

fn argument(key: Option<&str>, value: Expression) -> Argument {
    let key = key.map(|text| Key {
        text: text.to_owned(),
        span: Span::default(),
    });
    Argument { key, value }
}

fn named(name: Option<&str>, disk: Expression) -> Named {
    let name = name.map(|text| Key {
        text: text.to_owned(),
        span: Span::default(),
    });
    Named { name, disk }
}

/// The same without places, to compare with what the functions above make.
fn without_spans(expression: Expression) -> Expression {
    match expression {
        Expression::Word(w) => word(&w.text),
        Expression::Call(c) => {
            let arguments = c.arguments.into_iter().map(|a| {
                let key = a.key.map(|key| key.text);
                argument(key.as_deref(), without_spans(a.value))
            });
            call(&c.name.text, arguments.collect())
        }
    }
}

fn parsed(text: &str) -> Named {
    let found = parse_named(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let name = found.name.map(|name| name.text);
    named(name.as_deref(), without_spans(found.disk))
}

#[test]
fn a_plain_path_is_a_path_with_or_without_a_name() {
    assert_eq!(parsed("/srv/a.img"), named(None, word("/srv/a.img")));
    assert_eq!(parsed("a.img"), named(None, word("a.img")));
    assert_eq!(
        parsed("media=/srv/a.img"),
        named(Some("media"), word("/srv/a.img"))
    );
    assert_eq!(parsed("media=a.img"), named(Some("media"), word("a.img")));
    assert_eq!(
        parsed("'vg0/media'=a.img"),
        named(Some("vg0/media"), word("a.img"))
    );
}

#[test]
fn a_path_that_begins_with_a_slash_or_a_point_needs_no_quotes() {
    let path = "/srv/my disk (1), old='x'.img";
    assert_eq!(parsed(path), named(None, word(path)));
    assert_eq!(parsed(&format!("m={path}")), named(Some("m"), word(path)));
    assert_eq!(parsed("./a=b c"), named(None, word("./a=b c")));
    assert_eq!(parsed("../a b"), named(None, word("../a b")));
}

#[test]
fn the_equals_sign_of_a_uri_belongs_to_the_uri() {
    let uri = "nbd+unix:///media?socket=/run/o.sock";
    assert_eq!(parsed(uri), named(None, word(uri)));
    assert_eq!(parsed(&format!("m={uri}")), named(Some("m"), word(uri)));
    let inside = parsed(&format!("array(a.img, {uri})"));
    let members = vec![argument(None, word("a.img")), argument(None, word(uri))];
    assert_eq!(inside, named(None, call("array", members)));
}

#[test]
fn calls_nest_and_take_keyed_arguments() {
    let text = "photos=delay( overlay(/srv/golden.img,'to day.cow',), read=2ms, write=5ms )";
    let overlay = call(
        "overlay",
        vec![
            argument(None, word("/srv/golden.img")),
            argument(None, word("to day.cow")),
        ],
    );
    let delay = call(
        "delay",
        vec![
            argument(None, overlay),
            argument(Some("read"), word("2ms")),
            argument(Some("write"), word("5ms")),
        ],
    );
    assert_eq!(parsed(text), named(Some("photos"), delay));
}

#[test]
fn a_quote_inside_quotes_is_written_twice() {
    assert_eq!(parsed("'it''s'"), named(None, word("it's")));
    assert_eq!(
        parsed("\"say \"\"no\"\"\""),
        named(None, word("say \"no\""))
    );
    assert_eq!(parsed("\"it's\""), named(None, word("it's")));
}

#[test]
fn every_disk_of_the_design_reads() {
    let disks = [
        "memory(1G)",
        "null(1G)",
        "partition(/dev/sda, 2)",
        "linear(a, b)",
        "stripe(a, b, chunk=64K)",
        "array(/dev/sda2, nbd://backup.lan/photos)",
        "volume(a, b, name=vg0/media)",
        "overlay(golden.img, today.cow)",
        "nbd://[::1]:10810/media",
        "nbd+unix:///media?socket=/run/outboard.sock",
        "nbd://a,b:10810,[::1]/media?fenced-after=30",
        "dm(table.txt)",
        "delay(/dev/sda, read=2ms, write=5ms)",
        "remote(nbd://h/e, connections=2, timeout=10s, read-ahead=1M)",
        "fault(memory(1M), rate=0.1)",
        "throttle(memory(1M), bytes=10M)",
    ];
    for text in disks {
        let found = parse_named(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let span = found.disk.span();
        assert_eq!((span.start, span.end), (0, text.len()), "{text}");
    }
}

#[test]
fn a_comma_between_servers_belongs_to_the_uri_and_every_other_one_ends_it() {
    for (text, expected) in [
        ("array(nbd://a,b/x,c)", &["nbd://a,b/x", "c"][..]),
        (
            "array(nbd://a,b:1,[::1]/x, c)",
            &["nbd://a,b:1,[::1]/x", "c"],
        ),
        ("array(NBDS://a,b/,c)", &["NBDS://a,b/", "c"]),
        ("array(nbd://a/x,b/y)", &["nbd://a/x", "b/y"]),
        ("array(nbd://a,b)", &["nbd://a", "b"]),
        ("array(nbd://a, b/x)", &["nbd://a", "b/x"]),
        ("array(nbd://a,/b)", &["nbd://a", "/b"]),
        ("array(nbd://a,./b)", &["nbd://a", "./b"]),
        ("array(nbd://a,../b)", &["nbd://a", "../b"]),
        ("array(nbd://a,nbd://b/x)", &["nbd://a", "nbd://b/x"]),
        ("array(a,nbd://b/x)", &["a", "nbd://b/x"]),
        ("array(srv://a,b/x)", &["srv://a", "b/x"]),
    ] {
        let words = expected.iter().map(|text| argument(None, word(text)));
        let expected = named(None, call("array", words.collect()));
        assert_eq!(parsed(text), expected, "{text}");
    }
    assert_eq!(
        parsed("r=nbd://a,b/x"),
        named(Some("r"), word("nbd://a,b/x"))
    );
}

#[test]
fn an_error_points_at_the_character_and_says_what_belongs_there() {
    let cases = [
        ("array(a b)", "b", "expected `,` or `)`, found `b`"),
        ("array(a, b", "(", "this `(` is never closed"),
        ("array(", "(", "this `(` is never closed"),
        ("array(a, k=", "(", "this `(` is never closed"),
        ("array(a))", ")", "expected the end of the disk, found `)`"),
        ("a b", "b", "quote a path that has blanks"),
        ("media='/srv/a", "'", "this ' is never closed"),
        ("", "", "expected a disk, found nothing more"),
        ("media=", "", "expected a disk, found nothing more"),
        ("array(,a)", ",", "expected an argument, found `,`"),
        ("array(k=1, a)", "a", "comes before those with one"),
        ("array(k=l=1)", "l", "expected an argument, found `l=`"),
        ("a=b=c", "b", "expected a disk, found `b=`"),
        ("'array'(a)", "'array'", "`(` may only follow a name"),
        (
            "vg0/media=volume(a)",
            "vg0/media=volume",
            "`(` may only follow a name",
        ),
        ("array('')", "''", "found empty quotes"),
        (
            "médias=größe(a b)",
            "b",
            "character 16: expected `,` or `)`",
        ),
    ];
    for (text, place, message) in cases {
        let error = parse_named(text).expect_err(text);
        assert_eq!(marked(&error), place, "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn the_carets_stand_below_the_place() {
    let error = parse_named("photos=array(/dev/sda2 nbd://b)").expect_err("no comma");
    let picture = "  photos=array(/dev/sda2 nbd://b)\n                         ^^^^^^^";
    assert_eq!(error.mark.picture(), picture);
    let error = parse_named("m=").expect_err("no disk");
    assert_eq!(error.mark.picture(), "  m=\n    ^");
}

#[test]
fn a_long_text_is_shown_around_the_place() {
    let text = format!("array({}, b c, {})", "a".repeat(500), "d".repeat(500));
    let picture = parse_named(&text).expect_err("no comma").mark.picture();
    let lines: Vec<&str> = picture.lines().collect();
    assert!(
        lines.iter().all(|line| line.chars().count() < 130),
        "{picture}"
    );
    let place = lines[1].find('^').expect("carets");
    assert_eq!(lines[0].chars().nth(place), Some('c'), "{picture}");
}

#[test]
fn nesting_and_length_are_bounded() {
    let deep = |depth: usize| format!("{}a{}", "linear(".repeat(depth), ")".repeat(depth));
    assert!(parse_named(&deep(64)).is_ok());
    assert_eq!(
        problem_of(&deep(65)).0,
        ExpressionProblem::TooDeep { max: 64 }
    );
    let (problem, _) = problem_of(&"a".repeat(64 * 1024 + 1));
    assert_eq!(problem, ExpressionProblem::TooLong { max: 64 * 1024 });
}

fn any_expression() -> impl Strategy<Value = Expression> {
    let text = prop_oneof!["[a-z0-9/.:?=_-]{1,12}", "\\PC{1,12}", "[ '\"(),=\n]{1,4}"];
    let leaf = text.prop_map(|text| word(&text));
    leaf.prop_recursive(5, 40, 4, |inner| {
        let keyed = ("[a-z][a-z0-9_-]{0,6}|[a/ ]{1,3}", inner.clone());
        let positional = prop::collection::vec(inner, 0..4);
        let keyed = prop::collection::vec(keyed, 0..3);
        ("[a-z_][a-z0-9_-]{0,8}", positional, keyed).prop_map(|(name, positional, keyed)| {
            let positional = positional.into_iter().map(|value| argument(None, value));
            let keyed = keyed
                .into_iter()
                .map(|(key, value)| argument(Some(&key), value));
            call(&name, positional.chain(keyed).collect())
        })
    })
}

/// Texts that look like expressions, and texts that do not.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        Just("array(".to_owned()),
        Just("memory(1G)".to_owned()),
        Just("nbd://h/e".to_owned()),
        Just("nbd://a,b/e".to_owned()),
        Just("file(a, direct=true)".to_owned()),
        Just("linear(".to_owned()),
        Just("fault(a, rate=".to_owned()),
        Just("delay(a, read=".to_owned()),
        "[0-9.]{1,8}[%a-zA-Z]{0,2}",
        "[(),='\" ]",
        "\\PC{0,3}",
        "[a-z0-9]{1,4}",
    ];
    let built = prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat());
    prop_oneof![built, any::<String>()]
}

proptest! {
    #[test]
    fn writing_out_and_parsing_gives_the_same(
        name in prop::option::of("[a-z0-9_.+-]{1,8}|\\PC{1,8}"),
        disk in any_expression(),
    ) {
        let whole = named(name.as_deref(), disk);
        prop_assert_eq!(&parsed(&whole.to_string()), &whole);
    }

    #[test]
    fn no_text_panics_and_errors_lie_within_it(text in any_text()) {
        if let Err(error) = resolve(&text) {
            let span = error.mark.span;
            prop_assert!(span.start <= span.end && span.end <= text.len());
            prop_assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
            prop_assert!(error.mark.column() <= text.chars().count() + 1);
            prop_assert!(error.mark.picture().contains('^'));
            prop_assert!(!error.to_string().contains('\n'), "{}", error);
        }
    }
}
