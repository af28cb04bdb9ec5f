-- The example's own tables in PostgreSQL, next to the ones that pgstore.Migrate makes. All of this is one transaction, and the
-- lock lets one process after the other through it: any number of them can start at once.
SELECT pg_advisory_xact_lock(hashtextextended('oncekey examples/payments', 0));

-- The unique columns are the last line of defence, see identities. Null is not unique.
CREATE TABLE IF NOT EXISTS payments_ledger (
	number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind      text   NOT NULL,
	operation text   UNIQUE,
	charged   text   UNIQUE,
	entry     text   NOT NULL
);

CREATE TABLE IF NOT EXISTS payments_accounts (
	name    text   PRIMARY KEY,
	balance bigint NOT NULL CHECK (balance >= 0)
);

CREATE TABLE IF NOT EXISTS payments_transfers (
	number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id          text   NOT NULL,
	payer       text   NOT NULL,
	payee       text   NOT NULL,
	amount      bigint NOT NULL CHECK (amount > 0),
	requester   text   NOT NULL,
	request_key text   NOT NULL,
	UNIQUE (requester, request_key)
);

INSERT INTO payments_accounts (name, balance) VALUES ('alice', 10000), ('bob', 10000), ('carol', 10000)
ON CONFLICT DO NOTHING;
