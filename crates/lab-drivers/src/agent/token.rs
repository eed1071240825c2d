//! The token: read from its file, or made; compared in constant time.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use lab::agent::Token;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::DriverError;

/// Random bytes of a token that is made here.
const BYTES: usize = 24;

/// What requests must show.
pub struct ServerToken {
    /// Drawn at each start: what is compared is no function of the token alone.
    key: hmac::Key,
    tag: hmac::Tag,
    /// The token, if it was made here and is in no file.
    made: Option<String>,
}

impl fmt::Debug for ServerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerToken(…)")
    }
}

impl ServerToken {
    /// That of a file, which is made if it is not there; without a file, a new one.
    ///
    /// # Errors
    /// The file cannot be read, made, or holds no token.
    pub fn of(file: Option<&Path>) -> Result<Self, DriverError> {
        match file {
            None => {
                let made = random()?;
                let mut token = Self::new(&made)?;
                token.made = Some(made);
                Ok(token)
            }
            Some(path) => Self::new(read_or_make(path)?.reveal()),
        }
    }

    fn new(text: &str) -> Result<Self, DriverError> {
        let failed = |_| DriverError::new("this machine gives no random numbers");
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(failed)?;
        let tag = hmac::sign(&key, text.as_bytes());
        Ok(Self {
            key,
            tag,
            made: None,
        })
    }

    /// The token that was made and is in no file.
    #[must_use]
    pub fn made(&self) -> Option<&str> {
        self.made.as_deref()
    }

    /// Whether `shown` is the token.
    pub fn is(&self, shown: &[u8]) -> bool {
        shown.len() <= Token::LEN_MAX && hmac::verify(&self.key, shown, self.tag.as_ref()).is_ok()
    }
}

/// An unguessable token, in hexadecimal digits.
///
/// # Errors
/// The machine gives no random numbers.
pub fn random() -> Result<String, DriverError> {
    random_hex::<BYTES>()
}

/// So many random bytes in hexadecimal digits.
pub(crate) fn random_hex<const LEN: usize>() -> Result<String, DriverError> {
    let mut bytes = [0; LEN];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| DriverError::new("this machine gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The token of a file; what cannot be one is refused.
///
/// # Errors
/// It cannot be read or holds no token.
pub fn read(path: &Path) -> Result<Token, DriverError> {
    let what = || format!("cannot read the token in {}", path.display());
    let text = text_of(path).map_err(|error| DriverError::because(what(), error))?;
    Token::new(text.trim()).ok_or_else(|| {
        let (least, most) = (Token::LEN_MIN, Token::LEN_MAX);
        DriverError::new(format!("{} holds no token", path.display())).next(format!(
            "one line of {least} to {most} letters and digits; `outboard agent --token-file` makes one"
        ))
    })
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).open(path)?;
    let most = Token::LEN_MAX as u64 + 2;
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}

fn read_or_make(path: &Path) -> Result<Token, DriverError> {
    let made = random()?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{made}"));
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            let what = format!("cannot write the token to {}", path.display());
            return Err(DriverError::because(what, error));
        }
        Ok(()) => {}
    }
    let mode = std::fs::metadata(path).map(|found| found.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o077 != 0) {
        let what = format!(
            "others of this machine can read the token in {}",
            path.display()
        );
        return Err(DriverError::new(what).next(format!("chmod 600 {}", path.display())));
    }
    read(path)
}

#[cfg(test)]
mod tests {
    //! Tests of tokens and their files.

    use std::fs;

    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = ServerToken::new("abcdefghijklmnop").expect("random numbers");
        assert!(token.is(b"abcdefghijklmnop"));
        for wrong in [
            "",
            "abcdefghijklmno",
            "abcdefghijklmnopq",
            "abcdefghijklmnoP",
        ] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(!token.is(&[b'a'; 10_000]));
    }

    #[test]
    fn a_file_that_is_not_there_is_made_for_its_owner_alone_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let first = ServerToken::of(Some(&path)).expect("a token");
        assert_eq!(first.made(), None);
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).expect("the file");
        assert!(first.is(text.trim().as_bytes()));
        let again = ServerToken::of(Some(&path)).expect("the token");
        assert!(again.is(text.trim().as_bytes()));
    }

    #[test]
    fn a_file_that_others_can_read_or_that_holds_no_token_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        for (text, mode, told) in [
            ("abcdefghijklmnopqrst\n", 0o644, "chmod 600"),
            ("short\n", 0o600, "holds no token"),
            (
                "with blanks in it and long enough\n",
                0o600,
                "holds no token",
            ),
        ] {
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let failure = ServerToken::of(Some(&path)).expect_err("it is refused");
            assert!(failure.to_string().contains(told), "{failure}");
        }
    }
}
