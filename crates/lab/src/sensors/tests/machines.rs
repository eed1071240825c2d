//! Text as machines of several kinds give it: a Raspberry Pi 4, another ARM board, PCs old and new, and
//! a virtual machine without sensors.

use std::fs;
use std::path::Path;

use super::super::sysfs::Places;
use super::super::*;

/// A Raspberry Pi 4.
const PI: &str = "\
           CPU0       CPU1       CPU2       CPU3
 11:    1031542    1178404     797837     726480     GICv2  30 Level     arch_timer
 14:      29806          0          0          0     GICv2  65 Level     fe00b880.mailbox
 31:       4331          0          0          0  BRCM STB PCIe MSI 524288 Edge      xhci_hcd
 38:      62443          0          0          0     GICv2 189 Level     eth0
 39:       7002          0          0          0     GICv2 190 Level     eth0
 40:      15009          0          0          0     GICv2 158 Level     mmc1, mmc0
IPI0:     12026      23419      22973      21551       Rescheduling interrupts
Err:          0
";
/// A PC of the nineties, as Red Hat's manual shows it.
const OLD: &str = "\
           CPU0       CPU1
  0: 1366814704          0          XT-PIC  timer
  1:        128        340    IO-APIC-edge  keyboard
 16:   11184294   15940594   IO-APIC-level  Intel EtherExpress Pro 10/100 Ethernet
NMI:          0
ERR:          0
";
/// A virtual machine.
const VM: &str = "\
           CPU0       CPU1
 26:          0         13  IO-APIC   4-edge      ttyS0
 36:          0   10602724 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41:       7555          0 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx
LOC:    3626074    3848350   Local timer interrupts
MIS:          0
";

fn interrupts_of(text: &str, name: &str) -> Option<u64> {
    let found = interrupts::parse(text);
    let one = found.sources.into_iter().find(|(same, _)| same == name);
    one.map(|(_, count)| count)
}

#[test]
fn interrupts_are_named_by_the_device_and_its_lines_added_up() {
    assert_eq!(interrupts_of(PI, "eth0"), Some(62_443 + 7002));
    assert_eq!(interrupts_of(PI, "xhci_hcd"), Some(4331));
    assert_eq!(interrupts_of(PI, "mmc1, mmc0"), Some(15_009));
    assert_eq!(
        interrupts_of(PI, "Rescheduling interrupts"),
        Some(12_026 + 23_419 + 22_973 + 21_551)
    );
    assert_eq!(interrupts_of(OLD, "timer"), Some(1_366_814_704));
    assert_eq!(
        interrupts_of(OLD, "Intel EtherExpress Pro 10/100 Ethernet"),
        Some(11_184_294 + 15_940_594)
    );
    assert_eq!(interrupts_of(VM, "virtio1-req.0"), Some(10_602_724));
    assert_eq!(interrupts_of(VM, "Local timer interrupts"), Some(7_474_424));
}

#[test]
fn counts_of_the_whole_machine_are_no_cores() {
    for (text, cores) in [(PI, 4), (OLD, 2), (VM, 2)] {
        let found = interrupts::parse(text);
        assert_eq!(found.cores.len(), cores);
        let of_cores: u64 = found.cores.iter().map(|(_, count)| count).sum();
        let of_sources: u64 = found.sources.iter().map(|(_, count)| count).sum();
        assert_eq!(of_cores, of_sources);
        assert!(!found.sources.iter().any(|(name, _)| name == "ERR"));
    }
}

/// An offline core has no column: numbers come from the head.
#[test]
fn cores_keep_their_numbers_when_one_is_offline() {
    let found = interrupts::parse("  CPU0 CPU2\n 5: 1 20 GICv3 26 Level arch_timer\n");
    assert_eq!(found.cores, [(0, 1), (2, 20)]);
}

const NET: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 227565904687 30328706    0    0    0     0          0         0 227565904687 30328706    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
eth0.5:386522008   13902    1    2    0     0          0         0   556457    7064    3    4    0     0       0          0
";

#[test]
fn interfaces_that_carried_nothing_are_left_out() {
    let found = net::parse(NET);
    let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["lo", "eth0.5"]);
    let received = LinkCounters {
        bytes: 386_522_008,
        packets: 13_902,
        errors: 1,
        drops: 2,
    };
    assert_eq!(found[1].received, received);
    assert_eq!((found[1].sent.errors, found[1].sent.drops), (3, 4));
}

#[test]
fn waiting_is_reported_by_totals_and_never_for_a_full_processor() {
    let text = "some avg10=33.09 avg60=29.64 avg300=12.85 total=610521917\n\
                full avg10=29.99 avg60=26.53 avg300=11.23 total=257596887\n";
    let io = pressure::parse("io", text);
    let told: Vec<(&str, u64)> = io.iter().map(|c| (c.item.as_str(), c.count)).collect();
    assert_eq!(told, [("io/some", 610_521_917), ("io/full", 257_596_887)]);
    assert_eq!(pressure::parse("cpu", text).len(), 1);
}

