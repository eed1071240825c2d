//! What `{NAME}` refers to in a plan's expressions: an image's path, a half's URI, a target's device.

use std::path::Path;

use lab::host::TargetPlace;
use lab::runner::BuildContext;
use lab::tools::quoted;

/// The table of names.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<(String, String)>);

impl Names {
    /// The devices and exports of the targets that were built before.
    pub(super) fn of(context: &BuildContext<'_>) -> Self {
        let mut names = Self::default();
        for (name, built) in context.built {
            match &built.spec.place {
                TargetPlace::Device(path) => names.set_path(name, path),
                TargetPlace::Uri(uri) => names.set(name, uri),
                TargetPlace::Directory(_) | TargetPlace::There { .. } => {}
            }
        }
        names
    }

    /// Sets what `name` refers to from now on.
    pub(super) fn set(&mut self, name: &str, text: &str) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), text.to_owned()));
    }

    /// The same for a path.
    pub fn set_path(&mut self, name: &str, path: &Path) {
        self.set(name, &path.to_string_lossy());
    }

    /// An expression with its names replaced, each quoted as expressions want it.
    #[must_use]
    pub fn expression(&self, text: &str) -> String {
        self.replaced(text, &quoted)
    }

    /// A plain word with its names replaced.
    pub(super) fn word(&self, text: &str) -> String {
        self.replaced(text, &str::to_owned)
    }

    /// The same for several.
    pub(super) fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.word(word)).collect()
    }

    fn replaced(&self, text: &str, write: &dyn Fn(&str) -> String) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.0 {
            out = out.replace(&format!("{{{name}}}"), &write(value));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_quoted_only_where_a_word_needs_it() {
        let mut names = Names::default();
        names.set_path("a", Path::new("/tmp/x/a.img"));
        names.set_path("b", Path::new("/tmp/it's (b).img"));
        assert_eq!(
            names.expression("array({a}, {b}, {c})"),
            "array(/tmp/x/a.img, '/tmp/it''s (b).img', {c})"
        );
        assert_eq!(names.word("{b}"), "/tmp/it's (b).img");
    }
}
