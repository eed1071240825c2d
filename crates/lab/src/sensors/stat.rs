//! `/proc/stat`: where each core spent its time. Pure. Source: proc_stat(5).

use serde::{Deserialize, Serialize};

/// Ticks of one core since boot, or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CoreTimes {
    /// Programs, with and without nice.
    pub user: u64,
    /// The kernel for programs.
    pub system: u64,
    /// Interrupts.
    pub irq: u64,
    /// Work put off by interrupts, where the network mostly is.
    pub softirq: u64,
    /// Taken by the host of this virtual machine.
    pub steal: u64,
    /// Nothing, with or without I/O waiting.
    pub idle: u64,
}

impl CoreTimes {
    /// What passed since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self.steal.saturating_sub(earlier.steal),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }

    /// All ticks but the idle ones.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq + self.steal
    }

    /// All ticks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.busy() + self.idle
    }

    /// Each kind by name, in the order in which they are drawn.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, u64); 5] {
        [
            ("user", self.user),
            ("system", self.system),
            ("irq", self.irq),
            ("softirq", self.softirq),
            ("steal", self.steal),
        ]
    }
}

/// Every core's number and times, in the kernel's order. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<(u32, CoreTimes)> {
    text.lines().filter_map(core).collect()
}

fn core(line: &str) -> Option<(u32, CoreTimes)> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let tick = |index: usize| ticks.get(index).copied().unwrap_or(0);
    let times = CoreTimes {
        user: tick(0).saturating_add(tick(1)),
        system: tick(2),
        idle: tick(3).saturating_add(tick(4)),
        irq: tick(5),
        softirq: tick(6),
        steal: tick(7),
    };
    Some((number, times))
}