#[test]
fn load_and_memory_are_read() {
    let load = load::parse("1.64 1.65 1.70 2/122 20999\n");
    let told: Vec<(&str, f64)> = load.iter().map(|g| (g.item.as_str(), g.value)).collect();
    assert_eq!(told, [("minute", 1.64), ("running", 2.0)]);
    let memory = load::parse_memory("MemTotal: 8 kB\nCached:   1024 kB\nDirty: 4 kB\n");
    let told: Vec<(&str, f64)> = memory.iter().map(|g| (g.item.as_str(), g.value)).collect();
    assert_eq!(told, [("cached", 1_048_576.0), ("dirty", 4096.0)]);
}

/// Under-voltage and a throttled clock now, both and the capped clock since boot.
#[test]
fn a_raspberry_pi_says_that_it_is_throttled() {
    for text in ["throttled=0x70005\n", "70005\n"] {
        let raised: Vec<String> = thermal::throttled(text)
            .into_iter()
            .filter(|flag| flag.value > 0.0)
            .map(|flag| flag.item)
            .collect();
        assert_eq!(
            raised,
            [
                "under-voltage",
                "under-voltage-since-boot",
                "frequency-capped-since-boot",
                "throttled",
                "throttled-since-boot",
            ]
        );
    }
    assert_eq!(thermal::throttled("error=1 error_msg=\"x\""), []);
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn samples_of(places: &mut Places) -> Vec<(&'static str, String, f64)> {
    let (gauges, _) = places.read();
    gauges
        .into_iter()
        .map(|gauge| (gauge.sensor, gauge.item, gauge.value))
        .collect()
}

#[test]
fn a_raspberry_pi_has_one_temperature_four_clocks_and_the_firmwares_flags() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str, text: &str| put(root.path(), path, text);
    at("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    at("sys/class/thermal/thermal_zone0/temp", "65822\n");
    at("sys/class/hwmon/hwmon0/name", "cpu_thermal\n");
    at("sys/class/hwmon/hwmon0/temp1_input", "65822\n");
    for core in 0..4 {
        let folder = format!("sys/devices/system/cpu/cpu{core}/cpufreq");
        at(&format!("{folder}/scaling_cur_freq"), "1500000\n");
    }
    at(
        "sys/devices/platform/soc/soc:firmware/get_throttled",
        "50000\n",
    );
    let mut places = Places::find(root.path());
    let told = samples_of(&mut places);
    assert_eq!(told[0], ("temperature", "cpu-thermal".into(), 65.822));
    assert_eq!(told[1], ("clock", "0".into(), 1.5e9));
    let count = |sensor: &str| told.iter().filter(|one| one.0 == sensor).count();
    assert_eq!(
        (count("temperature"), count("clock"), count("throttle")),
        (1, 4, 8)
    );
}

#[test]
fn a_pc_names_its_chips_and_asks_its_drives_seldom() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str, text: &str| put(root.path(), path, text);
    at("sys/class/thermal/thermal_zone0/type", "acpitz\n");
    at("sys/class/thermal/thermal_zone0/temp", "-274000\n");
    at("sys/class/thermal/thermal_zone1/type", "acpitz\n");
    at("sys/class/thermal/thermal_zone1/temp", "27800\n");
    at("sys/class/hwmon/hwmon2/name", "k10temp\n");
    at("sys/class/hwmon/hwmon2/temp1_input", "41250\n");
    at("sys/class/hwmon/hwmon2/temp1_label", "Tctl\n");
    at("sys/class/hwmon/hwmon3/name", "nvme\n");
    at("sys/class/hwmon/hwmon3/temp1_input", "38850\n");
    let throttle = "sys/devices/system/cpu/cpu0/thermal_throttle";
    at(&format!("{throttle}/core_throttle_count"), "12\n");
    let mut places = Places::find(root.path());
    let (gauges, counters) = places.read();
    let told: Vec<(&str, f64)> = gauges.iter().map(|g| (g.item.as_str(), g.value)).collect();
    let expected = [
        ("acpitz/1", 27.8),
        ("k10temp/Tctl", 41.25),
        ("nvme/temp1", 38.85),
    ];
    assert_eq!(
        told, expected,
        "a zone that is not connected gives no sample"
    );
    assert_eq!(counters[0].item, "core/0");
    let asked = (1..=20)
        .filter(|_| places.read().0.iter().any(|g| g.item == "nvme/temp1"))
        .count();
    assert_eq!(asked, 2, "of twenty readings");
}

#[test]
fn a_machine_without_sensors_has_no_samples_of_them() {
    let root = tempfile::tempdir().unwrap();
    let mut places = Places::find(root.path());
    assert_eq!(samples_of(&mut places), []);
}
