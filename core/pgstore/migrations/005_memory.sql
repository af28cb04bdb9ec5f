-- Version 5: tombstones, the steps of a run, and the origin of a claim.

-- A statement that waits for this lock holds up all that come after it. So rather fail, and be run again.
SET LOCAL lock_timeout = '3s';

-- A row of version 2 has steps, or is remembered: expires_at is then the end of its tombstone. Programs before this version
-- refuse such a row, and sweep it when its tombstone is over. They write version 1 whenever they claim a row, so what they
-- leave in the columns below does not count.
ALTER TABLE {schema}.records
	-- What a run in progress has recorded, or one that was released. The column holds valid UTF-8, whatever the encoding of the database.
	ADD COLUMN steps bytea,
	-- When a remembered row becomes a tombstone, swept or not. Null: the row is not remembered, or is a tombstone already. A
	-- swept tombstone has the state gone, and as its body the 32 bytes of its fingerprint, which is then empty.
	ADD COLUMN retain_until timestamptz,
	-- The last full hour before retain_until, for the sweeper's index. See sweep_after for the hour. The column is not
	-- generated, because that would write the whole table again. It may exist already, with its index: see docs/postgres.md.
	ADD COLUMN IF NOT EXISTS retain_hour timestamptz,
	-- Route, holder, hash of the key and trace of the claim, in four lines. A text that is not printable ASCII, or has a
	-- backslash, is escaped as in a Go string. For human eyes.
	ADD COLUMN origin text,
	-- The token of the attempt that has written the origin. A program that does not know these columns leaves them as they
	-- are, beside another token.
	ADD COLUMN origin_token uuid;

-- What the sweeper turns into tombstones. Rows that are not remembered are not in this index.
CREATE INDEX IF NOT EXISTS records_retain_hour ON {schema}.records (retain_hour) WHERE retain_hour IS NOT NULL;

-- claim_record is the function claim_request, which programs before this version still call, with an origin, steps and a
-- tombstone. It returns the attempt that the token has won, in 8 bytes, or 0 when another attempt holds the key. Less than 0:
-- it took an abandoned attempt over. The steps of the key follow.
--
-- keep is the time until the row is gone, and retain the time until it becomes a tombstone, or null without a tombstone.
CREATE FUNCTION {schema}.claim_record(
	its_key text, its_token uuid, its_fingerprint text, its_digest uuid, its_origin text, ttl interval, keep interval,
	retain interval, take_over boolean, asynchronous boolean
) RETURNS bytea LANGUAGE plpgsql AS $claim$
DECLARE
	moment timestamptz;
	won    bytea;
BEGIN
	INSERT INTO {schema}.records
		(key, version, state, attempt, took_over, token, fingerprint, digest, digest_token, origin, origin_token,
		lease_until, expires_at, retain_until, retain_hour, claimed_at)
	VALUES (its_key, CASE WHEN retain IS NULL THEN 1 ELSE 2 END, 'in_progress', 1, false, its_token, its_fingerprint,
		its_digest, its_token, its_origin, CASE WHEN its_origin IS NOT NULL THEN its_token END,
		clock_timestamp() + ttl, clock_timestamp() + keep, clock_timestamp() + retain,
		date_trunc('hour', clock_timestamp() + retain), clock_timestamp())
	ON CONFLICT (key) DO NOTHING;
	IF FOUND THEN
		IF asynchronous THEN
			PERFORM set_config('synchronous_commit', 'off', true);
		END IF;
		RETURN int8send(1);
	END IF;

	-- An UPDATE that waits for a row has made its new values before. So wait first: the lease begins when it is won.
	PERFORM FROM {schema}.records WHERE key = its_key FOR UPDATE;
	moment := clock_timestamp();
	UPDATE {schema}.records AS r SET
		attempt = CASE
			WHEN r.expires_at <= moment THEN 1
			WHEN r.state = 'in_progress' AND r.token = its_token THEN r.attempt
			ELSE r.attempt + 1 END,
		took_over = r.expires_at > moment AND r.state = 'in_progress' AND (r.token <> its_token OR r.took_over),
		version = CASE
			WHEN retain IS NULL AND NOT (r.version = 2 AND r.expires_at > moment AND r.steps IS NOT NULL) THEN 1
			ELSE 2 END,
		steps = CASE WHEN r.version = 2 AND r.expires_at > moment THEN r.steps END,
		state = 'in_progress', token = its_token, fingerprint = its_fingerprint,
		digest = its_digest, digest_token = its_token,
		origin = its_origin, origin_token = CASE WHEN its_origin IS NOT NULL THEN its_token END,
		lease_until = moment + ttl, expires_at = moment + keep,
		retain_until = moment + retain, retain_hour = date_trunc('hour', moment + retain),
		status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL,
		claimed_at = moment, settled_at = NULL
	WHERE r.key = its_key AND (r.expires_at <= moment OR (
		r.version IN (1, 2) AND (r.version = 2 AND r.retain_until <= moment) IS NOT TRUE AND (
			r.state = 'released' AND (r.version = 2 AND r.steps IS NOT NULL) IS NOT TRUE
			OR r.state = 'in_progress' AND r.token = its_token
			OR (r.state = 'released' OR take_over AND r.state = 'in_progress' AND r.lease_until <= moment)
				AND (r.fingerprint = its_fingerprint OR r.digest = its_digest AND r.digest_token = r.token))) IS TRUE)
	RETURNING int8send(CASE WHEN r.took_over THEN -r.attempt ELSE r.attempt END) || coalesce(r.steps, '') INTO won;
	RETURN coalesce(won, int8send(0));
END
$claim$;

INSERT INTO {schema}.migrations (version) VALUES (5);
