//! The text files of a netboot folder: what the firmware, iPXE, dnsmasq and our server read. Pure.
//!
//! ```text
//! FOLDER/outboard.toml       the server: the image, an overlay for each client
//! FOLDER/dnsmasq.conf        DHCP (proxy, or with addresses) and TFTP
//! FOLDER/tftp/boot.ipxe      PCs: kernel, initramfs and command line, for iPXE
//! FOLDER/tftp/cmdline.txt    Pis: command line of the kernel
//! FOLDER/tftp/config.txt     Pis: their firmware
//! ```
//!
//! # Invariants
//!
//! * dnsmasq answers on the one network card only, serves no DNS, and without a range gives no machine an address.
//! * A client of firmware that is iPXE already never gets iPXE again: it would load it for ever.
//! * No value of the command line begins a line or a comment of its own ([`is_plain`]).
//!
//! Sources: dnsmasq(8); RFC 4578 (types of client: 0 BIOS, 7 and 9 UEFI of 64 bits); ipxe.org/cmd; "Network booting" and
//! `config.txt` of the Raspberry Pi documentation.

use std::net::Ipv4Addr;
use std::path::Path;

use super::interface::Subnet;

/// The export of PCs, and of Pis where there are no PCs.
pub(super) const ROOT: &str = "root";
/// The export of Pis next to that of PCs.
pub(super) const PI_ROOT: &str = "pi";
/// iPXE for PCs with a BIOS, and with UEFI: names in the package `ipxe` and in the folder.
pub(super) const IPXE: [&str; 2] = ["undionly.kpxe", "ipxe.efi"];
/// The kernel and the initramfs of PCs.
pub(super) const KERNEL: &str = "vmlinuz";
/// The initramfs of PCs.
pub(super) const INITRD: &str = "initrd.img";

/// The beginnings of MAC addresses of Raspberry Pis: their firmware is of the same type of client as a BIOS.
const PI_CARDS: [&str; 6] = [
    "28:cd:c1", "2c:cf:67", "b8:27:eb", "d8:3a:dd", "dc:a6:32", "e4:5f:01",
];
/// Types of client that are UEFI of 64 bits.
const EFI_KINDS: [u8; 2] = [7, 9];
const HEAD: &str = "# Written by `outboard netboot`. Edit it: what was edited stays as it is. Delete it to have it written again.\n";

/// Addresses that clients get: the first and the last.
pub(super) type AddressRange = (Ipv4Addr, Ipv4Addr);

/// What the files are made of.
#[derive(Debug, Clone)]
pub(super) struct Netboot<'a> {
    /// The folder, absolute and [plain](is_plain).
    pub(super) folder: &'a str,
    /// The network card.
    pub(super) interface: &'a str,
    /// Its network.
    pub(super) subnet: Subnet,
    /// Addresses for clients; `None`: another DHCP server gives them.
    pub(super) range: Option<AddressRange>,
    /// The disk of PCs, with absolute paths.
    pub(super) pc: Option<String>,
    /// The disk of Pis.
    pub(super) pi: Option<String>,
    /// More words of the kernel's command line.
    pub(super) append: &'a str,
}

