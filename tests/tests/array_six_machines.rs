//! An array of level 6 over six servers, of which any two are killed or hang while it is written.
//!
//! What is at stake: no write fails or hangs with two members missing, what they missed is on them once they are back, and any
//! four of the six hold all of it.

use std::time::Duration;

use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{
    Kept, Load, create_level, state_of, status, wait_until, wait_until_whole,
};
use outboard_tests::said::{outboard, run};
use outboard_tests::server::Server;
use rustix::process::Signal;

/// Four of these hold all records of a load.
const SIZE: u64 = 24 * MIB;
const MACHINES: usize = 6;
/// How long a member may take to answer.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// What a request may take more on a machine with other things to do; one that hangs takes for ever.
const SLACK: Duration = Duration::from_secs(15);

/// Six machines with a disk each, and the one that has the array.
struct Rack {
    folder: Folder,
    disks: Vec<String>,
    /// `None`: it is off.
    machines: Vec<Option<Server>>,
    uris: Vec<String>,
    array: Server,
}

impl Rack {
    #[track_caller]
    fn start() -> Self {
        let folder = Folder::new();
        let disk = |machine| folder.empty(&format!("{machine}.img"), SIZE);
        let disks: Vec<String> = (0..MACHINES).map(disk).collect();
        let named: Vec<&str> = disks.iter().map(String::as_str).collect();
        create_level("6", &named, &["--chunk", "64K"]);
        let machines: Vec<Server> = disks.iter().map(|disk| Server::start(&[disk])).collect();
        let uris: Vec<String> = machines.iter().map(|machine| machine.uri("")).collect();
        let machines = machines.into_iter().map(Some).collect();
        let timeout = MEMBER_TIMEOUT.as_secs();
        let members = uris.join(", ");
        let array = Server::start(&[&format!("array({members}, member-timeout={timeout}s)")]);
        Self {
            folder,
            disks,
            machines,
            uris,
            array,
        }
    }

    /// The array goes on without these.
    #[track_caller]
    fn wait_without(&mut self, gone: [usize; 2]) {
        wait_until(&mut self.array, "without two members", |status| {
            gone.iter()
                .all(|one| state_of(status, &self.uris[*one]) == "failed")
        });
        assert_eq!(status(&mut self.array)["working"], 4);
    }

    /// Kills a machine; its port.
    #[track_caller]
    fn kill_one(&mut self, one: usize) -> u16 {
        self.machines[one].take().expect("it is on").kill()
    }

    fn start_again(&mut self, one: usize, port: u16) {
        self.machines[one] = Some(Server::start_on(port, &[&self.disks[one]]));
    }

    #[track_caller]
    fn signal(&mut self, one: usize, signal: Signal) {
        let machine = self.machines[one].as_mut().expect("it is on");
        machine.process().signal(signal).expect("it runs");
    }

    /// Kills two machines, uses the array, and starts them again.
    #[track_caller]
    fn kill(&mut self, gone: [usize; 2], load: &Load) {
        let ports = gone.map(|one| self.kill_one(one));
        load.wait_for(60);
        self.wait_without(gone);
        for (one, port) in gone.into_iter().zip(ports) {
            self.start_again(one, port);
        }
        wait_until_whole(&mut self.array);
        load.wait_for(30);
    }
}

/// Fails if the array without these lacks something.
#[track_caller]
fn assert_held(folder: &Folder, disks: &[String], without: [usize; 2], kept: &Kept) {
    let left = (0..disks.len()).filter(|one| !without.contains(one));
    let left: Vec<&str> = left.map(|one| disks[one].as_str()).collect();
    let copy = folder.at("copy");
    let expression = format!("array({}, run=true)", left.join(", "));
    run(&mut outboard(&["copy", "--force", &expression, &copy])).ok();
    kept.assert_in_copy(&copy);
}

#[test]
fn any_two_of_six_machines_are_lost_and_come_back_while_the_array_is_written() {
    let mut rack = Rack::start();
    let load = Load::start(&rack.array);
    load.wait_for(50);
    wait_until_whole(&mut rack.array);
    rack.kill([2, 5], &load);
    // One hangs, and another one is killed meanwhile.
    rack.signal(3, Signal::STOP);
    let port = rack.kill_one(0);
    load.wait_for(60);
    rack.wait_without([0, 3]);
    rack.signal(3, Signal::CONT);
    rack.start_again(0, port);
    wait_until_whole(&mut rack.array);
    load.wait_for(30);
    let longest = load.longest();
    let most = MEMBER_TIMEOUT * 2 + SLACK;
    assert!(longest < most, "a request took {longest:?}");

    let kept = load.stop();
    assert_eq!(rack.array.stop(Signal::TERM), Some(0));
    for machine in rack.machines.into_iter().flatten() {
        assert_eq!(machine.stop(Signal::TERM), Some(0));
    }
    for without in [[0, 1], [0, 3], [1, 4], [2, 5]] {
        assert_held(&rack.folder, &rack.disks, without, &kept);
    }
}
