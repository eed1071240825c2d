//! What happens to servers and network in a world.

use std::sync::Arc;
use std::time::Duration;

use block::Range;
use engine::clock;
use testkit::SECTOR;

use super::disk::{Change, SIGNATURE, ServerDisk, index, pattern, signature};
use super::network::Reach;
use super::server::Process;
use super::shape::{Identity, Severity};
use super::world::World;

/// A fault, as drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    CutOne,
    CutAll,
    SeverOne,
    SeverAll,
    Kill,
    LosePower,
    LosePowerTwice,
    Pause,
    LoseAnswers,
    SlowFlushes,
    Shutdown,
    FailFlush,
    FailChanges,
    RefuseReplay,
    Swap,
    SwapBack,
    TakeTurns,
    Shrink,
    Grow,
    Refresh,
    TakeOver,
}

const GENTLE: &[Fault] = &[
    Fault::CutOne,
    Fault::CutAll,
    Fault::SeverOne,
    Fault::SeverAll,
    Fault::Kill,
    Fault::LosePower,
    Fault::LosePower,
    Fault::LosePowerTwice,
    Fault::LosePowerTwice,
    Fault::Pause,
    Fault::LoseAnswers,
    Fault::SlowFlushes,
    Fault::Shutdown,
    Fault::Grow,
    Fault::Refresh,
];
const HARSH: &[Fault] = &[
    Fault::FailFlush,
    Fault::FailFlush,
    Fault::FailChanges,
    Fault::RefuseReplay,
    Fault::RefuseReplay,
    Fault::RefuseReplay,
];
const SWAPPED: &[Fault] = &[
    Fault::Swap,
    Fault::Swap,
    Fault::SwapBack,
    Fault::TakeTurns,
    Fault::Shrink,
    Fault::TakeOver,
];

/// Which kinds of disk may replace the one attached.
#[derive(Debug, Clone, Copy)]
enum Other {
    /// Other content, same size.
    Foreign,
    /// A copy of what the disk held durably.
    OlderCopy,
    /// Other content, and larger.
    Larger,
}

impl World {
    /// Draws and plays the faults of a world, then everything works again.
    pub(super) async fn play_faults(&mut self) {
        // The first one may come before any request was answered.
        let is_sudden = self.rng.bool();
        for nth in 0..self.shape.faults {
            let pause = self.shape.think_max * 10;
            let pause = Duration::from_millis(self.rng.u64(0..=pause));
            if nth > 0 || !is_sudden {
                clock::sleep(pause).await;
            }
            if self.record.is_violated() {
                break;
            }
            let is_swapped = self.shape.severity == Severity::Swapped;
            let fault = match nth == 0 && is_sudden && is_swapped {
                true => Fault::Swap,
                false => self.draw(),
            };
            self.record.log(format_args!("fault: {fault:?}"));
            self.play(fault).await;
        }
        self.heal();
    }

    fn draw(&mut self) -> Fault {
        let kinds: &[&[Fault]] = match self.shape.severity {
            Severity::Gentle => &[GENTLE],
            Severity::Harsh => &[GENTLE, HARSH],
            Severity::Swapped => &[GENTLE, HARSH, SWAPPED, SWAPPED],
        };
        let kinds = kinds.concat();
        kinds[self.rng.usize(0..kinds.len())]
    }

