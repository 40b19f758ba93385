//! A file of phones, whatever an import would take as one.
//!
//! Owns finding its phone column, which a header need not name, and reading it row by row. It does not know
//! what the phones are for. Invariant: a row that says something is a phone or a refusal, never passed over.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::batch::Outcome;
use crate::decode::Decoder;
use crate::fault::{Code, Fault};
use crate::import::plan::plan;
use crate::normalise::Normaliser;
use crate::phone::Phone;
use crate::reject::Refusal;
use crate::row::Row;
use crate::settings::{ColumnRef, Field, HeaderRow, Settings, ShortRows, Wanted, trim};
use crate::source::{Origin, Reading, Spool, SpoolFolder, Survey, TextReader, fault_of, must_spool, survey};

/// The phone of a row, or why it has none.
pub(crate) type PhoneRead = Result<Phone, Refusal>;

/// The phones of a file, one a row.
pub(crate) struct PhoneFile {
    survey: Survey,
    decoder: Decoder<TextReader>,
    normaliser: Normaliser,
    row: Row,
    /// The copy of an input that cannot be read twice; it goes when this is dropped.
    _spool: Option<Spool>,
}

impl PhoneFile {
    /// Opens a file, a workbook, a packed file, or standard input for `-`, which is read to its end first.
    ///
    /// The phones stand in the column that `wanted` or the header names, else in the first one; a first row
    /// without a digit in that column is a header. Errors: those of an import that cannot read its file.
    pub(crate) fn open(path: &Path, wanted: &Wanted, spools: &SpoolFolder) -> Result<Self, Fault> {
        let (path, spool) = copied(path, spools)?;
        let reading = Reading {
            encoding: wanted.encoding.as_deref(),
            region: wanted.region.as_deref(),
            sheet: wanted.sheet.as_deref(),
            spools,
            stopped: &|| None,
        };
        let survey = survey(&Origin::File(path.clone()), &reading, &mut |_, _| {}).map_err(|fault| match &spool {
            Some(_) => {
                let message = fault.message.replace(&format!("'{}'", path.display()), "standard input");
                Fault { message, ..fault }
            }
            None => fault,
        })?;
        let opened = settings(&survey, wanted).and_then(|settings| {
            let start = settings.data_start;
            let mut decoder = Decoder::new(survey.open_at(start.byte)?, settings.dialect, start);
            decoder.watch_for(settings.columns.width, settings.columns.phone);
            Ok((decoder, Normaliser::new(&phones_alone(settings))?))
        });
        match opened {
            Ok((decoder, normaliser)) => Ok(Self { survey, decoder, normaliser, row: Row::default(), _spool: spool }),
            Err(fault) => {
                forget_sheet(&survey);
                Err(fault)
            }
        }
    }

    /// The next row that is not blank: its line, and its phone or why it has none.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, PhoneRead)>, Fault> {
        while self.decoder.next(&mut self.row).map_err(|error| fault_of(error, self.survey.origin()))? {
            let line = self.row.start.line;
            match self.normaliser.normalise(&self.row) {
                Outcome::Blank => {}
                Outcome::Recipient(recipient) => return Ok(Some((line, Ok(recipient.phone)))),
                Outcome::Reject(reject) => {
                    return Ok(Some((line, Err(Refusal { reason: reject.reason, detail: reject.detail }))));
                }
            }
        }
        Ok(None)
    }
}

impl Drop for PhoneFile {
    fn drop(&mut self) {
        forget_sheet(&self.survey);
    }
}

/// Removes the text of a sheet; left behind it would only take room.
fn forget_sheet(survey: &Survey) {
    if let Some(path) = survey.sheet_spool() {
        let _ = std::fs::remove_file(path);
    }
}

/// The file to read: a copy where the input can be read only once.
fn copied(path: &Path, spools: &SpoolFolder) -> Result<(PathBuf, Option<Spool>), Fault> {
    let name = "standard input";
    let spool = if path == Path::new("-") {
        Spool::fill(&mut std::io::stdin(), name, spools)?
    } else if must_spool(path) {
        let unreadable = |error| fault_of(error, path.display());
        Spool::fill(&mut File::open(path).map_err(unreadable)?, name, spools)?
    } else {
        return Ok((path.to_owned(), None));
    };
    Ok((spool.path().to_owned(), Some(spool)))
}

