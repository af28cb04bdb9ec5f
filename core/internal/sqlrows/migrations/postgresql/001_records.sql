-- Times are microseconds since 1970 in UTC, by the server's clock.
CREATE TABLE IF NOT EXISTS {table} (
	record_key   varchar(64) PRIMARY KEY,
	-- The format of the columns. A program refuses a row of a version that it does not know.
	version      smallint    NOT NULL,
	-- in_progress, completed, failed, unreplayable, released, forgotten (only an attempt number is left) or gone (a tombstone).
	state        varchar(16) NOT NULL,
	attempt      bigint      NOT NULL,
	took_over    smallint    NOT NULL,
	token        bytea       NOT NULL,
	-- Each write of the row adds one.
	revision     bigint      NOT NULL,
	-- 0xff and the 32 bytes of a SHA-256, or any other text.
	fingerprint  bytea       NOT NULL,
	digest       bytea,
	-- Route, holder, hash of the key and trace of the claim, in four lines.
	origin       text,
	lease_until  bigint,
	-- When the record becomes a tombstone. Null: the record has none, or is one.
	retain_until bigint,
	-- When the row counts as missing, swept or not.
	expires_at   bigint      NOT NULL,
	-- The full hour after the next of both ends, for the sweeper's index. It hardly ever changes while a request runs.
	sweep_after  bigint      NOT NULL,
	claimed_at   bigint      NOT NULL,
	settled_at   bigint,
	status       smallint,
	-- A list of [operation, name, value], or of [operation, name, value, "base64"], in JSON.
	header       text,
	body         bytea,
	sketch       bytea,
	-- The steps that a run has recorded which is in progress or released.
	steps        bytea
) WITH (
	-- Room on the page for the response that follows each claim: a HOT update needs it. A batch
	-- of claims fills a page before their responses come.
	fillfactor = 25
);

CREATE INDEX IF NOT EXISTS {index}_sweep_after ON {table} (sweep_after);