    async fn play(&mut self, fault: Fault) {
        match fault {
            Fault::CutOne | Fault::SeverOne => {
                let links = self.network.open_links();
                let Some(link) = links.get(self.rng.usize(0..links.len().max(1))) else {
                    return;
                };
                match fault {
                    Fault::CutOne => link.cut(),
                    _ => link.sever(),
                }
            }
            Fault::CutAll => self.network.open_links().iter().for_each(|link| link.cut()),
            Fault::SeverAll => self.sever_all().await,
            Fault::Kill => {
                self.stop(false);
                self.outage().await;
                self.restart(Arc::clone(&self.disk));
            }
            Fault::LosePower => {
                self.stop(true);
                self.outage().await;
                self.restart(Arc::clone(&self.disk));
            }
            Fault::LosePowerTwice => {
                let power = self.rng.bool();
                self.stop(power);
                self.restart(Arc::clone(&self.disk));
                // While the journal is written again.
                let rest = self.shape.latency_max + self.shape.offer.delay_max / 2;
                let millis = self.rng.u64(0..=60 + 2 * rest);
                clock::sleep(Duration::from_millis(millis)).await;
                self.stop(true);
                self.outage().await;
                self.restart(Arc::clone(&self.disk));
            }
            Fault::RefuseReplay => {
                self.stop(true);
                self.outage().await;
                self.restart(Arc::clone(&self.disk));
                if let Some(server) = self.network.listener() {
                    server.fail_changes(2);
                }
            }
            Fault::Swap => {
                let power = self.rng.bool();
                self.stop(power);
                self.outage().await;
                let other = self.other_disk().await;
                self.restart(other);
            }
            Fault::SwapBack => {
                self.stop(false);
                self.restart(Arc::clone(&self.disk));
            }
            Fault::TakeTurns => self.take_turns().await,
            Fault::Grow => self.resize(true).await,
            Fault::Shrink => self.resize(false).await,
            Fault::Refresh => self.refresh(),
            Fault::TakeOver => self.take_over(),
            _ => self.disturb_server(fault).await,
        }
    }

    async fn disturb_server(&mut self, fault: Fault) {
        let Some(server) = self.network.listener() else {
            return;
        };
        let count = self.rng.u32(1..3);
        match fault {
            Fault::LoseAnswers => server.lose_answers(count),
            Fault::Shutdown => server.shut_down_requests(count),
            Fault::FailFlush => {
                // The other ones take long.
                server.slow_flushes(Duration::from_millis(self.rng.u64(0..3000)));
                server.fail_flushes(count);
            }
            Fault::FailChanges => server.fail_changes(count),
            Fault::SlowFlushes => {
                let each = Duration::from_secs(self.rng.u64(1..90));
                server.slow_flushes(each);
            }
            _ => {
                server.pause(true);
                self.outage().await;
                server.pause(false);
            }
        }
    }

    /// Time for which something is away.
    pub(super) async fn outage(&mut self) {
        let config = &self.shape.config;
        // Beyond what requests wait, if they do not wait forever.
        let long = config.reconnect_for.min(Duration::from_secs(40)) + 2 * config.request_timeout;
        let max = match self.rng.u8(0..8) {
            0..3 => Duration::from_millis(20),
            3..5 => Duration::from_secs(1),
            5 => config.request_timeout * 2,
            _ => long,
        };
        let least = if max == long {
            long / 2
        } else {
            Duration::ZERO
        };
        let range = least.as_micros()..=max.as_micros();
        let micros = u64::try_from(self.rng.u128(range)).expect("minutes");
        clock::sleep(Duration::from_micros(micros)).await;
    }

    async fn sever_all(&mut self) {
        let links = self.network.open_links();
        links.iter().for_each(|link| link.sever());
        self.network.set_reach(Reach::Lost);
        self.outage().await;
        self.network.set_reach(Reach::Open);
        if self.rng.bool() {
            links.iter().for_each(|link| link.mend());
        }
    }

    /// The server that listens is killed, or its machine loses power.
    fn stop(&mut self, power: bool) {
        let Some(server) = self.network.listener() else {
            return;
        };
        self.network.listen(None);
        self.end_server(&server, power);
    }

    fn end_server(&mut self, server: &Arc<Process>, power: bool) {
        let how = if power { "loses power" } else { "is killed" };
        self.record.log(format_args!("{} {how}", server.name()));
        // Servers of one disk are on one machine.
        let is_same = |one: &Arc<Process>| one.disk.number == server.disk.number;
        let ended: Vec<_> = self
            .running
            .iter()
            .filter(|one| is_same(one))
            .cloned()
            .collect();
        for one in &ended {
            if power {
                one.lose_power();
            } else {
                one.kill();
            }
        }
        if power {
            server.disk.lose_power(&mut self.rng);
            self.checker.power_lost(&server.disk);
            self.without_power.extend(ended);
        }
        self.running.retain(|one| !is_same(one));
    }

    /// A server of `disk` listens.
    pub(super) fn restart(&mut self, disk: Arc<ServerDisk>) {
        for gone in std::mem::take(&mut self.without_power) {
            if self.rng.u8(0..4) > 0 {
                gone.machine_is_back();
            }
        }
        let server = self.start(disk);
        self.record.log(format_args!("{} listens", server.name()));
        self.network.listen(Some(server));
    }

