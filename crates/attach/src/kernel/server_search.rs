//! [`ServerSearch`]: which servers of one disk are dialed when no connection to it is left. Pure.
//!
//! All of them are dialed at once, each with a head start over the next one, so that a server that is silent costs no timeout. One that
//! answered and may not be used is left out, and the others are dialed again.

use super::KernelError;

/// A search for a server that has the disk.
#[derive(Debug)]
pub(super) struct ServerSearch {
    /// Those to dial, each as a URI of its own, in order.
    left: Vec<String>,
    /// Why others are not used.
    failures: Vec<KernelError>,
}

impl ServerSearch {
    pub(super) const fn new(servers: Vec<String>) -> Self {
        Self {
            left: servers,
            failures: Vec::new(),
        }
    }

    /// The servers to dial next, all at once.
    pub(super) fn left(&self) -> &[String] {
        &self.left
    }

    /// `server` has answered, and may not be used.
    pub(super) fn refuse(&mut self, server: &str, why: KernelError) {
        self.left.retain(|one| one != server);
        self.failures.push(why);
    }

    /// Why others are not used.
    pub(super) fn failures(&self) -> &[KernelError] {
        &self.failures
    }

    /// None of those that are left has answered.
    pub(super) fn fail(mut self, why: KernelError) -> KernelError {
        self.failures.push(why);
        self.into_error()
    }

    /// The error where each was refused: [`KernelError::AnotherDisk`] only where that is true of all of them, as another one may return
    /// with the disk.
    pub(super) fn into_error(self) -> KernelError {
        let mut all: Vec<[String; 2]> = Vec::new();
        let mut disk = None;
        for failure in &self.failures {
            match failure {
                KernelError::Fenced(why) => return KernelError::Fenced(why.clone()),
                KernelError::AnotherDisk {
                    uri,
                    expected,
                    found,
                } => {
                    disk = Some(expected.clone());
                    all.push([uri.clone(), found.clone()]);
                }
                _ => {}
            }
        }
        let join = |at: usize| {
            let words: Vec<&str> = all.iter().map(|one| one[at].as_str()).collect();
            words.join(", ")
        };
        match disk {
            Some(expected) if all.len() == self.failures.len() => KernelError::AnotherDisk {
                uri: join(0),
                expected,
                found: join(1),
            },
            _ => {
                let texts: Vec<String> = self.failures.iter().map(ToString::to_string).collect();
                KernelError::Server(texts.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: [&str; 2] = ["nbd://a/root", "nbd://b/root"];

    fn search() -> ServerSearch {
        ServerSearch::new(SERVERS.map(str::to_owned).to_vec())
    }

    fn another(uri: &str, found: &str) -> KernelError {
        KernelError::AnotherDisk {
            uri: uri.to_owned(),
            expected: "one".to_owned(),
            found: found.to_owned(),
        }
    }

    #[test]
    fn all_are_dialed_at_once_and_the_others_after_one_was_refused() {
        let mut search = search();
        assert_eq!(search.left(), SERVERS);
        search.refuse("nbd://a/root", another("nbd://a/root", "two"));
        assert_eq!(search.left(), ["nbd://b/root"]);
    }

    /// All servers had another disk, and the device waited for one that had its own for ever: only the texts of the errors were kept.
    #[test]
    fn another_disk_on_every_server_is_final() {
        let mut search = search();
        search.refuse(SERVERS[0], another(SERVERS[0], "two"));
        search.refuse(SERVERS[1], another(SERVERS[1], "three"));
        assert!(search.left().is_empty());
        let error = search.into_error();
        assert!(error.is_final());
        let text =
            "another disk is behind nbd://a/root, nbd://b/root: expected one, found two, three";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn another_disk_on_one_server_is_not_final_while_the_other_one_may_return() {
        let mut search = search();
        search.refuse(SERVERS[0], another(SERVERS[0], "two"));
        let error = search.fail(KernelError::Server("b: connection refused".into()));
        assert!(!error.is_final());
        let text =
            "another disk is behind nbd://a/root: expected one, found two; b: connection refused";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_fence_is_final_even_if_another_server_is_unreachable() {
        let mut search = search();
        search.refuse(SERVERS[0], KernelError::Server("a: smaller".into()));
        let error = search.fail(KernelError::Fenced("another writer".into()));
        assert!(matches!(&error, KernelError::Fenced(why) if why == "another writer"));
    }
}
