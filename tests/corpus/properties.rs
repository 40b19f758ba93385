//! What holds for any bytes: the properties that both the fuzz targets and `tests/corpus.rs` check.
//!
//! The first bytes of each input choose the options, the rest is the file. A property that does not hold
//! panics.

use std::io::Read;
use std::path::PathBuf;

use enlist::batch::Outcome;
use enlist::decode::{Decoder, Rest, later_header, sniff};
use enlist::fault::{Code, Fault};
use enlist::import::plan::plan;
use enlist::import::rows::Rows;
use enlist::phone::PhoneRules;
use enlist::position::Position;
use enlist::reject::{Reason, Reject};
use enlist::reject_file::RejectFile;
use enlist::row::Row;
use enlist::settings::{Blank, ColumnRef, Dialect, Field, HeaderRow, PhoneType, Settings, ShortRows, Wanted};
use enlist::source::{Origin, Packing, Reading, SpoolFolder, Survey, survey};

/// How much text is looked at closely, in bytes; what is packed can hold any amount.
const TEXT_MAX: usize = 1024 * 1024;

/// From how many places reading begins anew.
const SEEKS: usize = 8;

/// How many rows are compared from each.
const COMPARED: usize = 40;

/// A file of the given content in a folder of its own.
struct Input {
    folder: tempfile::TempDir,
    spools: SpoolFolder,
}

impl Input {
    fn new(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("list.csv"), content).expect("written");
        let spools = SpoolFolder::new(folder.path().join("spools"), "sqlite:fuzz", "fuzz");
        Self { folder, spools }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("list.csv")
    }

    fn survey(&self, wanted: &Wanted) -> Result<Survey, Fault> {
        let reading = Reading {
            encoding: wanted.encoding.as_deref(),
            region: wanted.region.as_deref(),
            sheet: wanted.sheet.as_deref(),
            spools: &self.spools,
            stopped: &|| None,
        };
        survey(&Origin::File(self.path()), &reading, &mut |_, _| {})
    }
}

/// An error is one that a person can do something about, in words that fit on a screen.
fn check_fault(fault: &Fault) {
    assert!(!matches!(fault.code, Code::Internal | Code::FileChanged | Code::NotFound), "{fault:?}");
    for text in [fault.message.as_str(), &fault.hint] {
        assert!(!text.is_empty() && text.len() < 32 * 1024 && !text.contains(char::is_control), "{fault:?}");
    }
}

fn pick<T: Copy>(from: &[T], by: u8) -> T {
    from[usize::from(by) % from.len()]
}

/// Up to `SEEKS` numbers below `below`, the first and the last among them.
fn spread(below: usize) -> impl Iterator<Item = usize> {
    let step = below.div_ceil(SEEKS).max(1);
    (0..below).step_by(step).chain(below.checked_sub(1))
}

