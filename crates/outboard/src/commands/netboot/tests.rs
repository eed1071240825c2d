//! Tests of what is written into a folder.

use super::*;

fn netboot() -> Netboot<'static> {
    Netboot {
        folder: "/srv/netboot",
        interface: "eth0",
        subnet: Subnet {
            address: Ipv4Addr::new(192, 0, 2, 33),
            prefix: 26,
        },
        range: None,
        pc: Some("/srv/golden.img".to_owned()),
        pi: None,
        append: "",
    }
}

/// Lines that are no comments.
fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
}

#[test]
fn without_a_range_no_machine_gets_an_address() {
    let text = netboot().dnsmasq();
    let ranges: Vec<&str> = text.lines().filter(|l| l.contains("dhcp-range")).collect();
    assert_eq!(ranges, ["dhcp-range=192.0.2.0,proxy,255.255.255.192"]);
    assert!(lines(&text).contains(&"port=0"), "{text}");
    assert!(lines(&text).contains(&"interface=eth0"), "{text}");
}

#[test]
fn with_a_range_a_card_keeps_its_address_in_the_firmware_and_in_the_kernel() {
    let range = Some((Ipv4Addr::new(192, 0, 2, 40), Ipv4Addr::new(192, 0, 2, 50)));
    let text = Netboot { range, ..netboot() }.dnsmasq();
    let lines = lines(&text);
    assert!(lines.contains(&"dhcp-range=192.0.2.40,192.0.2.50,255.255.255.192,infinite"));
    assert!(lines.contains(&"dhcp-ignore-clid"));
}

/// UEFI finds no valid offer where the file is in a service of PXE alone.
#[test]
fn with_a_range_the_offer_has_the_file() {
    let range = Some((Ipv4Addr::new(192, 0, 2, 40), Ipv4Addr::new(192, 0, 2, 50)));
    let boots = |netboot: Netboot<'_>| -> Vec<String> {
        let text = netboot.dnsmasq();
        let boots = ["dhcp-boot", "dhcp-match", "pxe-service"];
        let lines = text
            .lines()
            .filter(|l| boots.iter().any(|b| l.starts_with(b)));
        lines.map(str::to_owned).collect()
    };
    let pc = [
        "dhcp-match=set:efi,option:client-arch,7",
        "dhcp-match=set:efi,option:client-arch,9",
        "dhcp-boot=tag:ipxe,boot.ipxe",
        "dhcp-boot=tag:!ipxe,tag:efi,ipxe.efi",
        "dhcp-boot=tag:!ipxe,tag:!efi,tag:!pi,undionly.kpxe",
    ];
    assert_eq!(boots(Netboot { range, ..netboot() }), pc);
    let pi = Netboot {
        range,
        pc: None,
        pi: Some("/srv/pi.img".to_owned()),
        ..netboot()
    };
    let lines = [
        "pxe-service=tag:pi,0,\"Raspberry Pi Boot\"",
        "dhcp-boot=tag:pi,bootcode.bin",
    ];
    assert_eq!(boots(pi), lines);
}

#[test]
fn each_kind_of_firmware_gets_ipxe_once_and_then_the_script() {
    let text = netboot().dnsmasq();
    let services: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("pxe-service="))
        .collect();
    assert_eq!(
        services,
        [
            "pxe-service=tag:!pi,tag:!ipxe,0,\"outboard\",undionly.kpxe",
            "pxe-service=tag:ipxe,0,\"outboard\",boot.ipxe",
            "pxe-service=tag:!pi,tag:!ipxe,7,\"outboard\",ipxe.efi",
            "pxe-service=tag:ipxe,7,\"outboard\",boot.ipxe",
            "pxe-service=tag:!pi,tag:!ipxe,9,\"outboard\",ipxe.efi",
            "pxe-service=tag:ipxe,9,\"outboard\",boot.ipxe",
        ]
    );
    let both = Netboot {
        pi: Some("/srv/pi.img".to_owned()),
        ..netboot()
    };
    let pi = "pxe-service=tag:pi,0,\"Raspberry Pi Boot\"";
    assert!(lines(&both.dnsmasq()).contains(&pi));
}

