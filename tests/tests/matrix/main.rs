//! Every client of the field over every transport against our server, as one table.
//!
//! Each cell has a server, an image and a folder of its own, does real work with one client and compares
//! what the client saw and what the image holds afterwards. A cell that cannot be says why, and one that
//! is wrong fails the test after the table was printed. The kernel's own client is tried in the guest.

mod clients;
mod transports;

use std::any::Any;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use outboard_tests::image::{Folder, MIB, pattern};
use outboard_tests::said::needs_nbdsh;
use testkit::{first_difference, requires};

use self::clients::{CLIENTS, Client};
use self::transports::{Place, TRANSPORTS, Transport};

/// Size of every image.
const SIZE: u64 = 8 * MIB;

/// Where an image has data before a client writes to it: offset and length.
const DATA: [(u64, u64); 2] = [(0, MIB), (4 * MIB, MIB)];

/// What a client of one cell works with.
#[derive(Debug)]
struct Cell {
    place: Place,
    folder: Folder,
}

/// What came of a cell.
#[derive(Debug)]
enum Outcome {
    Works,
    Cannot(&'static str),
    Wrong(String),
}

impl Cell {
    /// A file of data that nothing has seen yet, as large as the image.
    fn source(&self) -> String {
        self.folder.filled("source", SIZE, 5)
    }
}

/// What an image holds before a client writes to it.
fn sparse() -> Vec<u8> {
    let mut content = vec![0; index(SIZE)];
    for (offset, len) in DATA {
        content[index(offset)..index(offset + len)].copy_from_slice(&pattern(len, offset + 1));
    }
    content
}

/// The same as a file with holes.
fn sparse_file(folder: &Folder) -> String {
    use std::os::unix::fs::FileExt;
    let path = folder.empty("image", SIZE);
    let file = std::fs::OpenOptions::new().write(true).open(&path);
    let file = file.expect("a new file");
    for (offset, len) in DATA {
        let data = pattern(len, offset + 1);
        file.write_all_at(&data, offset).expect("room for data");
    }
    path
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("an image that fits into memory")
}

fn run(client: &Client, transport: Transport) -> Outcome {
    if let Some(reason) = (client.cannot)(transport) {
        return Outcome::Cannot(reason);
    }
    let tried = catch_unwind(AssertUnwindSafe(|| try_cell(client, transport)));
    match tried {
        Ok(()) => Outcome::Works,
        Err(panic) => Outcome::Wrong(message(panic.as_ref())),
    }
}

/// Panics where something is wrong.
fn try_cell(client: &Client, transport: Transport) {
    let folder = Folder::new();
    let image = sparse_file(&folder);
    let place = Place::start(transport, &image);
    let cell = Cell { place, folder };
    let expected = (client.work)(&cell);
    cell.place.stop();
    let Some(expected) = expected else {
        return;
    };
    let found = std::fs::read(&image).expect("an image to read");
    assert_eq!(found.len(), expected.len(), "the image's size");
    let differ = first_difference(&found, &expected);
    assert_eq!(differ, None, "the image's first byte that is wrong");
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// The table, and what is behind its marks.
fn table(rows: &[(&Client, Vec<Outcome>)]) -> String {
    let mut text = format!("\n{:<22}", "");
    for transport in TRANSPORTS {
        write!(text, "{:<19}", transport.name()).expect("a text grows");
    }
    let mut notes = Vec::new();
    for (client, outcomes) in rows {
        write!(text, "\n{:<22}", client.name).expect("a text grows");
        for outcome in outcomes {
            let shown = match outcome {
                Outcome::Works => "works".to_owned(),
                Outcome::Wrong(_) => "WRONG".to_owned(),
                Outcome::Cannot(reason) => {
                    let known = notes.iter().position(|note| note == reason);
                    let number = known.unwrap_or_else(|| {
                        notes.push(*reason);
                        notes.len() - 1
                    });
                    format!("cannot ({})", number + 1)
                }
            };
            write!(text, "{shown:<19}").expect("a text grows");
        }
    }
    for (number, note) in notes.iter().enumerate() {
        write!(text, "\n({}) {note}", number + 1).expect("a text grows");
    }
    text + "\n"
}

#[test]
fn every_client_does_its_work_over_every_transport() {
    let programs = ["nbdinfo", "nbdcopy", "qemu-img", "qemu-io", "fio", "nbdkit"];
    let mut needs: Vec<_> = programs.map(requires::command).into();
    needs.push(needs_nbdsh());
    if !requires::all(&needs) {
        return;
    }
    let rows: Vec<_> = CLIENTS
        .iter()
        .map(|client| {
            let cells = TRANSPORTS.map(|transport| run(client, transport));
            (client, Vec::from(cells))
        })
        .collect();
    // Not by `print!`, which is shown for a test that failed only.
    let shown = std::io::stdout().write_all(table(&rows).as_bytes());
    shown.expect("a place to print to");
    let mut wrong = String::new();
    for (client, outcomes) in &rows {
        for (outcome, transport) in outcomes.iter().zip(TRANSPORTS) {
            if let Outcome::Wrong(why) = outcome {
                let cell = format!("{} over {}", client.name, transport.name());
                writeln!(wrong, "{cell}: {why}").expect("a text grows");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
