-- Version 6: functions that claim and complete several keys in one transaction.
--
-- They decide the two common outcomes. Each key that they do not return is asked for alone then, by the statements of one
-- key. The keys of a call are sorted and differ, so that all calls lock rows in one order. A call waits 20 ms for a locked
-- row, because its other keys wait too; after that it fails, and each key is asked for alone.
--
-- A function keeps its plans, and plans with the array's values each time without plan_cache_mode. The two subqueries with
-- OFFSET 0 and enable_seqscan let no plan read the whole table, whatever the planner knows of its size.

-- The lock below is compatible with all that programs do. It waits for a VACUUM only.
SET LOCAL lock_timeout = '3s';

-- A batch fills pages with claims before their results come. At 50 per cent every second result found no room on its page,
-- and wrote all indexes: 15 per cent more WAL, and a table larger by a quarter, with 64 requests at once. A table that one
-- request at a time fills is larger by a half at 25 per cent: see docs/postgres.md. Another setting than that of version 1
-- stays, and so do partitions, whose parent has no setting.
DO $claim$
BEGIN
	IF (SELECT reloptions @> '{fillfactor=50}' FROM pg_class WHERE oid = $name${schema}.records$name$::regclass) THEN
		ALTER TABLE {schema}.records SET (fillfactor = 25);
	END IF;
END
$claim$;

-- claim_many claims keys that have no record: it returns such a key, and null in all other columns. It returns the record of
-- a key that is finished, if its body has at most 64 KiB, in the columns of the store's other statements.
--
-- ttls, keeps and retains are in microseconds. See claim_record for the meaning.
CREATE FUNCTION {schema}.claim_many(
	keys text[], tokens text[], fingerprints text[], digests text[], origins text[],
	ttls bigint[], keeps bigint[], retains bigint[], asynchronous boolean
) RETURNS TABLE (
	times bytea, version smallint, state text, attempt bigint, fingerprint text, digest uuid, origin text, status smallint,
	header jsonb, body bytea, sketch bytea, steps bytea, key text
) LANGUAGE plpgsql
	SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '20ms'
AS $claim$
#variable_conflict use_column
DECLARE
	found_keys integer;
	won_keys   integer;
BEGIN
	RETURN QUERY
	SELECT timestamptz_send(clock_timestamp()) || timestamptz_send('infinity') ||
		timestamptz_send(r.claimed_at) || timestamptz_send(coalesce(r.settled_at, 'infinity')) ||
		timestamptz_send(r.expires_at) || timestamptz_send(coalesce(r.retain_until, 'infinity')),
		r.version, r.state, r.attempt, r.fingerprint, CASE WHEN r.digest_token = r.token OR r.state = 'gone' THEN r.digest END,
		CASE WHEN r.origin_token = r.token THEN r.origin END, r.status, r.header, r.body,
		CASE WHEN r.sketch_token = r.token THEN r.sketch END, NULL::bytea, r.key
	FROM unnest(keys) AS k (key), LATERAL (SELECT * FROM {schema}.records AS r WHERE r.key = k.key OFFSET 0) AS r
	WHERE r.state IN ('completed', 'failed', 'unreplayable', 'gone') AND r.expires_at > clock_timestamp()
		AND (octet_length(r.body) > 65536) IS NOT TRUE;
	GET DIAGNOSTICS found_keys = ROW_COUNT;
	IF found_keys = cardinality(keys) THEN
		RETURN;
	END IF;

	-- A key that was found may be gone by now. It is claimed then, and its later row counts.
	RETURN QUERY
	INSERT INTO {schema}.records AS r
		(key, version, state, attempt, took_over, token, fingerprint, digest, digest_token, origin, origin_token,
		lease_until, expires_at, retain_until, retain_hour, claimed_at)
	SELECT k.key, CASE WHEN k.retain IS NULL THEN 1 ELSE 2 END, 'in_progress', 1, false, k.token::uuid, k.fingerprint,
		k.digest::uuid, k.token::uuid, k.origin, CASE WHEN k.origin IS NOT NULL THEN k.token::uuid END,
		clock_timestamp() + k.ttl * interval '1 microsecond', clock_timestamp() + k.keep * interval '1 microsecond',
		clock_timestamp() + k.retain * interval '1 microsecond',
		date_trunc('hour', clock_timestamp() + k.retain * interval '1 microsecond'), clock_timestamp()
	FROM unnest(keys, tokens, fingerprints, digests, origins, ttls, keeps, retains)
		AS k (key, token, fingerprint, digest, origin, ttl, keep, retain)
	ON CONFLICT (key) DO NOTHING
	RETURNING NULL::bytea, NULL::smallint, NULL::text, NULL::bigint, NULL::text, NULL::uuid, NULL::text, NULL::smallint,
		NULL::jsonb, NULL::bytea, NULL::bytea, NULL::bytea, r.key;
	GET DIAGNOSTICS won_keys = ROW_COUNT;
	IF asynchronous AND won_keys = cardinality(keys) THEN
		PERFORM set_config('synchronous_commit', 'off', true);
	END IF;
END
$claim$;

-- complete_many completes the records whose claims have not changed, and returns their keys. keeps and retains are in
-- microseconds. A row that changes while it waits for the row has another ctid, and is not completed.
CREATE FUNCTION {schema}.complete_many(
	keys text[], tokens text[], attempts bigint[], states text[], keeps bigint[], retains bigint[],
	statuses smallint[], headers text[], bodies bytea[], sketches bytea[]
) RETURNS SETOF text LANGUAGE plpgsql
	SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '20ms'
AS $claim$
BEGIN
	RETURN QUERY
	UPDATE {schema}.records AS r SET
		version = CASE WHEN k.retain IS NULL THEN 1 ELSE 2 END, state = k.state, lease_until = NULL, steps = NULL,
		expires_at = clock_timestamp() + k.keep * interval '1 microsecond',
		retain_until = clock_timestamp() + k.retain * interval '1 microsecond',
		retain_hour = date_trunc('hour', clock_timestamp() + k.retain * interval '1 microsecond'),
		status = k.status, header = k.header::jsonb, body = k.body, sketch = k.sketch, sketch_token = k.token::uuid,
		settled_at = clock_timestamp()
	FROM unnest(keys, tokens, attempts, states, keeps, retains, statuses, headers, bodies, sketches)
			AS k (key, token, attempt, state, keep, retain, status, header, body, sketch),
		LATERAL (SELECT r.ctid, r.tableoid FROM {schema}.records AS r WHERE r.key = k.key OFFSET 0) AS found
	WHERE r.ctid = found.ctid AND r.tableoid = found.tableoid
		AND r.version IN (1, 2) AND r.token = k.token::uuid AND r.attempt = k.attempt AND r.state = 'in_progress'
		AND (r.version = 2 AND r.retain_until <= clock_timestamp()) IS NOT TRUE
	RETURNING r.key;
END
$claim$;

INSERT INTO {schema}.migrations (version) VALUES (6);
