//! [`Owed`]: what each sector of an array may hold. Pure.
//!
//! # Invariants
//!
//! * Before a crash a sector holds what was written last. After one it holds that, or any other version
//!   that no flush had passed: which one is not known until it is written again.
//! * Whichever it is, it is the same one each time it is read.
//! * A sector with changes that overlapped, failed or were cancelled holds any of the versions at stake.

use block::{Range, WriteFlags};
use testkit::{Op, SECTOR, pattern};

/// What a sector may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// This.
    Bytes(Vec<u8>),
    /// It is not known, but it is one thing.
    Unknown,
    /// Anything, and something else the next time: it was trimmed.
    Trimmed,
}

/// One thing a sector may hold.
#[derive(Debug, Clone)]
struct Version {
    serial: u64,
    content: Content,
}

impl Version {
    fn fits(&self, found: &[u8]) -> bool {
        match &self.content {
            Content::Bytes(bytes) => bytes == found,
            Content::Unknown | Content::Trimmed => true,
        }
    }
}

#[derive(Debug, Clone)]
struct Sector {
    versions: Vec<Version>,
    /// The version that it holds now, if that is known.
    latest: Option<u64>,
    /// The last change that was sent, with any result.
    changed: u64,
    /// Changes under way.
    flying: u32,
    /// Changes overlapped: which one lasts is not known.
    tangled: bool,
    /// What it was read as, since it could last change.
    seen: Option<Vec<u8>>,
}

/// What an array owes its users.
#[derive(Debug, Clone)]
pub(in crate::array::tests) struct Owed {
    sectors: Vec<Sector>,
    next: u64,
    /// Reads may be of another member from now on.
    moves: bool,
}

/// A change under way, or a flush: what it was about when it began.
#[derive(Debug, Clone)]
pub(in crate::array::tests) struct Begun {
    op: Op,
    serial: u64,
    /// What a flush makes certain.
    covers: Vec<(usize, u64)>,
    /// Sectors of a read, as they were: version, and whether nothing was under way.
    before: Vec<(u64, bool)>,
}

impl Begun {
    /// Its number among all of its world.
    pub(in crate::array::tests) const fn number(&self) -> u64 {
        self.serial
    }

    /// What was requested.
    pub(in crate::array::tests) const fn op(&self) -> &Op {
        &self.op
    }
}

pub(super) fn index(value: u64) -> usize {
    usize::try_from(value).expect("a small disk")
}

/// Sectors of a range.
pub(super) fn touched(range: Range) -> std::ops::Range<usize> {
    index(range.offset / SECTOR)..index(range.end() / SECTOR)
}

impl Owed {
    /// An array of `size` zeroes, or of unknown content.
    pub(in crate::array::tests) fn new(size: u64, known: bool) -> Self {
        let content = if known {
            Content::Bytes(vec![0; index(SECTOR)])
        } else {
            Content::Unknown
        };
        let sector = Sector {
            versions: vec![Version { serial: 0, content }],
            latest: known.then_some(0),
            changed: 0,
            flying: 0,
            tangled: false,
            seen: None,
        };
        Self {
            sectors: vec![sector; index(size / SECTOR)],
            next: 1,
            moves: false,
        }
    }

    /// `op` is sent.
    pub(in crate::array::tests) fn begin(&mut self, op: Op) -> Begun {
        let serial = self.next;
        self.next += 1;
        let mut begun = Begun {
            op,
            serial,
            covers: Vec::new(),
            before: Vec::new(),
        };
        match op {
            Op::Flush => {
                let sectors = self.sectors.iter().enumerate();
                let settled = sectors.filter(|(_, sector)| sector.flying == 0);
                begun.covers = settled
                    .filter_map(|(at, sector)| Some((at, sector.latest?)))
                    .collect();
            }
            Op::Read { range } => {
                let sectors = &self.sectors[touched(range)];
                let state = |sector: &Sector| (sector.changed, sector.flying == 0);
                begun.before = sectors.iter().map(state).collect();
            }
            Op::Write { range, fill, .. } => self.change(range, serial, |sector| {
                Content::Bytes(pattern(fill, Range::new(sector * SECTOR, SECTOR)))
            }),
            Op::WriteZeroes { range, .. } => {
                self.change(range, serial, |_| Content::Bytes(vec![0; index(SECTOR)]));
            }
            Op::Trim { range } => self.change(range, serial, |_| Content::Trimmed),
        }
        begun
    }

