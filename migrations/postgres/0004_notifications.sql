-- Notifications: what is to be told to the outside, written in the transaction that ends a job.

-- How many ends of the job were told: a job that fails, is retried and succeeds has two, each with a key of its own.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS ends bigint NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS notifications (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    external_event_id text COLLATE "C" NOT NULL UNIQUE,
    -- No foreign key: what was told outlives the job.
    job_id            bigint NOT NULL,
    endpoint          text NOT NULL,
    receiver          text NOT NULL CHECK (receiver IN ('keys', 'lookup', 'none')),
    lookup_url        text,
    -- Text, not jsonb: every call must send the same bytes.
    payload           text NOT NULL,
    state             text NOT NULL CHECK (state IN ('pending', 'held', 'sending', 'sent', 'failed', 'unknown')),
    attempts          bigint NOT NULL DEFAULT 0,
    holds             bigint NOT NULL DEFAULT 0,
    not_before        timestamptz NOT NULL,
    give_up_at        timestamptz NOT NULL,
    response          text,
    last_status       bigint,
    last_error        text,
    owner             text,
    fence             bigint NOT NULL DEFAULT 0,
    lease_until       timestamptz,
    created_at        timestamptz NOT NULL,
    sent_at           timestamptz,
    finished_at       timestamptz,
    CHECK ((state = 'sending') = (owner IS NOT NULL)),
    CHECK ((state = 'sending') = (lease_until IS NOT NULL)),
    CHECK ((state IN ('sent', 'failed', 'unknown')) = (finished_at IS NOT NULL)),
    CHECK ((receiver = 'lookup') = (lookup_url IS NOT NULL))
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS notifications_due ON notifications (not_before, id)
    WHERE state IN ('pending', 'held', 'sending');

CREATE INDEX IF NOT EXISTS notifications_job ON notifications (job_id, id);

CREATE INDEX IF NOT EXISTS notifications_finished ON notifications (finished_at) WHERE finished_at IS NOT NULL;