/// Any file: it is refused with a reason, or its text can be read from any place, and so can its rows.
pub(super) fn source(data: &[u8]) {
    let Some((&options, file)) = data.split_first() else { return };
    let region = pick(&[Some("TR"), None, Some("GR"), Some("JP")], options & 3);
    let encoding = pick(&[None, Some("windows-1254"), None, Some("utf-16le")], options >> 2 & 3);
    let wanted = Wanted {
        region: region.map(str::to_owned),
        encoding: encoding.map(str::to_owned),
        sheet: (options & 0x10 != 0).then(|| "Sheet2".to_owned()),
        header: if options & 0x20 == 0 { HeaderRow::Present } else { HeaderRow::Absent },
        map: if options & 0x40 == 0 { Vec::new() } else { vec![(Field::Phone, ColumnRef::Number(1))] },
        ..Wanted::default()
    };
    let input = Input::new(file);
    let found = match input.survey(&wanted) {
        Ok(found) => found,
        Err(fault) => return check_fault(&fault),
    };
    assert_eq!(found.raw_bytes, file.len() as u64);
    let again = input.survey(&wanted).expect("it was read before");
    assert_eq!(
        (&again.fingerprint, &again.encoding, &again.sheet),
        (&found.fingerprint, &found.encoding, &found.sheet)
    );
    let text = text_from(&found, 0, TEXT_MAX + 1);
    if text.len() <= TEXT_MAX {
        assert!(found.text_bytes.is_none_or(|bytes| bytes == text.len() as u64));
        assert!(!text.is_empty());
    }
    if found.encoding != "utf-8" && text.len() <= TEXT_MAX {
        assert!(std::str::from_utf8(&text).is_ok(), "what was converted is text");
    }
    if found.packing == Packing::Plain && found.encoding == "utf-8" && found.sheet.is_none() {
        assert!(file.ends_with(&text) || text.len() > TEXT_MAX, "plain text is the file's own");
    }
    for at in spread(text.len()) {
        let rest = text_from(&found, at as u64, 4096);
        assert!(text[at..].starts_with(&rest) && rest.len() >= (text.len() - at).min(4096), "from {at}");
    }
    assert!(text_from(&found, u64::MAX, 16).is_empty());
    match plan(&found, &wanted) {
        Ok(settings) if text.len() <= TEXT_MAX => check_rows(&found, &settings, &text),
        Ok(_) => {}
        Err(fault) => check_fault(&fault),
    }
}

fn text_from(found: &Survey, at: u64, most: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let reader = found.open_at(at).expect("it can be opened again");
    reader.take(most as u64).read_to_end(&mut text).expect("it can be read again");
    text
}

/// What is compared of a row.
type Seen = (Position, Position, Outcome);

fn rows_from(found: &Survey, settings: &Settings, at: Position, most: usize) -> Vec<Seen> {
    let mut rows = Rows::from(found, settings, at).expect("the rows can be opened");
    let mut seen = Vec::new();
    while seen.len() < most
        && let Some((row, outcome)) = rows.next_row().expect("the rows can be read")
    {
        seen.push((row.start, row.end, outcome));
    }
    seen
}

/// Every line belongs to one row, and the rows are the same wherever reading begins.
fn check_rows(found: &Survey, settings: &Settings, text: &[u8]) {
    let rows = rows_from(found, settings, settings.data_start, usize::MAX);
    let mut at = settings.data_start;
    for (start, end, outcome) in &rows {
        assert_eq!(*start, at, "rows follow one another");
        assert!(end.byte > start.byte && end.line > start.line);
        if let Outcome::Reject(reject) = outcome {
            assert_eq!(reject.at, *start);
        }
        at = *end;
    }
    assert_eq!(at.byte, text.len() as u64, "the rows end with the text");
    let from = usize::try_from(settings.data_start.byte).expect("it is small");
    assert_eq!(at.line - settings.data_start.line, lines_of(&text[from..]), "every line is counted once");
    for place in spread(rows.len()) {
        let again = rows_from(found, settings, rows[place].0, COMPARED);
        assert!(rows[place..].starts_with(&again), "other rows from {}", rows[place].0);
        assert_eq!(again.len(), (rows.len() - place).min(COMPARED));
    }
}

/// Physical lines by a plain scan; what stands behind the last line end is one.
fn lines_of(text: &[u8]) -> u64 {
    let ends = text.iter().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => text.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    ends.count() as u64 + u64::from(!text.is_empty() && !text.ends_with(b"\n") && !text.ends_with(b"\r"))
}

/// Gives its bytes a few at a time.
struct Dribble<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = self.most.min(into.len()).min(self.rest.len());
        into[..len].copy_from_slice(&self.rest[..len]);
        self.rest = &self.rest[len..];
        Ok(len)
    }
}

type Record = (Position, Position, Vec<u8>, Vec<Vec<u8>>, Option<Reason>);

