//! The keys of the live page: `http`, `http_admin`, `http_hosts`. Pure.

use super::check::address;
use super::error::Slip;
use super::file::File;
use super::values::Values;
use crate::live_page::{PageAdmin, PagePlan};

/// Where and how the page is served; `None`: nowhere.
pub(super) fn page(values: Values<'_>, file: &File) -> Result<Option<PagePlan>, Slip> {
    let Some(at) = &file.http else {
        let what = "there is no live page: it needs http";
        return match (&file.http_admin, file.http_hosts.first()) {
            (None, None) => Ok(None),
            (Some(path), _) => Err(values.slip(path, what)),
            (_, Some(host)) => Err(values.slip(host, what)),
        };
    };
    let hosts = file.http_hosts.iter().map(|host| {
        let name = host.get_ref().to_ascii_lowercase();
        match is_host_name(&name) {
            true => Ok(name),
            false => Err(values.slip(host, "not a name of a host, without a port")),
        }
    });
    Ok(Some(PagePlan {
        address: address(values, at, "127.0.0.1:9110")?,
        admin: match &file.http_admin {
            None => PageAdmin::Off,
            Some(path) => PageAdmin::File(path.get_ref().clone()),
        },
        hosts: hosts.collect::<Result<_, Slip>>()?,
    }))
}

/// Whether `name` is a name of a host, in lower case.
pub(crate) fn is_host_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !name.is_empty() && name.chars().all(is_part)
}
