//! [`ImageName`]: an image of Ceph, as its own programs write it. Pure.

use std::fmt;
use std::str::FromStr;

/// `POOL/[NAMESPACE/]IMAGE[@SNAPSHOT]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The pool.
    pub pool: String,
    /// The namespace in the pool, if it is not the default one.
    pub namespace: Option<String>,
    /// The image.
    pub image: String,
    /// A snapshot of it.
    pub snapshot: Option<String>,
}

/// A text that names no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected POOL/IMAGE, POOL/NAMESPACE/IMAGE, or one of them with @SNAPSHOT behind it")]
pub struct NotAnImageName;

impl FromStr for ImageName {
    type Err = NotAnImageName;

    fn from_str(text: &str) -> Result<Self, NotAnImageName> {
        let (path, snapshot) = match text.split_once('@') {
            Some((path, snapshot)) => (path, Some(snapshot)),
            None => (text, None),
        };
        let words: Vec<&str> = path.split('/').collect();
        let (pool, namespace, image) = match *words.as_slice() {
            [pool, image] => (pool, None, image),
            [pool, namespace, image] => (pool, Some(namespace), image),
            _ => return Err(NotAnImageName),
        };
        // A zero cannot be handed to the library, and the rest has a meaning of its own.
        let is_name = |word: &&str| !word.is_empty() && !word.contains(['@', '/', '\0']);
        let all = [Some(pool), namespace, Some(image), snapshot];
        if !all.iter().flatten().all(is_name) {
            return Err(NotAnImageName);
        }
        Ok(Self {
            pool: pool.to_owned(),
            namespace: namespace.map(str::to_owned),
            image: image.to_owned(),
            snapshot: snapshot.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.image)?;
        match &self.snapshot {
            Some(snapshot) => write!(f, "@{snapshot}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_as_ceph_does() {
        for text in ["rbd/one", "rbd/one@now", "vms/team/root", "vms/team/root@a"] {
            let name: ImageName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        let name: ImageName = "vms/team/root@a".parse().unwrap();
        assert_eq!(name.namespace.as_deref(), Some("team"));
        assert_eq!((name.pool.as_str(), name.image.as_str()), ("vms", "root"));
        assert_eq!(name.snapshot.as_deref(), Some("a"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "one",
            "/one",
            "rbd/",
            "rbd//one",
            "a/b/c/d",
            "rbd/one@",
            "rbd/one@a@b",
            "rbd/one@a/b",
            "r\0/one",
        ] {
            assert_eq!(text.parse::<ImageName>(), Err(NotAnImageName), "{text:?}");
        }
    }
}
