-- The example's own tables, next to the ones that pgstore.Migrate makes. All of this is one transaction, and the lock
-- lets one process after the other through it: any number of them can start at once.
SELECT pg_advisory_xact_lock(hashtextextended('oncekey examples/payments', 0));

CREATE SCHEMA IF NOT EXISTS payments;

CREATE TABLE IF NOT EXISTS payments.ledger (
	number    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind      text        NOT NULL,
	-- What the key stands for: its user, method, path and itself, see core.DeriveKey. Null when the handler ran unguarded.
	operation text,
	id        text        NOT NULL,
	order_id  text        NOT NULL,
	email     text        NOT NULL,
	text      text        NOT NULL,
	"user"    text        NOT NULL,
	key       text        NOT NULL,
	attempt   bigint      NOT NULL,
	time      timestamptz NOT NULL,
	-- The last line of defence. The path belongs to it: PATCH /members/1 and PATCH /members/2 may share a key.
	UNIQUE (kind, operation)
);

ALTER TABLE payments.ledger
	ADD COLUMN IF NOT EXISTS amount   bigint NOT NULL DEFAULT 0,
	ADD COLUMN IF NOT EXISTS currency text   NOT NULL DEFAULT '';

-- The last line of defence against two keys for one payment: an order is charged once. It may be refunded in parts.
CREATE UNIQUE INDEX IF NOT EXISTS ledger_order ON payments.ledger ("user", order_id) WHERE kind = 'charge';

CREATE TABLE IF NOT EXISTS payments.accounts (
	name    text   PRIMARY KEY,
	balance bigint NOT NULL CHECK (balance >= 0)
);

CREATE TABLE IF NOT EXISTS payments.transfers (
	number  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id      text        NOT NULL,
	"from"  text        NOT NULL REFERENCES payments.accounts,
	"to"    text        NOT NULL REFERENCES payments.accounts,
	amount  bigint      NOT NULL CHECK (amount > 0),
	"user"  text        NOT NULL,
	key     text        NOT NULL,
	time    timestamptz NOT NULL DEFAULT now(),
	UNIQUE ("user", key)
);

INSERT INTO payments.accounts (name, balance) VALUES ('alice', 10000), ('bob', 10000), ('carol', 10000)
ON CONFLICT DO NOTHING;
