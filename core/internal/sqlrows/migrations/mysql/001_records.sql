-- Times are microseconds since 1970 in UTC, by the server's clock.
CREATE TABLE IF NOT EXISTS {table} (
	record_key   varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
	-- The format of the columns. A program refuses a row of a version that it does not know.
	version      smallint       NOT NULL,
	-- in_progress, completed, failed, unreplayable, released, forgotten (only an attempt number is left) or gone (a tombstone).
	state        varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	attempt      bigint         NOT NULL,
	took_over    smallint       NOT NULL,
	token        binary(16)     NOT NULL,
	-- Each write of the row adds one.
	revision     bigint         NOT NULL,
	-- 0xff and the 32 bytes of a SHA-256, or any other text.
	fingerprint  blob           NOT NULL,
	digest       binary(16),
	-- Route, holder, hash of the key and trace of the claim, in four lines.
	origin       text CHARACTER SET ascii COLLATE ascii_bin,
	lease_until  bigint,
	-- When the record becomes a tombstone. Null: the record has none, or is one.
	retain_until bigint,
	-- When the row counts as missing, swept or not.
	expires_at   bigint         NOT NULL,
	-- The full hour after the next of both ends, for the sweeper's index. It hardly ever changes while a request runs.
	sweep_after  bigint         NOT NULL,
	claimed_at   bigint         NOT NULL,
	settled_at   bigint,
	status       smallint,
	-- A list of [operation, name, value], or of [operation, name, value, "base64"], in JSON.
	header       longtext CHARACTER SET ascii COLLATE ascii_bin,
	body         longblob,
	sketch       blob,
	-- The steps that a run has recorded which is in progress or released.
	steps        longblob,
	INDEX {index}_sweep_after (sweep_after)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
