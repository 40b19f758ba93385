-- Alerts: claims to ring one or to run a command in a window, and alerts that are still to be rung.

-- A key is free when it is claimed and claim_until has passed, or sent and suppress_until has passed.
CREATE TABLE IF NOT EXISTS alerts (
    dedupe_key     TEXT PRIMARY KEY,
    severity       TEXT,
    window_ms      INTEGER NOT NULL CHECK (window_ms > 0),
    state          TEXT NOT NULL CHECK (state IN ('claimed', 'sent')),
    claim_id       TEXT NOT NULL,
    claim_until    INTEGER,
    suppress_until INTEGER NOT NULL,
    forget_at      INTEGER NOT NULL,
    rings          INTEGER NOT NULL DEFAULT 0,
    suppressed     INTEGER NOT NULL DEFAULT 0,
    first_at       INTEGER NOT NULL,
    last_at        INTEGER NOT NULL,
    CHECK ((state = 'claimed') = (claim_until IS NOT NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS alerts_old ON alerts (forget_at);

-- Written in the transaction of the event that is told; severity and window are decided when it is delivered.
CREATE TABLE IF NOT EXISTS alert_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT NOT NULL,
    dedupe_key   TEXT NOT NULL,
    job_id       INTEGER,
    message      TEXT NOT NULL,
    details      TEXT NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    owner        TEXT,
    lease_until  INTEGER,
    not_before   INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    outcome      TEXT,
    error        TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS alert_outbox_due ON alert_outbox (not_before, id) WHERE delivered_at IS NULL;

CREATE INDEX IF NOT EXISTS alert_outbox_old ON alert_outbox (created_at);
