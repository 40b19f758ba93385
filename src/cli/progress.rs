//! How far an import is, while it runs.
//!
//! Owns the bar on a terminal and the plain lines elsewhere. It does not know what an import does. Invariant:
//! only committed rows are shown as done; nothing here can stop an import.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::answer::{Display, Volume};
use crate::cli::output::say;
use crate::cli::text::{bytes, thousands};
use crate::clock::Stopwatch;
use crate::import::report::{Event, Progress as Stand};

/// When the first plain line comes: short imports need none.
const FIRST_LINE: Duration = Duration::from_secs(60);

/// How far plain lines are apart after that.
const NEXT_LINE: Duration = Duration::from_secs(30);

/// Shows what an import tells.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    notes: Volume,
    started: Stopwatch,
    imported_from: Mutex<Option<Stopwatch>>,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines(Mutex<Duration>),
}

impl Progress {
    /// Begins to show; notes are said unless `-q`.
    pub(crate) fn start(display: Display, notes: Volume) -> Self {
        let error = std::io::stderr();
        let shown = match display {
            Display::Nothing => Shown::Nothing,
            Display::Progress if error.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb") => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                bar.set_style(style("{spinner} {wide_msg}"));
                bar.enable_steady_tick(Duration::from_millis(200));
                Shown::Bar(bar)
            }
            Display::Progress => Shown::Lines(Mutex::new(FIRST_LINE)),
        };
        Self { shown, notes, started: Stopwatch::start(), imported_from: Mutex::new(None) }
    }

    /// Takes one event; cheap, and safe to call from several tasks.
    pub(crate) fn on_event(&self, event: Event) {
        match event {
            Event::Note(note) if self.notes == Volume::Quiet => drop(note),
            Event::Note(note) => match &self.shown {
                Shown::Bar(bar) => bar.suspend(|| say(&note)),
                Shown::Nothing | Shown::Lines(_) => say(&note),
            },
            Event::Surveyed { bytes, total } => self.show(bytes, total, || survey_text(bytes, total)),
            Event::Progress(stand) => {
                let first = *lock(&self.imported_from).get_or_insert_with(Stopwatch::start);
                self.show(stand.bytes, stand.total_bytes, || import_text(&stand, first.worked()));
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }

    fn show(&self, done: u64, total: Option<u64>, text: impl Fn() -> String) {
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                if bar.length() != total {
                    match total {
                        Some(total) => {
                            bar.set_length(total);
                            bar.set_style(style("[{bar:8}] {wide_msg}"));
                        }
                        None => {
                            bar.unset_length();
                            bar.set_style(style("{spinner} {wide_msg}"));
                        }
                    }
                }
                bar.set_position(done);
                bar.set_message(text());
            }
            Shown::Lines(due) => {
                let mut due = lock(due);
                if let Some(next) = next_line(self.started.worked(), *due) {
                    *due = next;
                    say(&text());
                }
            }
        }
    }
}

/// When a line is due at `now`, the time of the next one; both since the start.
fn next_line(now: Duration, due: Duration) -> Option<Duration> {
    (now >= due).then(|| now + NEXT_LINE)
}

fn survey_text(done: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => format!("reading the file once: {} of {}", bytes(done), bytes(total)),
        None => format!("reading the input: {}", bytes(done)),
    }
}

/// One line: rows, speed, place, time left, rejects, where it resumed; `ran` is since the first event.
fn import_text(stand: &Stand, ran: Duration) -> String {
    let mut parts = vec![format!("{} rows", thousands(stand.rows))];
    if let Some(rate) = per_second(stand.rows.saturating_sub(stand.resumed_rows), ran) {
        parts.push(format!("{}/s", thousands(rate)));
    }
    parts.push(match stand.total_bytes {
        Some(total) => format!("{} of {}", bytes(stand.bytes), bytes(total)),
        None => bytes(stand.bytes),
    });
    if let Some(left) = time_left(stand, ran) {
        parts.push(format!("{} left", crate::cli::text::elapsed(left)));
    }
    if stand.rejected > 0 {
        parts.push(format!("{} refused", thousands(stand.rejected)));
    }
    if let Some(line) = stand.resumed_line {
        parts.push(format!("resumed at line {}", thousands(line)));
    }
    parts.join(", ")
}

fn per_second(n: u64, ran: Duration) -> Option<u64> {
    let millis = u64::try_from(ran.as_millis()).ok()?;
    if millis < 1000 {
        return None;
    }
    n.checked_mul(1000)?.checked_div(millis)
}

/// By rows of this run: a resumed run begins in the middle of the bytes.
fn time_left(stand: &Stand, ran: Duration) -> Option<Duration> {
    let rate = per_second(stand.rows.saturating_sub(stand.resumed_rows), ran).filter(|rate| *rate > 0)?;
    let left = stand.total_bytes?.saturating_sub(stand.bytes);
    let bytes_a_row = stand.bytes.checked_div(stand.rows)?.max(1);
    Some(Duration::from_secs(left / bytes_a_row / rate))
}

fn style(template: &str) -> ProgressStyle {
    // A template that is wrong costs the looks, never the import.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_comes_after_a_minute_and_then_every_half() {
        let seconds = Duration::from_secs;
        assert_eq!(next_line(seconds(59), FIRST_LINE), None);
        assert_eq!(next_line(seconds(61), FIRST_LINE), Some(seconds(91)));
        assert_eq!(next_line(seconds(90), seconds(91)), None);
    }

    #[test]
    fn a_line_tells_speed_place_rest_rejects_and_where_it_resumed() {
        let stand = Stand {
            bytes: 40_000_000,
            total_bytes: Some(80_000_000),
            line: 500_001,
            resumed_line: Some(300_001),
            rows: 500_000,
            resumed_rows: 300_000,
            rejected: 12,
        };
        assert_eq!(
            import_text(&stand, Duration::from_secs(4)),
            "500,000 rows, 50,000/s, 40.0 MB of 80.0 MB, 10 s left, 12 refused, resumed at line 300,001"
        );
        assert_eq!(import_text(&Stand::default(), Duration::ZERO), "0 rows, 0 B");
        assert_eq!(survey_text(1, Some(2)), "reading the file once: 1 B of 2 B");
    }
}
