//! The one line of a program's output that is reported.

/// The last line with something in it.
pub(crate) fn last_line(said: &str) -> Option<&str> {
    said.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn empty_lines_at_the_end_say_nothing() {
        assert_eq!(last_line("a\n  why \n\n \n"), Some("why"));
        assert_eq!(last_line(" \n"), None);
    }
}
