//! The arguments of `array(MEMBER, …)`. Pure.

use nodes::array::Raid0Layout;

use super::arguments::{ArgumentResult, Arguments};
use super::disk::{Array, Disk};
use super::error::ExpressionProblem;
use super::syntax::{Expression, Span};

/// A member that is known not to be there.
const MISSING: &str = "missing";
/// How RAID 0 lies behind its shortest member.
const LAYOUTS: [&str; 2] = ["original", "alternate"];

/// What an array is to be made of; `disk` gives a member its meaning.
pub(super) fn array(
    arguments: &mut Arguments<'_>,
    span: Span,
    disk: impl Fn(&Expression) -> ArgumentResult<Disk>,
) -> ArgumentResult<Array> {
    let mut array = Array {
        members: Vec::new(),
        names: Vec::new(),
        missing: 0,
        run: false,
        prefer: None,
        raid0_layout: None,
        force_dirty_degraded: false,
        member_timeout: None,
        span,
    };
    let mut texts = Vec::new();
    for member in arguments.disks("MEMBER")? {
        match member {
            Expression::Word(word) if word.text == MISSING => array.missing += 1,
            _ => {
                array.members.push(disk(member)?);
                array.names.push(name(member));
                texts.push(member.to_string());
            }
        }
    }
    if array.members.is_empty() {
        return Err(arguments.missing("a MEMBER that is there"));
    }
    array.run = arguments.switch("run")?;
    if let Some(word) = arguments.keyed_word("prefer", "a member")? {
        let known = |text: &String| *text == word.text;
        let named = array.names.iter().position(known);
        let place = named.or_else(|| texts.iter().position(known));
        let number = word.text.parse::<usize>().ok();
        let number = number.filter(|number| (1..=array.members.len()).contains(number));
        let place = place.or(number.map(|number| number - 1));
        let found = word.text.clone();
        array.prefer = Some(place.ok_or((word.span, ExpressionProblem::NoMember { found }))?);
    }
    array.member_timeout = arguments.time("member-timeout")?;
    array.raid0_layout = match arguments.choice("raid0-layout", &LAYOUTS)? {
        None => None,
        Some(0) => Some(Raid0Layout::Original),
        Some(_) => Some(Raid0Layout::Alternate),
    };
    array.force_dirty_degraded = arguments.switch("force-dirty-degraded")?;
    Ok(array)
}

/// What a member is called: a path or a URI as it is, anything else as it is written.
fn name(member: &Expression) -> String {
    match member {
        Expression::Word(word) => word.text.clone(),
        Expression::Call(_) => member.to_string(),
    }
}