    fn change(&mut self, range: Range, serial: u64, content: impl Fn(u64) -> Content) {
        for (sector, at) in self.sectors[touched(range)]
            .iter_mut()
            .zip(range.offset / SECTOR..)
        {
            let content = content(at);
            sector.versions.push(Version { serial, content });
            sector.tangled |= sector.flying > 0;
            sector.flying += 1;
            sector.latest = Some(serial);
            sector.changed = serial;
            sector.seen = None;
        }
    }

    /// It was answered, well or not.
    pub(in crate::array::tests) fn end(&mut self, begun: &Begun, well: bool) {
        match begun.op {
            Op::Flush if well => {
                for &(at, serial) in &begun.covers {
                    self.sectors[at].make_certain(serial);
                }
            }
            Op::Flush | Op::Read { .. } => {}
            Op::Write { range, flags, .. } | Op::WriteZeroes { range, flags } => {
                let certain = well && flags.contains(WriteFlags::FUA);
                self.land(range, begun.serial, well, certain);
            }
            Op::Trim { range } => self.land(range, begun.serial, well, false),
        }
    }

    fn land(&mut self, range: Range, serial: u64, well: bool, certain: bool) {
        for sector in &mut self.sectors[touched(range)] {
            sector.flying -= 1;
            sector.tangled |= !well;
            if certain && !sector.tangled && sector.latest == Some(serial) {
                sector.make_certain(serial);
            }
            if sector.flying == 0 && sector.tangled {
                sector.latest = None;
                sector.tangled = false;
            }
        }
    }

    /// Checks what a read gave; reports the first sector that is wrong.
    pub(in crate::array::tests) fn check(
        &mut self,
        begun: &Begun,
        data: &[u8],
    ) -> Result<(), String> {
        let Op::Read { range } = begun.op else {
            return Ok(());
        };
        let sectors = touched(range);
        for ((at, before), found) in sectors.zip(&begun.before).zip(data.chunks_exact(512)) {
            let sector = &mut self.sectors[at];
            let quiet = before.1 && sector.flying == 0 && before.0 == sector.changed;
            if quiet {
                if self.moves {
                    sector.seen = None;
                }
                sector
                    .check(found)
                    .map_err(|what| format!("sector {at}: {what}"))?;
            }
        }
        Ok(())
    }

    /// The power was cut: nothing is under way any more, and what is there is not known.
    pub(in crate::array::tests) fn cut(&mut self) {
        self.moves = false;
        for sector in &mut self.sectors {
            sector.flying = 0;
            sector.tangled = false;
            let is_one = sector.versions.len() == 1;
            let is_known = is_one && sector.versions[0].content != Content::Unknown;
            sector.latest = is_known.then(|| sector.versions[0].serial);
            sector.seen = None;
        }
    }

    /// Members fail from now on: what is read of copies that differ may come from another one.
    pub(in crate::array::tests) fn trust_no_member(&mut self) {
        self.moves = true;
    }

    /// Whether a sector may hold anything, and something else on each member.
    pub(in crate::array::tests) fn is_anything(&self, sector: usize) -> bool {
        let mut versions = self.sectors[sector].versions.iter();
        versions.any(|version| version.content == Content::Trimmed)
    }

    /// What was being written to a sector when the power was cut is not known any more.
    pub(in crate::array::tests) fn forget_in_flight(&mut self, sector: u64) {
        let sector = &mut self.sectors[index(sector)];
        if sector.versions.len() > 1 {
            let serial = sector.changed;
            let content = Content::Unknown;
            sector.versions.push(Version { serial, content });
        }
    }

    /// Bytes.
    pub(in crate::array::tests) fn size(&self) -> u64 {
        self.sectors.len() as u64 * SECTOR
    }
}

impl Sector {
    fn make_certain(&mut self, serial: u64) {
        if self.versions.iter().any(|version| version.serial == serial) {
            self.versions.retain(|version| version.serial >= serial);
        }
    }

    fn check(&mut self, found: &[u8]) -> Result<(), String> {
        if let Some(latest) = self.latest {
            let mut versions = self.versions.iter();
            let version = versions.find(|version| version.serial == latest);
            let version = version.expect("the latest is a version");
            if version.fits(found) {
                return Ok(());
            }
            return Err("it is not what was written last".to_owned());
        }
        let fits = || self.versions.iter().filter(|version| version.fits(found));
        if fits().next().is_none() {
            return Err("it is nothing that was ever to be expected".to_owned());
        }
        let is_firm = fits().all(|version| version.content != Content::Trimmed);
        match &self.seen {
            Some(seen) if is_firm && seen != found => {
                Err("it was something else when it was read before".to_owned())
            }
            _ => {
                self.seen = is_firm.then(|| found.to_vec());
                Ok(())
            }
        }
    }
}