#[test]
fn the_script_of_ipxe_begins_with_its_mark_and_names_the_root() {
    let append = "console=ttyS0 quiet";
    let text = Netboot {
        append,
        ..netboot()
    }
    .ipxe();
    assert_eq!(
        lines(&text),
        [
            "#!ipxe",
            "kernel vmlinuz initrd=initrd.img outboard=nbd://192.0.2.33/root ip=dhcp \
             BOOTIF=01-${netX/mac:hexhyp} rw console=ttyS0 quiet",
            "initrd initrd.img",
            "boot",
        ]
    );
}

/// Its exports, as the parser of `serve` reads them.
fn exports(netboot: &Netboot<'_>) -> Vec<(String, String)> {
    let plan = crate::config::parse(&netboot.server()).unwrap();
    let exports = plan.exports.into_iter().map(|export| {
        let overlay = export.overlay.unwrap();
        let folder = crate::config::OverlayPlace::Folder("/srv/netboot/overlays".into());
        assert_eq!(overlay.place, folder);
        assert_eq!(overlay.named_by, nbd::server::NamedBy::Address);
        (export.name, export.disk.text)
    });
    exports.collect()
}

#[test]
fn the_server_reads_its_configuration_with_any_path() {
    let path = "/srv/a \"b\" \\ 'c'.img";
    let named = Netboot {
        pc: Some(path.to_owned()),
        pi: Some("partition(/srv/pi.img, 2)".to_owned()),
        ..netboot()
    };
    let pc = ("root".to_owned(), path.to_owned());
    let pi = ("pi".to_owned(), "partition(/srv/pi.img, 2)".to_owned());
    assert_eq!(exports(&named), [pc, pi.clone()]);
    let pi_alone = Netboot { pc: None, ..named };
    assert_eq!(exports(&pi_alone), [("root".to_owned(), pi.1)]);
}

#[test]
fn a_pi_gets_its_cards_command_line_with_another_root() {
    let pi = Netboot {
        pc: None,
        pi: Some("/srv/pi.img".to_owned()),
        ..netboot()
    };
    let card = "console=serial0,115200 console=tty1 root=PARTUUID=4d9e0d5a-02 rootfstype=ext4 fsck.repair=yes \
                rootwait quiet init=/usr/lib/raspberrypi-sys-mods/firstboot\n";
    assert_eq!(
        pi.pi_cmdline(card),
        "console=serial0,115200 console=tty1 rootwait quiet outboard=nbd://192.0.2.33/root ip=dhcp rw\n"
    );
    // What was made of it is made of it again.
    assert_eq!(
        pi.pi_cmdline(&pi.pi_cmdline("quiet")),
        pi.pi_cmdline("quiet")
    );
}

#[test]
fn the_initramfs_of_a_pi_is_loaded_once() {
    let added = files::pi_config("arm_64bit=1\n");
    assert_eq!(
        lines(&added),
        ["arm_64bit=1", "", "[all]", "auto_initramfs=1"]
    );
    for has_one in ["auto_initramfs=1", "initramfs initrd.img followkernel"] {
        let kept = files::pi_config(has_one);
        assert_eq!(lines(&kept), [has_one]);
    }
}

#[test]
fn a_folder_that_dnsmasq_would_misread_is_refused() {
    assert_eq!(
        files::is_plain(Path::new("/srv/netboot-1")),
        Some("/srv/netboot-1")
    );
    for bad in ["/a b", "/a,b", "/a#b", "/a\"b", "/a\nb", "/a\\b"] {
        assert_eq!(files::is_plain(Path::new(bad)), None, "{bad}");
    }
}

#[test]
fn ranges_are_two_addresses_in_order() {
    let good = range("10.0.0.9,10.0.0.10").unwrap();
    assert_eq!(
        good,
        (Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(10, 0, 0, 10))
    );
    for bad in ["10.0.0.9", "10.0.0.9,", "10.0.0.10,10.0.0.9", "a,b"] {
        assert!(range(bad).is_err(), "{bad}");
    }
    assert!(one_line("a\nb").is_err() && one_line("${x}").is_err() && one_line("a b").is_ok());
}
