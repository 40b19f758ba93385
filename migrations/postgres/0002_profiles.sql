-- Named import options, and which refused rows were mended by a later import.

CREATE TABLE IF NOT EXISTS profiles (
    name       text COLLATE "C" PRIMARY KEY,
    settings   jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

-- A job refuses at most one row per line.
CREATE INDEX IF NOT EXISTS rejects_line ON rejects (job_id, line);

-- A refused row of a reject file, and the refused row of the earlier job that it was.
CREATE TABLE IF NOT EXISTS reject_origins (
    job_id        bigint NOT NULL,
    line          bigint NOT NULL,
    origin_job_id bigint NOT NULL,
    origin_line   bigint NOT NULL,
    PRIMARY KEY (job_id, line)
);

-- A refused row that a later import took.
CREATE TABLE IF NOT EXISTS reject_mends (
    job_id        bigint NOT NULL,
    line          bigint NOT NULL,
    mended_job_id bigint NOT NULL,
    PRIMARY KEY (job_id, line)
);
