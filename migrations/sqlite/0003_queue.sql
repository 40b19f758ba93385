-- The queue: what workers claim by, who works, and the passes that one of them runs per window.

-- When the holder last renewed its lease, for people; judged by nobody.
ALTER TABLE jobs ADD COLUMN beat_at INTEGER;

CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (queue, priority, run_at, id) WHERE state = 'queued';

CREATE INDEX IF NOT EXISTS jobs_running ON jobs (id) WHERE state = 'running';

-- Jobs of a list that may still go on, however many of it are done. A query must repeat the condition to use it.
CREATE INDEX IF NOT EXISTS jobs_open ON jobs (list_id, id) WHERE state NOT IN ('done', 'superseded');

CREATE INDEX IF NOT EXISTS jobs_input ON jobs (list_id, fingerprint);

CREATE INDEX IF NOT EXISTS jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- Retention: a mark is set before the first row goes; `pruning` says that rows behind a mark may be left.
ALTER TABLE jobs ADD COLUMN rejects_pruned_at INTEGER;
ALTER TABLE jobs ADD COLUMN pruning INTEGER NOT NULL DEFAULT 0 CHECK (pruning IN (0, 1));

CREATE INDEX IF NOT EXISTS jobs_with_keys ON jobs (finished_at) WHERE keys_pruned_at IS NULL AND finished_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS jobs_with_rejects ON jobs (finished_at)
    WHERE rejects_pruned_at IS NULL AND finished_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS jobs_pruning ON jobs (id) WHERE pruning;

CREATE INDEX IF NOT EXISTS job_runs_held ON job_runs (key) WHERE status = 'running';

-- Processes that run queued jobs; a row tells when one was last there.
CREATE TABLE IF NOT EXISTS workers (
    owner       TEXT PRIMARY KEY,
    queues      TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    left_at     INTEGER
) STRICT;

CREATE TABLE IF NOT EXISTS schedules (
    name       TEXT PRIMARY KEY,
    every_ms   INTEGER NOT NULL CHECK (every_ms > 0),
    catch_up   TEXT NOT NULL CHECK (catch_up IN ('skip', 'latest', 'all')),
    high_water INTEGER NOT NULL,
    enabled    INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    skipped    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE IF NOT EXISTS schedule_runs (
    name         TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    result       TEXT,
    error        TEXT,
    PRIMARY KEY (name, window_start)
) STRICT;
