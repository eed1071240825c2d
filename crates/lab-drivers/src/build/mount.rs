//! A directory through a filesystem client and a server on loopback.
//!
//! SSHFS and SMB get a server of our own with keys of its own, for one user and one port of loopback.
//! The server of NFS is the system's, which has one only: a directory of ours is exported by it for the
//! run. gvfs mounts in a session of a desktop: a mount of the user's own is measured as a directory.

use std::path::PathBuf;

use lab::plan::{MountType, Target, TargetKind};
use lab::runner::LeftOut;

use super::step::{BuildStep, NetworkShare, Recipe};

/// The folder that is exported and the mount.
pub(super) fn recipe(target: &Target, folder: PathBuf) -> Result<Recipe, LeftOut> {
    let TargetKind::Mount {
        client, options, ..
    } = &target.kind
    else {
        return Err(LeftOut("it is no mount".into()));
    };
    if *client == MountType::Gvfs {
        return Err(LeftOut(
            "no session of a desktop is started here: mount one, and give its directory as a target"
                .into(),
        ));
    }
    let exported = folder.join("exported");
    let steps = vec![
        BuildStep::Folder(folder.clone()),
        BuildStep::Folder(exported.clone()),
    ];
    let (client, options) = (*client, options.clone());
    Ok(Recipe::mounted(steps, &folder, |directory| {
        BuildStep::Network(NetworkShare {
            client,
            exported,
            folder: folder.clone(),
            directory,
            options,
        })
    }))
}
