-- Version 3: a function that claims, for a statement that reads first.
--
-- A statement prepares all that it might do, each time that it is run: an INSERT that a replay never comes to costs it more
-- than the reading. What is in a function is prepared when the function is called.

-- The attempt that the token has won, or 0 when the key is somebody else's. Less than 0: it was taken over from an attempt
-- that has left it abandoned.
CREATE FUNCTION {schema}.claim(
	its_key text, its_token uuid, its_fingerprint text, ttl interval, retain interval, take_over boolean, asynchronous boolean
) RETURNS bigint LANGUAGE plpgsql AS $claim$
DECLARE
	won bigint;
BEGIN
	INSERT INTO {schema}.records (key, version, state, attempt, took_over, token, fingerprint, lease_until, expires_at, claimed_at)
	VALUES (its_key, 1, 'in_progress', 1, false, its_token, its_fingerprint,
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
		lease_until = clock_timestamp() + ttl, expires_at = clock_timestamp() + retain,
		status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL,
		claimed_at = clock_timestamp(), settled_at = NULL
	WHERE r.key = its_key AND (r.expires_at <= clock_timestamp() OR (
		r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
			r.token = its_token OR take_over AND r.fingerprint = its_fingerprint AND r.lease_until <= clock_timestamp()))) IS TRUE)
	RETURNING CASE WHEN r.took_over THEN -r.attempt ELSE r.attempt END INTO won;
	RETURN coalesce(won, 0);
END
$claim$;

INSERT INTO {schema}.migrations (version) VALUES (3);
