//! A directory through a filesystem client and a server on loopback.
//!
//! SSHFS gets a server of our own with keys of its own, for one user and one port of loopback. Servers
//! of NFS and SMB are the system's, with rights of their own: none is started here, and a mount of the
//! user's own is measured as a directory.

use std::path::PathBuf;

use lab::plan::{MountType, Target, TargetKind};
use lab::runner::LeftOut;

use super::step::{Recipe, Step};

/// The folder that is exported and the mount.
pub(super) fn recipe(target: &Target, folder: PathBuf) -> Result<Recipe, LeftOut> {
    let TargetKind::Mount {
        client, options, ..
    } = &target.kind
    else {
        return Err(LeftOut("it is no mount".into()));
    };
    if *client != MountType::Sshfs {
        return Err(LeftOut(format!(
            "no server of {} is started here: mount one, and give its directory as a target",
            shown(*client)
        )));
    }
    let exported = folder.join("exported");
    let steps = vec![Step::Folder(folder.clone()), Step::Folder(exported.clone())];
    Ok(Recipe::mounted(steps, &folder, |directory| Step::Sshfs {
        exported,
        folder: folder.clone(),
        directory,
        options: options.clone(),
    }))
}

const fn shown(client: MountType) -> &'static str {
    match client {
        MountType::Nfs => "NFS",
        MountType::Cifs | MountType::Gvfs => "SMB",
        MountType::Sshfs => "SSHFS",
    }
}
