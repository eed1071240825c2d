//! [`Subnet`]: the address of the network card that clients are behind, by `ip` of iproute2.
//!
//! What it does not do: IPv6. Firmware and `ip=dhcp` of the kernel's command line use IPv4.

use std::net::Ipv4Addr;
use std::process::Command;

use crate::failure::Failure;
use crate::programs;

/// Longest name of a network card (IFNAMSIZ less its end).
const NAME_MAX: usize = 15;

/// An address of this machine, and the network that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet {
    /// The address.
    pub(super) address: Ipv4Addr,
    /// Bits of the network.
    pub(super) prefix: u32,
}

impl Subnet {
    /// Queries the first address of the card `name`.
    pub(super) fn of(name: &str) -> Result<Self, Failure> {
        let what = format!("cannot find the address of {name}");
        let Some(ip) = programs::find("ip") else {
            let missing = Failure::new(format!("{what}: ip is not installed"));
            return Err(missing.next("apt install iproute2"));
        };
        let arguments = ["-oneline", "-4", "address", "show", "dev", name];
        let shown = Command::new(ip).args(arguments).output();
        let shown = shown.map_err(|error| Failure::because(&what, &error))?;
        let text = String::from_utf8_lossy(&shown.stdout);
        match Self::parse(&text) {
            Some(subnet) => Ok(subnet),
            None if shown.status.success() => {
                let none = Failure::new(format!("{name} has no IPv4 address"));
                Err(none.next("give it one that stays the same: clients keep it for their disk"))
            }
            None => {
                let reason = String::from_utf8_lossy(&shown.stderr);
                Err(Failure::new(format!("{what}: {}", reason.trim())))
            }
        }
    }

    /// `2: eth0    inet 192.0.2.1/24 brd …`: the first of them.
    fn parse(text: &str) -> Option<Self> {
        let (_, behind) = text.split_once(" inet ")?;
        let (address, prefix) = behind.split_whitespace().next()?.split_once('/')?;
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
        let address = address.parse().ok()?;
        Some(Self { address, prefix })
    }

    /// The mask of the network.
    pub(super) fn mask(self) -> Ipv4Addr {
        let host_bits = 32 - self.prefix;
        Ipv4Addr::from_bits(u32::MAX.checked_shl(host_bits).unwrap_or(0))
    }

    /// The network's own address.
    pub(super) fn network(self) -> Ipv4Addr {
        self.address & self.mask()
    }

    /// Whether `other` is in the network.
    pub(super) fn contains(self, other: Ipv4Addr) -> bool {
        other & self.mask() == self.network()
    }
}

/// `--interface`: a name that Linux permits, and that no file of dnsmasq reads as something else.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    match (1..=NAME_MAX).contains(&text.len()) && text.chars().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err("not the name of a network card, like eth0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_of_a_card_is_taken() {
        let text = "2: eth0    inet 192.0.2.33/26 brd 192.0.2.63 scope global eth0\\       valid_lft forever\n\
                    2: eth0    inet 198.51.100.1/24 scope global eth0\n";
        let subnet = Subnet::parse(text).unwrap();
        assert_eq!(subnet.address, Ipv4Addr::new(192, 0, 2, 33));
        assert_eq!(subnet.network(), Ipv4Addr::new(192, 0, 2, 0));
        assert_eq!(subnet.mask(), Ipv4Addr::new(255, 255, 255, 192));
        assert!(subnet.contains(Ipv4Addr::new(192, 0, 2, 63)));
        assert!(!subnet.contains(Ipv4Addr::new(192, 0, 2, 64)));
    }

    #[test]
    fn no_text_panics() {
        for text in [
            "",
            "2: eth0 inet ",
            " inet 1.2.3.4",
            " inet 1.2.3.4/33",
            " inet x/24",
        ] {
            assert_eq!(Subnet::parse(text), None, "{text}");
        }
        let all = Subnet::parse(" inet 10.0.0.1/0").unwrap();
        assert_eq!(all.mask(), Ipv4Addr::UNSPECIFIED);
        let one = Subnet::parse(" inet 10.0.0.1/32").unwrap();
        assert_eq!(one.network(), one.address);
    }

    #[test]
    fn a_name_stays_a_word_in_the_file_of_dnsmasq() {
        assert_eq!(name("enp1s0.5").as_deref(), Ok("enp1s0.5"));
        for bad in ["", "eth0,br0", "eth 0", "eth0#", "abcdefghijklmnop"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