fn records(reader: impl Read, dialect: Dialect, at: Position, expected: Option<(usize, usize)>) -> Vec<Record> {
    let mut decoder = Decoder::new(reader, dialect, at);
    if let Some((width, phone)) = expected {
        decoder.watch_for(width, phone);
    }
    let (mut row, mut seen) = (Row::default(), Vec::new());
    while decoder.next(&mut row).expect("memory can be read") {
        let cells = (0..row.cells.len()).map(|column| row.cell(column).to_vec()).collect();
        seen.push((row.start, row.end, row.raw.clone(), cells, row.fault.as_ref().map(|fault| fault.reason)));
    }
    seen
}

/// Any text: records cover it, whatever the reader's pieces, and from each of them on they are the same.
pub(super) fn decode(data: &[u8]) {
    let Some((&[options, delimiter], text)) = data.split_first_chunk::<2>() else { return };
    let signs = if options & 1 == 0 { Some(b'"') } else { None };
    let wanted = Wanted {
        delimiter: (options & 2 != 0).then(|| pick(b",;\t|^:~ ", delimiter)),
        quote: (options & 4 != 0).then_some(signs),
        escape: (options & 8 != 0).then_some(b'\\'),
        header: if options & 16 == 0 { HeaderRow::Present } else { HeaderRow::Absent },
        skip_lines: u32::from(options >> 5 & 1),
        ..Wanted::default()
    };
    let rest = if options & 0x40 == 0 { Rest::Nothing } else { Rest::Unread };
    let sniffed = match sniff(text, rest, &wanted) {
        Ok(sniffed) => sniffed,
        Err(fault) => return check_fault(&fault),
    };
    assert!(wanted.delimiter.is_none_or(|given| given == sniffed.dialect.delimiter));
    assert!(sniffed.first_row.byte <= text.len() as u64 && sniffed.data_start.byte <= text.len() as u64);
    later_header(text, &sniffed, |cells| cells.len() > 2);
    let from = usize::try_from(sniffed.data_start.byte).expect("it is small");
    let expected = (sniffed.width > 0 && options & 0x80 == 0)
        .then_some((sniffed.width, usize::from(delimiter >> 4) % sniffed.width.max(1)));
    let (start, dialect) = (sniffed.data_start, sniffed.dialect);
    let all = records(&text[from..], dialect, start, expected);
    let mut at = start;
    for (start, end, raw, cells, fault) in &all {
        assert_eq!(*start, at);
        let whole = &text[usize::try_from(start.byte).unwrap()..usize::try_from(end.byte).unwrap()];
        assert!(whole.starts_with(raw) && matches!(&whole[raw.len()..], b"" | b"\n" | b"\r" | b"\r\n"));
        assert_eq!(end.line - start.line, lines_of(whole));
        assert!(!whole.is_empty() && (fault.is_none() || cells.is_empty()));
        at = *end;
    }
    assert_eq!(at.byte, text.len() as u64);
    let most = 1 + usize::from(delimiter & 7);
    assert_eq!(records(Dribble { rest: &text[from..], most }, dialect, start, expected), all);
    for place in spread(all.len()) {
        let (at, ..) = all[place];
        let rest = &text[usize::try_from(at.byte).unwrap()..];
        assert_eq!(records(rest, dialect, at, expected), all[place..]);
    }
}

