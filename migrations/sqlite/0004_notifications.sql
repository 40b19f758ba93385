-- Notifications: what is to be told to the outside, written in the transaction that ends a job.

-- How many ends of the job were told: a job that fails, is retried and succeeds has two, each with a key of its own.
ALTER TABLE jobs ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS notifications (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    external_event_id TEXT NOT NULL UNIQUE,
    -- No foreign key: what was told outlives the job.
    job_id            INTEGER NOT NULL,
    endpoint          TEXT NOT NULL,
    receiver          TEXT NOT NULL CHECK (receiver IN ('keys', 'lookup', 'none')),
    lookup_url        TEXT,
    -- Every call must send the same bytes.
    payload           TEXT NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('pending', 'held', 'sending', 'sent', 'failed', 'unknown')),
    attempts          INTEGER NOT NULL DEFAULT 0,
    holds             INTEGER NOT NULL DEFAULT 0,
    not_before        INTEGER NOT NULL,
    give_up_at        INTEGER NOT NULL,
    response          TEXT,
    last_status       INTEGER,
    last_error        TEXT,
    owner             TEXT,
    fence             INTEGER NOT NULL DEFAULT 0,
    lease_until       INTEGER,
    created_at        INTEGER NOT NULL,
    sent_at           INTEGER,
    finished_at       INTEGER,
    CHECK ((state = 'sending') = (owner IS NOT NULL)),
    CHECK ((state = 'sending') = (lease_until IS NOT NULL)),
    CHECK ((state IN ('sent', 'failed', 'unknown')) = (finished_at IS NOT NULL)),
    CHECK ((receiver = 'lookup') = (lookup_url IS NOT NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS notifications_due ON notifications (not_before, id)
    WHERE state IN ('pending', 'held', 'sending');

CREATE INDEX IF NOT EXISTS notifications_job ON notifications (job_id, id);

CREATE INDEX IF NOT EXISTS notifications_finished ON notifications (finished_at) WHERE finished_at IS NOT NULL;
