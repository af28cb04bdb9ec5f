-- Version 1 of the schema of package pgstore. The schema {schema} itself must exist.

CREATE TABLE {schema}.migrations (
	version    integer     PRIMARY KEY,
	applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE {schema}.records (
	-- 64 hex digits, see core.StorageKey. Compared byte by byte, whatever the database's language.
	key         text        COLLATE "C" PRIMARY KEY,
	-- How the rest of the row is to be read. A program refuses a row whose version it does not know.
	version     smallint    NOT NULL,
	-- in_progress, completed, failed or unreplayable; or released, which remembers an attempt number alone.
	state       text        NOT NULL,
	attempt     bigint      NOT NULL,
	took_over   boolean     NOT NULL,
	token       uuid        NOT NULL,
	fingerprint text        NOT NULL,
	-- When the lease of a record in progress runs out.
	lease_until timestamptz,
	-- When the record is gone, swept or not.
	expires_at  timestamptz NOT NULL,
	-- The answer. A header is a list of [operation, name, value], or of [operation, name, value, "base64"].
	status      smallint,
	header      jsonb,
	body        bytea,
	-- For human eyes.
	claimed_at  timestamptz NOT NULL,
	settled_at  timestamptz,
	-- The next full hour after expires_at, in UTC. This is what the sweeper's index has: completing and extending a record
	-- moves expires_at by seconds, and the full hour hardly ever. An update that changes no indexed column can be a HOT
	-- update, which touches no index.
	sweep_after timestamp   GENERATED ALWAYS AS (date_trunc('hour', expires_at AT TIME ZONE 'UTC') + interval '1 hour') STORED
) WITH (
	-- Room on the page for the answer that follows each claim: a HOT update needs it.
	fillfactor = 50
);

CREATE INDEX records_sweep_after ON {schema}.records (sweep_after);

INSERT INTO {schema}.migrations (version) VALUES (1);
