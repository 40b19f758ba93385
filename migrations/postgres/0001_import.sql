-- Lists, recipients, jobs with their lanes, attempts, run keys and rejects.
-- The schema `enlist` is created and made current by the program before this runs.

CREATE TABLE IF NOT EXISTS lists (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text COLLATE "C" NOT NULL UNIQUE,
    created_at      timestamptz NOT NULL,
    recipient_count bigint NOT NULL DEFAULT 0,
    counted_at      timestamptz
);

-- No foreign key to lists: it would cost a lookup per row, and a distributed table cannot have it.
CREATE TABLE IF NOT EXISTS recipients (
    list_id        bigint NOT NULL,
    job_id         bigint,
    created_job_id bigint,
    source_version bigint,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    phone          text COLLATE "C" NOT NULL,
    name           text,
    status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'opted_out')),
    attributes     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (list_id, phone)
);

CREATE INDEX IF NOT EXISTS recipients_opted_out ON recipients (list_id, phone) WHERE status = 'opted_out';

CREATE TABLE IF NOT EXISTS jobs (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue               text NOT NULL DEFAULT 'default',
    kind                text NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    generation          bigint NOT NULL CHECK (generation >= 1),
    direct              boolean NOT NULL,
    list_id             bigint NOT NULL,
    fingerprint         text COLLATE "C" NOT NULL,
    source              text NOT NULL,
    payload             jsonb NOT NULL,
    rules_version       text NOT NULL,
    lanes               bigint NOT NULL CHECK (lanes >= 1),
    batch_rows          bigint NOT NULL CHECK (batch_rows >= 1),
    state               text NOT NULL CHECK (state IN
                        ('queued', 'running', 'paused', 'interrupted', 'done', 'failed', 'cancelled', 'superseded')),
    priority            bigint NOT NULL DEFAULT 0,
    run_at              timestamptz NOT NULL,
    attempts            bigint NOT NULL DEFAULT 0,
    rescues             bigint NOT NULL DEFAULT 0,
    max_attempts        bigint NOT NULL DEFAULT 5,
    fence               bigint NOT NULL DEFAULT 0,
    owner               text,
    lease_until         timestamptz,
    progress            jsonb,
    result              jsonb,
    error               jsonb,
    cancel_requested_at timestamptz,
    pause_requested_at  timestamptz,
    created_at          timestamptz NOT NULL,
    started_at          timestamptz,
    finished_at         timestamptz,
    keys_pruned_at      timestamptz,
    UNIQUE (kind, key, generation),
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CHECK (state <> 'done' OR result IS NOT NULL)
);

-- Rule 4: one unfinished import of one input into one list.
CREATE UNIQUE INDEX IF NOT EXISTS jobs_unfinished ON jobs (list_id, fingerprint)
    WHERE kind = 'import' AND state IN ('queued', 'running', 'paused', 'interrupted');

CREATE INDEX IF NOT EXISTS jobs_list ON jobs (list_id, id);

CREATE TABLE IF NOT EXISTS job_lanes (
    job_id bigint NOT NULL REFERENCES jobs (id),
    lane   bigint NOT NULL,
    byte   bigint NOT NULL,
    line   bigint NOT NULL,
    PRIMARY KEY (job_id, lane)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS job_attempts (
    job_id     bigint NOT NULL REFERENCES jobs (id),
    fence      bigint NOT NULL,
    owner      text NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    outcome    text,
    error      text,
    PRIMARY KEY (job_id, fence, owner)
);

CREATE TABLE IF NOT EXISTS job_runs (
    key          text COLLATE "C" PRIMARY KEY,
    status       text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'pending')),
    result       jsonb,
    attempts     bigint NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL,
    completed_at timestamptz,
    job_id       bigint,
    request_hash text,
    owner        text,
    fence        bigint,
    lease_until  timestamptz
);

CREATE INDEX IF NOT EXISTS job_runs_job ON job_runs (job_id, completed_at);

CREATE TABLE IF NOT EXISTS rejects (
    job_id      bigint NOT NULL,
    byte        bigint NOT NULL,
    line        bigint NOT NULL,
    column_name text,
    reason      text NOT NULL,
    detail      text NOT NULL,
    raw         bytea NOT NULL,
    PRIMARY KEY (job_id, byte)
);
