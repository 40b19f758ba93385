-- The queue: what workers claim by, who works, and the passes that one of them runs per window.

-- When the holder last renewed its lease, for people; judged by nobody.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS beat_at timestamptz;

-- Heartbeats rewrite the row of a running job: room on its page keeps them HOT, and dead versions go early.
ALTER TABLE jobs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (queue, priority, run_at, id) WHERE state = 'queued';

-- Deliberately not by lease: a heartbeat must change no indexed column.
CREATE INDEX IF NOT EXISTS jobs_running ON jobs (id) WHERE state = 'running';

-- Jobs of a list that may still go on, however many of it are done.
CREATE INDEX IF NOT EXISTS jobs_open ON jobs (list_id, id) WHERE state NOT IN ('done', 'superseded');

CREATE INDEX IF NOT EXISTS jobs_input ON jobs (list_id, fingerprint);

CREATE INDEX IF NOT EXISTS jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

-- Retention: a mark is set before the first row goes; `pruning` says that rows behind a mark may be left.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS rejects_pruned_at timestamptz;
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS pruning boolean NOT NULL DEFAULT false;

CREATE INDEX IF NOT EXISTS jobs_with_keys ON jobs (finished_at) WHERE keys_pruned_at IS NULL AND finished_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS jobs_with_rejects ON jobs (finished_at)
    WHERE rejects_pruned_at IS NULL AND finished_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS jobs_pruning ON jobs (id) WHERE pruning;

CREATE INDEX IF NOT EXISTS job_runs_held ON job_runs (key) WHERE status = 'running';

-- Processes that run queued jobs; a row tells when one was last there.
CREATE TABLE IF NOT EXISTS workers (
    owner       text COLLATE "C" PRIMARY KEY,
    queues      text NOT NULL,
    concurrency bigint NOT NULL,
    started_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL,
    left_at     timestamptz
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS schedules (
    name       text COLLATE "C" PRIMARY KEY,
    every_ms   bigint NOT NULL CHECK (every_ms > 0),
    catch_up   text NOT NULL CHECK (catch_up IN ('skip', 'latest', 'all')),
    high_water timestamptz NOT NULL,
    enabled    boolean NOT NULL DEFAULT true,
    skipped    bigint NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS schedule_runs (
    name         text COLLATE "C" NOT NULL,
    window_start timestamptz NOT NULL,
    owner        text NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    result       jsonb,
    error        text,
    PRIMARY KEY (name, window_start)
);
