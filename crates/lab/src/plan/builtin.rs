//! The plans that come with the program.

use super::Plan;
use crate::LabError;

const PLANS: [(&str, &str); 1] = [("quick", include_str!("quick.toml"))];

/// The plan of this name.
///
/// # Errors
/// [`LabError::UnknownPlan`] with the names there are.
pub fn builtin(name: &str) -> Result<Plan, LabError> {
    match PLANS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Plan::parse(text),
        None => Err(LabError::UnknownPlan {
            name: name.to_owned(),
            known: PLANS.map(|(known, _)| known).join(", "),
        }),
    }
}

/// Every plan that comes with the program.
///
/// # Errors
/// [`LabError::BadPlan`] if one of them is wrong, which a test rules out.
pub fn list() -> Result<Vec<Plan>, LabError> {
    PLANS.iter().map(|(_, text)| Plan::parse(text)).collect()
}