/// Any rows: each ends in one way, and what is kept of it is what a database and a reject file can hold.
pub(super) fn normalise(data: &[u8]) {
    let Some((&[options, more], file)) = data.split_first_chunk::<2>() else { return };
    let regions = [Some("TR"), None, Some("GR"), Some("DE"), Some("US"), Some("NO"), Some("FR"), Some("IT")];
    let region = pick(&regions, options & 7);
    check_phones(file, region);
    let wanted = Wanted {
        region: region.map(str::to_owned),
        header: if options & 8 == 0 { HeaderRow::Present } else { HeaderRow::Absent },
        map: if options & 16 == 0 { Vec::new() } else { vec![(Field::Phone, ColumnRef::Number(1))] },
        short_rows: if options & 32 == 0 { ShortRows::Reject } else { ShortRows::Fill },
        phone_type: if options & 64 == 0 { PhoneType::Any } else { PhoneType::Mobile },
        blank: if options & 128 == 0 { Blank::Keep } else { Blank::Clear },
        newer_by: (more & 1 != 0).then_some(ColumnRef::Number(2)),
        max_name_length: (more & 2 != 0).then_some(5),
        ..Wanted::default()
    };
    let input = Input::new(file);
    let Ok(found) = input.survey(&wanted) else { return };
    let text = text_from(&found, 0, TEXT_MAX + 1);
    if text.len() > TEXT_MAX {
        return;
    }
    let settings = match plan(&found, &wanted) {
        Ok(settings) => settings,
        Err(fault) => return check_fault(&fault),
    };
    assert_eq!(plan(&found, &wanted).expect("it was planned before").digest(), settings.digest());
    let rules = PhoneRules::new(None, settings.phone_type).expect("no region is one");
    let mut rejects = Vec::new();
    for (_, _, outcome) in rows_from(&found, &settings, settings.data_start, usize::MAX) {
        match outcome {
            Outcome::Blank => {}
            Outcome::Recipient(one) => {
                assert_eq!(rules.read(one.phone.as_str(), None).as_ref(), Ok(&one.phone), "a phone is its own text");
                assert_eq!(one.attributes.iter().count(), settings.columns.attributes.len());
                for text in one.name.as_deref().into_iter().chain(one.attributes.iter().flatten()) {
                    assert!(!text.contains('\0'), "no database text holds it");
                }
            }
            Outcome::Reject(reject) => rejects.push(reject),
        }
    }
    check_rejects(&settings, &wanted, &rejects);
}

/// A reject file has whole lines, and what was not mended in it is refused again.
fn check_rejects(settings: &Settings, wanted: &Wanted, rejects: &[Reject]) {
    let mut file = RejectFile::new(settings);
    rejects.iter().for_each(|reject| file.make_room(reject));
    let width = file.header_cells().count();
    let mut text = Vec::new();
    file.push_header(&mut text);
    for reject in rejects {
        assert_eq!(file.row_cells(reject).len(), width, "every line has the header's cells");
        assert!(!reject.detail.is_empty() && !reject.detail.chars().any(char::is_control));
        let digits = reject.detail.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
        assert!(digits < 7 || reject.reason == Reason::FieldTooLong, "a phone is quoted: {}", reject.detail);
        file.push_row(reject, &mut text);
    }
    let input = Input::new(&text);
    let found = input.survey(&Wanted::default()).expect("a reject file is a list");
    let wanted = Wanted { delimiter: Some(settings.dialect.delimiter), ..wanted.clone() };
    // The columns can have been named by place or not at all, so that the header alone need not tell them.
    let Ok(again) = plan(&found, &wanted) else { return };
    if again.columns.phone != settings.columns.phone || again.columns.reject_reason.is_none() {
        return;
    }
    for (reject, (_, _, outcome)) in rejects.iter().zip(rows_from(&found, &again, again.data_start, usize::MAX)) {
        let lasts = matches!(
            reject.reason,
            Reason::PhoneMissing | Reason::PhoneNotANumber | Reason::PhoneInvalid | Reason::RowTooShort
        );
        assert!(
            !lasts || matches!(outcome, Outcome::Reject(_)),
            "{} was refused and not mended, and became {outcome:?}",
            reject.reason
        );
    }
}

/// Any cell: one phone or a reason, and a phone is its own text.
fn check_phones(cells: &[u8], region: Option<&str>) {
    let rules = PhoneRules::new(region, PhoneType::Any).expect("the region is known");
    for line in String::from_utf8_lossy(cells).lines().take(COMPARED) {
        let (cell, own) = line.rsplit_once(',').map_or((line, None), |(cell, own)| (cell, Some(own)));
        match rules.read(cell, own) {
            Ok(phone) => {
                assert_eq!(rules.read(phone.as_str(), None).as_ref(), Ok(&phone));
                assert!(phone.as_str().starts_with('+') && phone.as_str().len() <= 16, "E.164 has 15 digits");
            }
            Err(refusal) => assert!(!refusal.detail.is_empty()),
        }
    }
}
