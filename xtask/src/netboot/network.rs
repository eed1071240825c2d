//! [`Network`]: a wire of two network namespaces, one with the box and the taps of machines, one with the router of a household.
//!
//! ```text
//! namespace BOX: bridge br0 10.77.0.1 ─┬─ tap0, tap1: machines of QEMU
//!                                      └─ veth ─ namespace ROUTER: wire0 10.77.0.254, its DHCP server
//! ```
//!
//! Nothing of it reaches this machine's own network. Both namespaces, and with them all cards, are removed when it is dropped.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{self, Running};

/// The card of the box.
pub(super) const CARD: &str = "br0";
/// The box.
pub(super) const BOX_ADDRESS: &str = "10.77.0.1";
/// Cards of machines.
pub(super) const TAPS: [&str; 2] = ["tap0", "tap1"];
/// What the router gives to machines.
const ROUTER_RANGE: &str = "10.77.0.100,10.77.0.149";

/// Both namespaces.
#[derive(Debug)]
pub(super) struct Network {
    box_name: String,
    router_name: String,
}

impl Network {
    /// Makes them; needs root.
    pub(super) fn create() -> Result<Self> {
        let id = std::process::id();
        let network = Self {
            box_name: format!("netboot-box-{id}"),
            router_name: format!("netboot-router-{id}"),
        };
        let (inside, outside) = (&network.box_name, &network.router_name);
        let mut lines = vec![
            format!("netns add {inside}"),
            format!("netns add {outside}"),
            format!("-n {inside} link set lo up"),
            format!("-n {inside} link add {CARD} type bridge"),
            format!("-n {inside} address add {BOX_ADDRESS}/24 dev {CARD}"),
            format!("-n {inside} link set {CARD} up"),
            format!("-n {inside} link add wire1 type veth peer name wire0 netns {outside}"),
            format!("-n {inside} link set wire1 master {CARD} up"),
            format!("-n {outside} address add 10.77.0.254/24 dev wire0"),
            format!("-n {outside} link set wire0 up"),
        ];
        for tap in TAPS {
            lines.push(format!("-n {inside} tuntap add dev {tap} mode tap"));
            lines.push(format!("-n {inside} link set {tap} master {CARD} up"));
        }
        for line in lines {
            let mut ip = Command::new("ip");
            shell::output(ip.args(line.split(' ')))
                .context("cannot make a network for the test")?;
        }
        Ok(network)
    }

    /// The words before a command that is run on the box.
    pub(super) fn on_box(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.box_name]
    }

    /// Starts the DHCP server of the router. It knows nothing of netboot.
    pub(super) fn start_router(&self, folder: &Path) -> Result<Running> {
        let files = folder.display();
        let options = format!(
            "netns exec {} dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --no-ping --log-facility=- \
             --interface=wire0 --bind-dynamic --dhcp-range={ROUTER_RANGE} --dhcp-leasefile={files}/router.leases \
             --pid-file={files}/router.pid",
            self.router_name
        );
        let words = options.split_whitespace();
        Running::start("ip", words, &folder.join("router.log"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.box_name, &self.router_name] {
            let mut delete = Command::new("ip");
            shell::output(delete.args(["netns", "delete", name])).ok();
        }
    }
}
