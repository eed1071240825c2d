//! *emulation*: the processor itself is a program, so every figure is that of a machine that does not exist.
//!
//! Not caught in a study: it is how the lab measures what this machine's kernel lacks, in a guest. What is
//! bound by a processor is slowed down there ten times and more, what waits for a disk is not: layers can be
//! compared with each other, but not with a disk outside.

use super::{Check, Finding};
use crate::host::Machine;

/// How QEMU's processor calls itself where no hardware helps (its `-cpu max` and `qemu64`).
const NAMES: [&str; 2] = ["QEMU TCG CPU", "QEMU Virtual CPU"];

/// Whether a processor of this name is a program.
#[must_use]
pub(crate) fn is_emulated(processor: &str) -> bool {
    NAMES.iter().any(|name| processor.starts_with(name))
}

pub(super) fn of_host(machine: &Machine) -> Option<Finding> {
    check(&machine.processor)
}

/// Looks at what the processor calls itself.
fn check(processor: &str) -> Option<Finding> {
    is_emulated(processor).then(|| {
        Finding::remark(
            Check::Emulation,
            format!(
                "the processor is emulated ({processor}): absolute figures are those of an emulated machine, \
                 slower than any real one where a processor is at work; hold targets of this run against \
                 each other only"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_processor_is_reported_and_a_real_one_is_not() {
        let said = check("QEMU TCG CPU version 2.5+").unwrap();
        assert_eq!(said.check, Check::Emulation);
        assert!(said.text.contains("emulated machine"), "{}", said.text);
        assert_eq!(check("AMD EPYC 7763 64-Core Processor"), None);
        assert_eq!(check("Raspberry Pi 4 Model B Rev 1.4"), None);
    }
}
