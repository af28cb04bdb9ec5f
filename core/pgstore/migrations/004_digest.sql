-- Version 4: a digest of the request's bytes, and a function that claims with it.

-- A statement that waits for this lock holds up all that come after it. So rather fail, and be run again.
SET LOCAL lock_timeout = '3s';

ALTER TABLE {schema}.records
	-- The 16 bytes of core.Digest. Null: the request has none.
	ADD COLUMN digest       uuid,
	-- The token of the attempt that has written the digest. A program that does not know these columns leaves them as they
	-- are, beside another token.
	ADD COLUMN digest_token uuid;

-- claim_request is the function claim, which programs before this version still call, with a digest. It returns the attempt
-- that the token has won, or 0 when another attempt holds the key. Less than 0: it took an abandoned attempt over.
CREATE FUNCTION {schema}.claim_request(
	its_key text, its_token uuid, its_fingerprint text, its_digest uuid, ttl interval, retain interval, take_over boolean,
	asynchronous boolean
) RETURNS bigint LANGUAGE plpgsql AS $claim$
DECLARE
	won bigint;
BEGIN
	INSERT INTO {schema}.records
		(key, version, state, attempt, took_over, token, fingerprint, digest, digest_token, lease_until, expires_at, claimed_at)
	VALUES (its_key, 1, 'in_progress', 1, false, its_token, its_fingerprint, its_digest, its_token,
		clock_timestamp() + ttl, clock_timestamp() + retain, clock_timestamp())
	ON CONFLICT (key) DO NOTHING;
	IF FOUND THEN
		IF asynchronous THEN
			PERFORM set_config('synchronous_commit', 'off', true);
		END IF;
		RETURN 1;
	END IF;

	-- An UPDATE that waits for a row has made its new values before. So wait first: the lease begins when it is won.
	PERFORM FROM {schema}.records WHERE key = its_key FOR UPDATE;
	UPDATE {schema}.records AS r SET
		attempt = CASE
			WHEN r.expires_at <= clock_timestamp() THEN 1
			WHEN r.state = 'in_progress' AND r.token = its_token THEN r.attempt
			ELSE r.attempt + 1 END,
		took_over = NOT r.expires_at <= clock_timestamp() AND r.state = 'in_progress' AND (r.token <> its_token OR r.took_over),
		version = 1, state = 'in_progress', token = its_token, fingerprint = its_fingerprint,
		digest = its_digest, digest_token = its_token,
		lease_until = clock_timestamp() + ttl, expires_at = clock_timestamp() + retain,
		status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL,
		claimed_at = clock_timestamp(), settled_at = NULL
	WHERE r.key = its_key AND (r.expires_at <= clock_timestamp() OR (
		r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
			r.token = its_token OR take_over AND r.lease_until <= clock_timestamp() AND (
				r.fingerprint = its_fingerprint OR r.digest = its_digest AND r.digest_token = r.token)))) IS TRUE)
	RETURNING CASE WHEN r.took_over THEN -r.attempt ELSE r.attempt END INTO won;
	RETURN coalesce(won, 0);
END
$claim$;

INSERT INTO {schema}.migrations (version) VALUES (4);
