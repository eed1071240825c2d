//! The end of a world with a reshape: everything works, the array gets its form, and parity fits.

use block::{BlockDevice, Range};
use testkit::Op;

use super::disks::Power;
use super::reshape_cases::{begin_change, work};
use super::reshapes::ReshapeWorld;
use super::world::{Wrong, options};
use crate::array::format::Level;
use crate::array::{Array, ArrayError, SyncKind};

impl ReshapeWorld {
    pub(super) async fn look(&mut self, array: &Array, when: &str) -> Result<(), Wrong> {
        let range = Range::new(0, self.owed.size());
        let begun = self.owed.begin(Op::Read { range });
        let data = array.read(range).await;
        let data = data.map_err(|error| format!("it cannot be read {when}: {error}"))?;
        let checked = self.owed.check(&begun, &data.concat());
        checked.map_err(|what| format!("{when}: {what}"))
    }

    /// Everything works: the array gets its form, and parity fits.
    pub(super) async fn end_well(&mut self) -> Result<(), Wrong> {
        let power = Power::new(u64::MAX, self.pace.clone(), self.record.clone());
        let wires = self.plug(&power, None);
        self.file.plug(&power, 0);
        self.log("the end");
        let Some(array) = self.open(&wires, options()).await? else {
            return Ok(());
        };
        self.look(&array, "when it was opened").await?;
        let wrong = |what: &str, error: &dyn std::fmt::Display| Err(format!("{what}: {error}"));
        if let Err(error) = work(&array).await {
            return wrong("work is left", &error);
        }
        if array.geometry().size == self.case.sizes()[0] && self.lost() == 0 {
            // It has not begun, or has ended where it does not make the array larger.
            let is_done = |error: &ArrayError| error.to_string().contains(" already");
            match begin_change(&array, self.case.shape, self.level, self.backup()).await {
                Err(error) if !is_done(&error) => {
                    return wrong("it is not reshaped", &error);
                }
                _ => {}
            }
            if let Err(error) = work(&array).await {
                return wrong("the reshape does not end", &error);
            }
        }
        if array
            .by_hand_if_any()
            .is_some_and(|by_hand| by_hand.array.is_reshaping())
        {
            return Err("the reshape does not end".to_owned());
        }
        self.look(&array, "when it was reshaped").await?;
        self.check_policies(&array).await?;
        if self.lost() > 0 {
            return Ok(());
        }
        if self
            .level
            .is_some_and(|level| level != array.status().level)
        {
            return Err(format!("it is {}", array.status().level));
        }
        let status = array.status();
        if status.level == Level::Raid0 || status.working < status.parts {
            // There is nothing to compare.
            return Ok(());
        }
        let begun = array.scrub(SyncKind::Check);
        begun.map_err(|error| format!("it is not scrubbed: {error}"))?;
        let worked = array.by_hand().work().await;
        worked.map_err(|error| format!("it is not scrubbed: {error}"))?;
        let scrubbed = array.status().scrubbed.expect("it was scrubbed");
        if scrubbed.mismatches > 0 {
            return Err(format!("parity does not fit: {scrubbed:?}"));
        }
        let name = array.status().members[0].name.clone();
        let failed = array.fail(&name).await;
        failed.map_err(|error| format!("{name} does not fail: {error}"))?;
        self.look(&array, "without a member").await
    }
}
