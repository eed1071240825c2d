//! The plan `object-stores`: a directory, a volume without a cache, and the same with one, measured in one run.

use testkit::requires;

use super::Place;

#[test]
fn the_plan_measures_a_volume_cold_and_cached_against_a_directory() {
    let needs = [
        requires::root(),
        requires::fuse(),
        requires::loop_device(),
        requires::command("fio"),
        requires::command("mkfs.ext4"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    std::fs::create_dir(folder.path().join("base")).expect("a folder");
    let [cold, warm] = ["cold", "warm"].map(|name| format!("{}/volumes/{name}", place.prefix));
    for volume in [&cold, &warm] {
        place.done(&["bucket", "create", volume, "256M"]);
    }
    let cached = format!(
        "cache({warm}, {}/cache, size=512M)",
        folder.path().display()
    );
    let arguments = [
        "lab",
        "run",
        "object-stores",
        "base",
        "--small",
        "--seed",
        "7",
        "--mkfs",
        "ext4",
        "--against",
        &cold,
        "--against",
        &cached,
    ];
    place.done(&arguments);
    let run = &place.json(&["lab", "export"])["run"];
    let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    let (targets, cells) = (list(&run["manifest"]["targets"]), list(&run["cells"]));
    let workloads = list(&run["plan"]["workload"]);
    let names: Vec<&str> = workloads
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let wanted = [
        "rand-read-4k",
        "rand-write-4k",
        "seq-read",
        "seq-write",
        "write-flush",
    ];
    assert_eq!((targets.len(), names.as_slice()), (3, wanted.as_slice()));
    for (w, workload) in workloads.iter().enumerate() {
        for t in 0..targets.len() {
            let mut found = cells.iter();
            let cell = found.find(|cell| cell["workload"] == w && cell["target"] == t);
            let cell = cell.unwrap_or_else(|| panic!("nothing of {workload} on {t}"));
            assert!(cell["outcome"]["fio"]["bytes"].as_u64() > Some(0), "{cell}");
        }
    }
    assert_eq!(place.done(&["status"]), "nothing is attached\n");
    let checked = place.done(&["bucket", "check", &cold, "--data"]);
    assert!(checked.contains("no problem found"), "{checked}");
}
