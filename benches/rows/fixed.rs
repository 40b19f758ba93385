//! A fixed list, and the two steps that every row of it goes through.

use std::hint::black_box;

use enlist::batch::Outcome;
use enlist::decode::Decoder;
use enlist::import::plan::plan;
use enlist::normalise::Normaliser;
use enlist::row::Row;
use enlist::settings::{Settings, Wanted};
use enlist::source::{Origin, Reading, SpoolFolder, survey};

use crate::lists::{self, Kind};

/// A list in memory, as it was surveyed and planned.
pub(crate) struct Fixed {
    pub(crate) text: Vec<u8>,
    pub(crate) rows: Vec<Row>,
    settings: Settings,
    normaliser: Normaliser,
}

impl Fixed {
    /// `rows` rows, phones in five spellings.
    pub(crate) fn new(rows: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("list.csv");
        lists::write(&path, Kind::Messy, rows, 0);
        let spools = SpoolFolder::new(folder.path().join("spools"), "sqlite:bench", "bench");
        let wanted = Wanted { region: Some("TR".to_owned()), ..Wanted::default() };
        let reading = Reading {
            encoding: None,
            region: wanted.region.as_deref(),
            sheet: None,
            spools: &spools,
            stopped: &|| None,
        };
        let found = survey(&Origin::File(path.clone()), &reading, &mut |_, _| {}).expect("a list");
        let settings = plan(&found, &wanted).expect("its columns are known");
        let text = std::fs::read(&path).expect("it was written");
        let mut fixed =
            Self { text, rows: Vec::new(), normaliser: Normaliser::new(&settings).expect("settings"), settings };
        let mut decoder = fixed.decoder();
        let mut row = Row::default();
        let mut seen = Vec::new();
        while decoder.next(&mut row).expect("memory can be read") {
            seen.push(row.clone());
        }
        fixed.rows = seen;
        assert_eq!(fixed.rows.len(), rows);
        fixed
    }

    fn decoder(&self) -> Decoder<&[u8]> {
        let from = usize::try_from(self.settings.data_start.byte).expect("it is small");
        let mut decoder = Decoder::new(&self.text[from..], self.settings.dialect, self.settings.data_start);
        decoder.watch_for(self.settings.columns.width, self.settings.columns.phone);
        decoder
    }

    /// Decodes every row; how many there are.
    pub(crate) fn decode(&self) -> usize {
        let mut decoder = self.decoder();
        let (mut row, mut rows) = (Row::default(), 0);
        while decoder.next(&mut row).expect("memory can be read") {
            rows += usize::from(!black_box(&row).cells.is_empty());
        }
        rows
    }

    /// Judges every row; how many are taken.
    pub(crate) fn normalise(&self) -> usize {
        let taken = |row: &&Row| matches!(black_box(self.normaliser.normalise(row)), Outcome::Recipient(_));
        self.rows.iter().filter(taken).count()
    }
}
