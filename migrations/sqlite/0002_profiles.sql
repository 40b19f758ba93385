-- Named import options, and which refused rows were mended by a later import.
-- Differs: times are INTEGER milliseconds since 1970 UTC, documents are TEXT JSON with sorted keys.

CREATE TABLE IF NOT EXISTS profiles (
    name       TEXT NOT NULL PRIMARY KEY,
    settings   TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- A job refuses at most one row per line.
CREATE INDEX IF NOT EXISTS rejects_line ON rejects (job_id, line);

-- A refused row of a reject file, and the refused row of the earlier job that it was.
CREATE TABLE IF NOT EXISTS reject_origins (
    job_id        INTEGER NOT NULL,
    line          INTEGER NOT NULL,
    origin_job_id INTEGER NOT NULL,
    origin_line   INTEGER NOT NULL,
    PRIMARY KEY (job_id, line)
) STRICT;

-- A refused row that a later import took.
CREATE TABLE IF NOT EXISTS reject_mends (
    job_id        INTEGER NOT NULL,
    line          INTEGER NOT NULL,
    mended_job_id INTEGER NOT NULL,
    PRIMARY KEY (job_id, line)
) STRICT;
