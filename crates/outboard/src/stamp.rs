//! What the metadata of a volume group say about their writing.

use nodes::volume::edit::EditStamp;

/// What a text says about its writing: now, here, by this command.
pub(crate) fn stamp() -> EditStamp {
    let now = engine::clock::wall().duration_since(std::time::UNIX_EPOCH);
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    EditStamp {
        seconds: now.map_or(0, |now| now.as_secs()),
        host: host(),
        description: format!("Write from outboard {}.", words.join(" ")),
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}
