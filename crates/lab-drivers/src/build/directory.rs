//! A directory that is there: the local filesystem, or a mount of the user's own.

use lab::plan::Target;
use lab::runner::{BuildContext, Directories, LeftOut};

use super::step::{BuildStep, Recipe, RecipeResult};

/// Nothing has to be made but, where it is the run's own directory, a folder in it.
pub(super) fn recipe(target: &Target, context: &BuildContext<'_>) -> Result<Recipe, LeftOut> {
    let path = Directories::find(target, context)?;
    let steps = match path.exists() {
        true => Vec::new(),
        false => vec![BuildStep::Folder(path.clone())],
    };
    Ok(Recipe {
        steps,
        place: RecipeResult::Directory(path),
    })
}
