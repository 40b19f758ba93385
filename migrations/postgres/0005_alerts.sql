-- Alerts: claims to ring one or to run a command in a window, and alerts that are still to be rung.

-- A key is free when it is claimed and claim_until has passed, or sent and suppress_until has passed.
CREATE TABLE IF NOT EXISTS alerts (
    dedupe_key     text COLLATE "C" PRIMARY KEY,
    severity       text,
    window_ms      bigint NOT NULL CHECK (window_ms > 0),
    state          text NOT NULL CHECK (state IN ('claimed', 'sent')),
    claim_id       text NOT NULL,
    claim_until    timestamptz,
    suppress_until timestamptz NOT NULL,
    forget_at      timestamptz NOT NULL,
    rings          bigint NOT NULL DEFAULT 0,
    suppressed     bigint NOT NULL DEFAULT 0,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    CHECK ((state = 'claimed') = (claim_until IS NOT NULL))
);

CREATE INDEX IF NOT EXISTS alerts_old ON alerts (forget_at);

-- Written in the transaction of the event that is told; severity and window are decided when it is delivered.
CREATE TABLE IF NOT EXISTS alert_outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL,
    dedupe_key   text NOT NULL,
    job_id       bigint,
    message      text NOT NULL,
    details      jsonb NOT NULL,
    attempts     bigint NOT NULL DEFAULT 0,
    owner        text,
    lease_until  timestamptz,
    not_before   timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    delivered_at timestamptz,
    outcome      text,
    error        text
);

CREATE INDEX IF NOT EXISTS alert_outbox_due ON alert_outbox (not_before, id) WHERE delivered_at IS NULL;

CREATE INDEX IF NOT EXISTS alert_outbox_old ON alert_outbox (created_at);
