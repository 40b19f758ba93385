//! How many rows are asked for at once.
//!
//! Owns the size of the next page. It does not know what is paged. Invariant: pages of large rows get
//! small, so that memory does not grow with the rows.

/// The most rows of a page.
const ROWS_MAX: u32 = 500;

/// About how many bytes a page should hold.
const BYTES: usize = 8 * 1024 * 1024;

/// The size of the next page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    rows: u32,
}

impl Pages {
    /// Begins small: nothing is known about the rows yet.
    pub(crate) fn new() -> Self {
        Self { rows: 16 }
    }

    /// How many rows to ask for.
    pub(crate) fn rows(self) -> u32 {
        self.rows
    }

    /// Learns from a page of so many rows and bytes; a size grows at most fourfold at a time.
    pub(crate) fn learn(&mut self, rows: usize, bytes: usize) {
        let fitting = BYTES.saturating_mul(rows.max(1)) / bytes.max(1);
        let fitting = u32::try_from(fitting).unwrap_or(ROWS_MAX);
        self.rows = fitting.min(self.rows * 4).clamp(1, ROWS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_large_rows_get_small_and_grow_again() {
        let mut pages = Pages::new();
        for _ in 0..4 {
            pages.learn(16, 16 * 100);
        }
        assert_eq!(pages.rows(), ROWS_MAX);
        pages.learn(500, 500 * 1024 * 1024);
        assert_eq!(pages.rows(), 8);
        pages.learn(8, 0);
        assert_eq!(pages.rows(), 32);
    }
}
