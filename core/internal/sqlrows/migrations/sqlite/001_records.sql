-- Times are microseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS {table} (
	record_key   TEXT    NOT NULL PRIMARY KEY,
	-- The format of the columns. A program refuses a row of a version that it does not know.
	version      INTEGER NOT NULL,
	-- in_progress, completed, failed, unreplayable, released, forgotten (only an attempt number is left) or gone (a tombstone).
	state        TEXT    NOT NULL,
	attempt      INTEGER NOT NULL,
	took_over    INTEGER NOT NULL,
	token        BLOB    NOT NULL,
	-- Each write of the row adds one.
	revision     INTEGER NOT NULL,
	-- 0xff and the 32 bytes of a SHA-256, or any other text.
	fingerprint  BLOB    NOT NULL,
	digest       BLOB,
	-- Route, holder, hash of the key and trace of the claim, in four lines.
	origin       TEXT,
	lease_until  INTEGER,
	-- When the record becomes a tombstone. Null: the record has none, or is one.
	retain_until INTEGER,
	-- When the row counts as missing, swept or not.
	expires_at   INTEGER NOT NULL,
	-- The full hour after the next of both ends, for the sweeper's index. It hardly ever changes while a request runs.
	sweep_after  INTEGER NOT NULL,
	claimed_at   INTEGER NOT NULL,
	settled_at   INTEGER,
	status       INTEGER,
	-- A list of [operation, name, value], or of [operation, name, value, "base64"], in JSON.
	header       TEXT,
	body         BLOB,
	sketch       BLOB,
	-- The steps that a run has recorded which is in progress or released.
	steps        BLOB
);

CREATE INDEX IF NOT EXISTS {index}_sweep_after ON {table} (sweep_after);
