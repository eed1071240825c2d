//! The arguments of `volume(PV, …, name=GROUP/VOLUME)`. Pure.

use super::arguments::{ArgumentResult, Arguments};
use super::disk::{Disk, Volume};
use super::error::ExpressionProblem;
use super::syntax::{Expression, Span, Word};

/// What to do with a group that belongs to another system.
const OWNERS: [&str; 1] = ["ignore"];

/// The volume that is wanted, and the disks that it is on; `disk` gives a disk its meaning.
pub(super) fn volume(
    arguments: &mut Arguments<'_>,
    span: Span,
    disk: impl Fn(&Expression) -> ArgumentResult<Disk>,
) -> ArgumentResult<Volume> {
    let mut expressions = arguments.disks("PV")?;
    let word = match arguments.keyed_word("name", "GROUP/VOLUME")? {
        Some(word) => word,
        // The name may come first, as in `volume(vg0/media, a.img)`.
        None => match expressions.remove(0) {
            Expression::Word(word) if is_name(&word.text) && !expressions.is_empty() => word,
            _ => return Err(arguments.missing("name=GROUP/VOLUME")),
        },
    };
    let (group, name) = parse(word)?;
    let named = |one: &&Expression| match one {
        Expression::Word(word) => word.text.clone(),
        Expression::Call(_) => one.to_string(),
    };
    let disks = expressions.iter().map(|one| disk(one));
    Ok(Volume {
        disks: disks.collect::<Result<_, _>>()?,
        names: expressions.iter().map(named).collect(),
        spans: expressions.iter().map(|one| one.span()).collect(),
        group,
        name,
        name_span: word.span,
        system_id: arguments
            .keyed_word("system-id", "a system id")?
            .map(|word| word.text.clone()),
        force: arguments.switch("force")?,
        ignore_owner: arguments.choice("owner", &OWNERS)?.is_some(),
        span,
    })
}

/// Whether a word in front of the disks can be the name of a volume with its group.
fn is_name(text: &str) -> bool {
    !text.starts_with(['/', '.']) && text.split('/').count() == 2
}

/// The name of the group, if it is written, and that of the volume.
fn parse(word: &Word) -> ArgumentResult<(Option<String>, String)> {
    let parts: Vec<&str> = word.text.split('/').collect();
    if parts.iter().all(|part| !part.is_empty()) {
        match parts.as_slice() {
            [volume] => return Ok((None, (*volume).to_owned())),
            [group, volume] => return Ok((Some((*group).to_owned()), (*volume).to_owned())),
            _ => {}
        }
    }
    let found = word.text.clone();
    Err((word.span, ExpressionProblem::NotAVolume { found }))
}
