//! The consoles of a page: its code blocks that show a prompt, with the comment that stands before each.
//!
//! A line that begins with `$ `, `HOST$ ` or `# outboard ` is a command; it goes on over the lines below it while a quote is open
//! or a line ends with `\`. What follows up to the next prompt is the output that the page shows.

/// A code block with at least one prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Console {
    /// Line of its first prompt, counted from 1.
    pub(crate) line: usize,
    pub(crate) mark: Mark,
    pub(crate) steps: Vec<Step>,
}

/// A command and what the page shows of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Name before the prompt; empty where there is none.
    pub(crate) host: String,
    pub(crate) command: String,
    pub(crate) shown: String,
}

/// What the comment before a console says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `<!-- session NAME KEY=VALUE… -->`, with commands that run first on lines of their own.
    Session(SessionMark),
    /// `<!-- not run: REASON -->`.
    NotRun(String),
    /// No such comment: a session of its own.
    Unmarked,
}

/// A session: consoles of one page with the same name share hosts, folders and servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SessionMark {
    pub(crate) name: String,
    /// `needs=fuse,COMMAND…`: what this machine must have.
    pub(crate) needs: Vec<String>,
    /// `in=FOLDER`: where commands run; `/srv` unless given.
    pub(crate) folder: Option<String>,
    /// `names=NAME,…`: names of the first host, its own name first.
    pub(crate) names: Vec<String>,
    /// `times=compared`: durations are compared, within wide factors.
    pub(crate) compares_times: bool,
    /// `sizes=any`: sizes with a blank before their unit are not compared, where a filesystem decides them.
    pub(crate) any_sizes: bool,
    /// `rows=any-order`: lines of an output are in no order that a page could show.
    pub(crate) any_order: bool,
    /// `replace=TEXT:TEXT`: what is written otherwise in commands and output, to have less to copy.
    pub(crate) replace: Option<(String, String)>,
    /// Commands that run before the console, with or without `HOST$ `.
    pub(crate) before: Vec<Step>,
}

/// A code block: the line of its first line, counted from 1, and its lines without the indentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
    comment: Option<String>,
}

/// Every console of a page, or what is wrong with it.
pub(crate) fn consoles(page: &str) -> Result<Vec<Console>, String> {
    code_blocks(page)
        .into_iter()
        .filter(|block| block.lines.iter().any(|line| prompt(line).is_some()))
        .map(|block| console(&block))
        .collect()
}

/// Every code block of a page, indented or fenced.
pub(crate) fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let fenced = lines[at].starts_with("```");
        let starts = fenced || (is_indented(lines[at]) && (at == 0 || lines[at - 1].is_empty()));
        if !starts {
            at += 1;
            continue;
        }
        let first = at + usize::from(fenced);
        let inside = |line: &&&str| match fenced {
            true => !line.starts_with("```"),
            false => is_indented(line) || line.is_empty(),
        };
        let count = lines[first..].iter().take_while(inside).count();
        let mut body: Vec<String> = lines[first..first + count]
            .iter()
            .map(|line| {
                if fenced {
                    line
                } else {
                    line.get(4..).unwrap_or("")
                }
                .to_owned()
            })
            .collect();
        while body.last().is_some_and(String::is_empty) {
            body.pop();
        }
        found.push(CodeBlock {
            line: first + 1,
            lines: body,
            comment: comment_before(&lines[..at]),
        });
        at = first + count + usize::from(fenced);
    }
    found
}

fn is_indented(line: &str) -> bool {
    line.starts_with("    ") && !line.trim().is_empty()
}

/// The text of the HTML comment that ends right before a block, blank lines aside.
fn comment_before(above: &[&str]) -> Option<String> {
    let last = above.iter().rposition(|line| !line.is_empty())?;
    let text = above[..=last].join("\n");
    let text = text.strip_suffix("-->")?;
    let (_, comment) = text.rsplit_once("<!--")?;
    Some(comment.trim().to_owned())
}

