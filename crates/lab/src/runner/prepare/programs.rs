//! The programs that a plan needs, looked for once.

use std::collections::BTreeMap;
use std::path::Path;

use crate::LabError;
use crate::fio::process::Fio;
use crate::plan::Plan;
use crate::tools::Installed;

/// The programs that this plan can use.
#[derive(Debug, Default)]
pub(in crate::runner) struct Tools {
    pub(in crate::runner) fio: Option<Fio>,
    /// By the name of what is started; none where it is not installed, with what to do.
    pub(in crate::runner) others: BTreeMap<&'static str, Result<Installed, String>>,
}

impl Tools {
    /// Looks for all that `plan` needs.
    pub(in crate::runner) fn find(plan: &Plan, fio: &Path) -> Result<Self, LabError> {
        let mut tools = Self::default();
        for workload in &plan.workloads {
            match workload.tool() {
                None if tools.fio.is_none() => tools.fio = Some(Fio::at(fio.to_owned())?),
                None => {}
                Some(tool) => {
                    let program = tool.kind().program();
                    tools.others.entry(program.name).or_insert_with(|| {
                        crate::tools::find(program).map_err(|error| error.to_string())
                    });
                }
            }
        }
        Ok(tools)
    }
}