impl Netboot<'_> {
    /// The server's configuration.
    pub(super) fn server(&self) -> String {
        let Subnet { address, prefix } = self.subnet;
        let network = self.subnet.network();
        let mut text = format!(
            "{HEAD}# Firmware boots without TLS, and so is the disk served.\n\
             listen = [\"{address}\"]\ninsecure = true\n"
        );
        let folder = toml::Value::from(format!("{}/overlays", self.folder));
        let exports = [(ROOT, &self.pc), (self.pi_export(), &self.pi)];
        for (name, disk) in exports {
            let Some(disk) = disk else { continue };
            let disk = toml::Value::from(disk.as_str());
            text.push_str(&format!(
                "\n[[export]]\nname = \"{name}\"\ndisk = {disk}\noverlay = \"per-client\"\n\
                 overlay_directory = {folder}\noverlay_name = \"address\"\noverlay_quota = \"2G\"\n\
                 allow = [\"{network}/{prefix}\"]\n"
            ));
        }
        text
    }

    /// The export of Pis.
    fn pi_export(&self) -> &'static str {
        match self.pc {
            Some(_) => PI_ROOT,
            None => ROOT,
        }
    }

    /// dnsmasq's configuration.
    pub(super) fn dnsmasq(&self) -> String {
        let Self {
            folder, interface, ..
        } = self;
        let mask = self.subnet.mask();
        let mut text = format!(
            "{HEAD}port=0\ninterface={interface}\nbind-dynamic\nlog-facility=-\n\
             pid-file={folder}/dnsmasq.pid\ndhcp-leasefile={folder}/dnsmasq.leases\n\
             enable-tftp\ntftp-root={folder}/tftp\n"
        );
        text.push_str(&match self.range {
            None => format!(
                "# The network's own DHCP server gives the addresses: reserve one for each client there.\n\
                 dhcp-range={},proxy,{mask}\n",
                self.subnet.network()
            ),
            Some((first, last)) => format!(
                "# A machine keeps its address for ever, since its overlay is found by it.\n\
                 dhcp-range={first},{last},{mask},infinite\ndhcp-ignore-clid\ndhcp-authoritative\n"
            ),
        });
        text.push_str("dhcp-userclass=set:ipxe,iPXE\n");
        for card in PI_CARDS {
            text.push_str(&format!("dhcp-mac=set:pi,{card}:*:*:*\n"));
        }
        if self.pi.is_some() {
            text.push_str("pxe-service=tag:pi,0,\"Raspberry Pi Boot\"\n");
        }
        text.push_str(&self.boot_files());
        text
    }

    /// The file that firmware loads first. A proxy offers it as a service of PXE; UEFI does not look at these in an offer that
    /// has an address.
    fn boot_files(&self) -> String {
        let [bios, efi] = IPXE;
        let mut text = String::new();
        match (&self.pc, self.range) {
            (Some(_), None) => {
                for (kind, program) in [(0, bios), (EFI_KINDS[0], efi), (EFI_KINDS[1], efi)] {
                    text.push_str(&format!(
                        "pxe-service=tag:!pi,tag:!ipxe,{kind},\"outboard\",{program}\n\
                         pxe-service=tag:ipxe,{kind},\"outboard\",boot.ipxe\n"
                    ));
                }
            }
            (Some(_), Some(_)) => {
                for kind in EFI_KINDS {
                    text.push_str(&format!("dhcp-match=set:efi,option:client-arch,{kind}\n"));
                }
                text.push_str(&format!(
                    "dhcp-boot=tag:ipxe,boot.ipxe\ndhcp-boot=tag:!ipxe,tag:efi,{efi}\n\
                     dhcp-boot=tag:!ipxe,tag:!efi,tag:!pi,{bios}\n"
                ));
            }
            (None, _) => {}
        }
        if self.pi.is_some() && self.range.is_some() {
            // Pis take the server's address from it, and no name.
            text.push_str("dhcp-boot=tag:pi,bootcode.bin\n");
        }
        text
    }

    /// What iPXE does. Files are relative to the script's own URI: with a DHCP server of others, `next-server` is theirs.
    pub(super) fn ipxe(&self) -> String {
        let words = self.kernel_words(ROOT);
        format!(
            "#!ipxe\n{HEAD}kernel {KERNEL} initrd={INITRD} {words} BOOTIF=01-${{netX/mac:hexhyp}} rw{}\n\
             initrd {INITRD}\nboot\n",
            more(self.append)
        )
    }

    /// The command line of a Pi, from that of its card: its root is ours.
    pub(super) fn pi_cmdline(&self, card: &str) -> String {
        let is_kept = |word: &&str| {
            let key = word.split('=').next().unwrap_or_default();
            // `resize` and `init` enlarge the card's partition at the first boot.
            let of_card = [
                "root",
                "rootfstype",
                "fsck.repair",
                "resize",
                "init",
                "ro",
                "rw",
            ];
            let of_network = ["outboard", "ip"];
            !of_card.contains(&key) && !of_network.contains(&key)
        };
        let kept: Vec<&str> = card.split_whitespace().filter(is_kept).collect();
        let words = self.kernel_words(self.pi_export());
        format!("{} {words} rw{}\n", kept.join(" "), more(self.append))
    }

    fn kernel_words(&self, export: &str) -> String {
        format!("outboard=nbd://{}/{export} ip=dhcp", self.subnet.address)
    }
}

/// The firmware's configuration of a Pi, from that of its card: with the initramfs that belongs to the kernel.
pub(super) fn pi_config(card: &str) -> String {
    let has_initramfs = card.lines().any(|line| {
        let line = line.trim();
        line == "auto_initramfs=1" || line.starts_with("initramfs ")
    });
    let end = match has_initramfs {
        true => "",
        false => "\n[all]\nauto_initramfs=1\n",
    };
    format!("{HEAD}{}\n{end}", card.trim_end())
}

fn more(append: &str) -> String {
    match append {
        "" => String::new(),
        words => format!(" {words}"),
    }
}

/// A folder as it can be in a line of dnsmasq's configuration: without what ends a value there.
pub(super) fn is_plain(folder: &Path) -> Option<&str> {
    let is_good = |c: char| !c.is_control() && !c.is_whitespace() && !"\"#,\\".contains(c);
    folder.to_str().filter(|text| text.chars().all(is_good))
}