fn console(block: &CodeBlock) -> Result<Console, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in (block.line..).zip(&block.lines) {
        let open = steps
            .last()
            .is_some_and(|step| step.shown.is_empty() && continues(&step.command));
        match (prompt(line), steps.last_mut()) {
            (_, Some(step)) if open => step.command = format!("{}\n{line}", step.command),
            (Some((host, command)), _) => steps.push(Step {
                line: number,
                host: host.to_owned(),
                command: command.to_owned(),
                shown: String::new(),
            }),
            (None, Some(step)) => step.shown += &format!("{line}\n"),
            (None, None) => return Err(format!("line {number}: output before the first prompt")),
        }
    }
    let line = steps.first().map_or(block.line, |step| step.line);
    let mark = match &block.comment {
        Some(comment) => mark(comment).map_err(|e| format!("line {line}: {e}"))?,
        None => Mark::Unmarked,
    };
    Ok(Console { line, mark, steps })
}

/// The host and the command of a line with a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    if let Some(command) = line.strip_prefix("# ") {
        return command.starts_with("outboard ").then_some(("", command));
    }
    let (host, command) = line.split_once("$ ")?;
    let is_name = host
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_name.then(|| (host, command.trim_start()))
}

/// Whether a shell would ask for more.
fn continues(command: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for c in command.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    escaped || quote.is_some()
}

fn mark(comment: &str) -> Result<Mark, String> {
    if let Some(reason) = comment.strip_prefix("not run:") {
        let reason = reason.trim();
        return match reason.is_empty() {
            true => Err("`not run:` without a reason".to_owned()),
            false => Ok(Mark::NotRun(reason.to_owned())),
        };
    }
    let Some(rest) = comment.strip_prefix("session ") else {
        return Ok(Mark::Unmarked);
    };
    let mut lines = rest.lines();
    let mut words = lines.next().unwrap_or_default().split_whitespace();
    let mut session = SessionMark {
        name: words.next().ok_or("`session` without a name")?.to_owned(),
        ..SessionMark::default()
    };
    let list = |value: &str| value.split(',').map(str::to_owned).collect();
    for word in words {
        match word.split_once('=') {
            Some(("needs", value)) => session.needs = list(value),
            Some(("in", value)) => session.folder = Some(value.to_owned()),
            Some(("names", value)) => session.names = list(value),
            Some(("times", "compared")) => session.compares_times = true,
            Some(("rows", "any-order")) => session.any_order = true,
            Some(("sizes", "any")) => session.any_sizes = true,
            Some(("replace", value)) => {
                let pair = value.split_once(':').ok_or("`replace=` takes TEXT:TEXT")?;
                session.replace = Some((pair.0.to_owned(), pair.1.to_owned()));
            }
            _ => return Err(format!("`{word}` is not known in a session's comment")),
        }
    }
    session.before = lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (host, command) = prompt(line).unwrap_or(("", line));
            Step {
                line: 0,
                host: host.to_owned(),
                command: command.to_owned(),
                shown: String::new(),
            }
        })
        .collect();
    Ok(Mark::Session(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_has_its_commands_with_what_is_shown_of_each_and_its_comment() {
        let page = "Text.\n\n<!-- session a needs=fuse\nnas$ truncate -s 1M x\n-->\n\n    \
                    nas$ one 'a\n      b'\n    out\n\n    more\n    $ two\n\nText.\n\n    no console\n";
        let found = consoles(page).unwrap();
        assert_eq!(found.len(), 1);
        let steps = &found[0].steps;
        assert_eq!((steps[0].line, &*steps[0].host), (7, "nas"));
        assert_eq!(steps[0].command, "one 'a\n  b'");
        assert_eq!(steps[0].shown, "out\n\nmore\n");
        assert_eq!((&*steps[1].command, &*steps[1].shown), ("two", ""));
        let Mark::Session(mark) = &found[0].mark else {
            panic!("{:?}", found[0].mark);
        };
        assert_eq!(
            (&*mark.name, &mark.needs[..]),
            ("a", &["fuse".to_owned()][..])
        );
        assert_eq!(mark.before[0].command, "truncate -s 1M x");
    }

    #[test]
    fn a_slip_in_a_comment_and_a_missing_reason_are_errors() {
        let error =
            |comment: &str| consoles(&format!("<!-- {comment} -->\n\n    $ ls\n")).unwrap_err();
        assert_eq!(error("not run:"), "line 3: `not run:` without a reason");
        assert_eq!(
            error("session a need=fuse"),
            "line 3: `need=fuse` is not known in a session's comment"
        );
    }

    #[test]
    fn a_comment_about_something_else_marks_nothing() {
        let found = consoles("<!-- a remark -->\n\n```\n$ ls\n```\n").unwrap();
        assert_eq!((&found[0].mark, found[0].line), (&Mark::Unmarked, 4));
    }
}