/// How the file is to be read: by its header if that names the phones, else by its first column.
fn settings(survey: &Survey, wanted: &Wanted) -> Result<Settings, Fault> {
    let fault = match plan(survey, wanted) {
        Ok(settings) => return Ok(settings),
        Err(fault) => fault,
    };
    if fault.code != Code::NoHeader && (fault.code != Code::NoPhoneColumn || !wanted.map.is_empty()) {
        return Err(fault);
    }
    let map = if wanted.map.is_empty() { vec![(Field::Phone, ColumnRef::Number(1))] } else { wanted.map.clone() };
    let with_header = Wanted { map, ..wanted.clone() };
    match plan(survey, &with_header) {
        Ok(settings) if !says_a_digit(&settings) => Ok(settings),
        Err(fault) if fault.code != Code::NoHeader => Err(fault),
        _ => plan(survey, &Wanted { header: HeaderRow::Absent, ..with_header }),
    }
}

fn says_a_digit(settings: &Settings) -> bool {
    settings.header.get(settings.columns.phone).is_some_and(|cell| trim(cell).chars().any(char::is_numeric))
}

/// The same settings for the phones alone: what else a row holds, and how much of it, does not matter.
fn phones_alone(mut settings: Settings) -> Settings {
    settings.short_rows = ShortRows::Fill;
    settings.columns.width = usize::MAX;
    settings.columns.name = None;
    settings.columns.attributes = Vec::new();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line and phone, or line and reason, of each row.
    fn rows(bytes: &[u8], map: &[(Field, ColumnRef)]) -> Result<Vec<(u64, String)>, Fault> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stop.csv");
        std::fs::write(&path, bytes).unwrap();
        let wanted = Wanted { region: Some("TR".to_owned()), map: map.to_vec(), ..Wanted::default() };
        let spools = SpoolFolder::new(folder.path().join("spool"), "test", "test");
        let mut file = PhoneFile::open(&path, &wanted, &spools)?;
        let mut rows = Vec::new();
        while let Some((line, read)) = file.next()? {
            rows.push((line, read.map_or_else(|why| why.reason.code().to_owned(), |phone| phone.as_str().to_owned())));
        }
        Ok(rows)
    }

    fn read(text: &str) -> Vec<(u64, String)> {
        rows(text.as_bytes(), &[]).unwrap()
    }

    fn row(line: u64, what: &str) -> (u64, String) {
        (line, what.to_owned())
    }

    const ONE: &str = "+905320000011";
    const TWO: &str = "+905320000012";

    #[test]
    fn a_file_is_read_with_a_header_or_without_one() {
        assert_eq!(read("phone,name\n\n+905320000011,a\n05320000012"), [row(3, ONE), row(4, TWO)]);
        assert_eq!(read("05320000011\n\n0532 000 00 12\n"), [row(1, ONE), row(3, TWO)]);
        assert_eq!(read("\u{feff}+905320000011;Ayşe\n+905320000012;Can\n"), [row(1, ONE), row(2, TWO)]);
        assert_eq!(read("kişi,neden\n+905320000011,spam\n"), [row(2, ONE)]);
        assert_eq!(
            read("id;Cep Telefonu\n5321112201;\"+905320000011\"\n;\n7;\n"),
            [row(2, ONE), row(4, "phone_missing")]
        );
        assert_eq!(read("0532\n05320000011\n"), [row(1, "phone_invalid"), row(2, ONE)]);
    }

    #[test]
    fn what_else_a_row_holds_does_not_matter() {
        assert_eq!(read("05320000011\n05320000012,spam,again\n"), [row(1, ONE), row(2, TWO)]);
        assert_eq!(read("phone,name,note\n05320000011\n05320000012,a,b,c,d\n"), [row(2, ONE), row(3, TWO)]);
    }

    #[test]
    fn the_column_can_be_named() {
        let second = [(Field::Phone, ColumnRef::Number(2))];
        assert_eq!(rows(b"a,05320000011\nb,05320000012\n", &second).unwrap(), [row(1, ONE), row(2, TWO)]);
        let header = [(Field::Phone, ColumnRef::Header("kim".to_owned()))];
        assert_eq!(rows(b"phone,kim\n1,05320000011\n", &header).unwrap(), [row(2, ONE)]);
        assert_eq!(rows(b"phone,name\n1,2\n", &header).unwrap_err().code, Code::UnknownColumn);
    }

    #[test]
    fn other_character_sets_are_read_and_no_lists_are_refused() {
        let utf16: Vec<u8> =
            "\u{feff}telefon\tad\r\n05320000011\tŞule\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(rows(&utf16, &[]).unwrap(), [row(2, ONE)]);
        assert_eq!(rows(b"%PDF-1.4 ...", &[]).unwrap_err().code, Code::UnreadableFile);
        assert_eq!(rows(b"", &[]).unwrap_err().code, Code::EmptyFile);
        assert_eq!(rows(b"phone,cep\n1,2\n", &[]).unwrap_err().code, Code::DuplicatePhoneColumn);
    }
}
