//! Compressed files, archives and workbooks behind an address: as from a file.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{BATCH, Home, LIST, Site, check_no_copies, check_same, import, undisturbed};
use crate::common::cli::Enlist;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;

fn gzip(csv: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(csv.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

pub(super) fn zip(csv: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    archive.start_file("spring.csv", options).expect("memory");
    archive.write_all(csv.as_bytes()).expect("memory");
    archive.finish().expect("memory").into_inner()
}

fn xlsx(csv: &str) -> Vec<u8> {
    let mut book = rust_xlsxwriter::Workbook::new();
    let sheet = book.add_worksheet();
    for (row, line) in (0..).zip(csv.lines()) {
        for (column, cell) in (0..).zip(line.split(',')) {
            sheet.write_string(row, column, cell).expect("it fits");
        }
    }
    book.save_to_buffer().expect("memory")
}

/// A list without quoted cells.
fn plain(rows: usize) -> String {
    data::clean(rows, 4).replace("\"Şişli, İstanbul\"", "Bursa")
}

both! {
    fn compressed_files_archives_and_workbooks_are_read(db: Db) {
        let csv = plain(3_000);
        let encoded = encoding_rs::WINDOWS_1254.encode("Telefon;Ad\n+905320000011;Ay\u{15f}e \u{15e}ahin\n").0.into_owned();
        for content in [gzip(&csv), zip(&csv), xlsx(&csv), encoded] {
            let (home, site) = (Home::new(), Site::with(content.clone()));
            let fresh = Db::fresh(db.engine);
            let output = import(&home, &fresh, &site.url()).run();
            check_same(&home, &fresh, &output, &undisturbed(db.engine, &content));
            check_no_copies(&home);
        }
    }

    fn killed_imports_of_them_resume_and_leave_no_copy(db: Db) {
        let csv = plain(3_000);
        for content in [gzip(&csv), zip(&csv), xlsx(&csv)] {
            let (home, fresh, site) = (Home::new(), Db::fresh(db.engine), Site::with(content.clone()));
            Halted::after(import(&home, &fresh, &site.url()), &fresh, 1, BATCH).kill(&fresh);
            let output = import(&home, &fresh, &site.url()).run();
            assert_eq!(output.count("resumed_rows"), BATCH, "{}", output.told());
            check_same(&home, &fresh, &output, &undisturbed(db.engine, &content));
            check_no_copies(&home);
        }
    }
}

/// `--continue` of an import whose copy is there does not need the server.
#[test]
fn continuing_by_number_reads_the_copy() {
    let (home, db) = (Home::new(), Db::fresh(crate::common::engine::Engine::Sqlite));
    let content = zip(&plain(3_000));
    let site = Site::with(content.clone());
    Halted::after(import(&home, &db, &site.url()), &db, 1, BATCH).kill(&db);
    site.set_away(true);
    let line = |db: &Db| -> Enlist {
        home.enlist(db).args(["import", &site.url(), "--list", LIST, "--continue", "1", "--json"])
    };
    let output = line(&db).run().expect(0);
    assert_eq!(output.count("resumed_rows"), BATCH, "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&undisturbed(db.engine, &content), "continued by number");
    check_no_copies(&home);
}

/// Zip archives and workbooks are copied where nobody else can read them.
#[test]
fn a_copy_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let (home, db) = (Home::new(), Db::fresh(crate::common::engine::Engine::Sqlite));
    let site = Site::with(zip(&plain(3_000)));
    let halted = Halted::after(import(&home, &db, &site.url()), &db, 1, BATCH);
    let folder = home.path().join("state/enlist/spool");
    let files: Vec<_> = std::fs::read_dir(&folder).expect("the folder of copies").flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&files[0].path()), mode(&folder)), (0o600, 0o700));
    halted.finish().expect(0);
    check_no_copies(&home);
}