    /// A disk that a client can distinguish from the one attached, or that one.
    async fn other_disk(&mut self) -> Arc<ServerDisk> {
        // What was answered is heard.
        clock::sleep(Duration::from_millis(self.shape.latency_max)).await;
        let is_known = match self.shape.identity {
            Identity::Named | Identity::Signature => true,
            // A client that has nothing to write again goes on with any disk, by contract.
            Identity::Blank => self.client.health().unflushed > 0,
        };
        if !is_known {
            return Arc::clone(&self.disk);
        }
        let number = self.next_disk();
        let sectors = self.disk.sectors();
        let foreign = |sectors: u64| {
            let mut content: Vec<_> = (0..sectors).map(|at| pattern(number.into(), at)).collect();
            if self.shape.identity == Identity::Signature {
                content.splice(..index(SIGNATURE), signature(number.into()));
            }
            content
        };
        let kind = [Other::Foreign, Other::OlderCopy, Other::Larger][self.rng.usize(0..3)];
        let content = match kind {
            Other::OlderCopy if self.shape.identity == Identity::Named => self.disk.durable(),
            Other::Larger => foreign(sectors * 2),
            _ => foreign(sectors),
        };
        self.record.log(format_args!("disk {number}: {kind:?}"));
        Arc::new(ServerDisk::new(number, content))
    }

    /// Another client takes over, where the server can cut the first one off, and writes.
    fn take_over(&mut self) {
        let Some(server) = self.network.listener() else {
            return;
        };
        if self.shape.identity != Identity::Named || server.disk.number != self.disk.number {
            return;
        }
        server.take_over();
        self.checker.taken_over();
        let content = (0..self.disk.sectors()).map(|at| pattern(u64::from(u32::MAX), at));
        self.disk.change(Change {
            range: Range::new(0, self.disk.sectors() * SECTOR),
            content: content.collect(),
            fua: true,
            connection: 0,
        });
    }

    /// Two servers have the address in turn; the connections of the first live on.
    async fn take_turns(&mut self) {
        if self.shape.identity == Identity::Blank {
            // A flush over a connection that lives on could make the disks indistinguishable.
            return;
        }
        let other = self.other_disk().await;
        if other.number == self.disk.number {
            return;
        }
        let second = self.start(other);
        for turn in 0..self.rng.usize(1..4) {
            let first = self.network.listener();
            if turn % 2 == 0 {
                self.network.listen(Some(Arc::clone(&second)));
            } else if let Some(own) = self.running.iter().find(|one| one.number != second.number) {
                self.network.listen(Some(Arc::clone(own)));
            }
            let listener = self.network.listener().map(|one| one.name());
            self.record.log(format_args!("turn of {listener:?}"));
            if self.rng.bool() {
                self.network.open_links().iter().for_each(|link| link.cut());
            }
            self.outage().await;
            drop(first);
        }
    }

    async fn resize(&mut self, grows: bool) {
        self.stop(false);
        self.outage().await;
        if grows {
            self.disk.resize(self.disk.sectors() + 8);
            self.restart(Arc::clone(&self.disk));
        } else {
            let smaller = self.smaller_disk();
            self.restart(smaller);
        }
    }

    /// Another disk: the first half of the one attached.
    pub(super) fn smaller_disk(&mut self) -> Arc<ServerDisk> {
        let number = self.next_disk();
        let mut content = self.disk.live();
        content.truncate(index(self.disk.sectors()) / 2);
        Arc::new(ServerDisk::new(number, content))
    }

    /// A caller refreshes the size of the export.
    fn refresh(&self) {
        let (client, record) = (Arc::clone(&self.client), Arc::clone(&self.record));
        drop(engine::spawn(async move {
            let size = client.refresh_size().await;
            record.log(format_args!("size: {size:?}"));
        }));
    }

    /// The attached disk is there and works.
    pub(super) fn heal(&mut self) {
        self.record.log("everything works again");
        self.network.set_reach(Reach::Open);
        self.network.links().iter().for_each(|link| link.mend());
        for server in &self.running {
            server.heal();
        }
        let is_own = |server: &Arc<Process>| server.disk.number == self.disk.number;
        let own = self.running.iter().find(|server| is_own(server)).cloned();
        match own {
            Some(own) => self.network.listen(Some(own)),
            None => self.restart(Arc::clone(&self.disk)),
        }
    }
}
