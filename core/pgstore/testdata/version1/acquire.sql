WITH found AS (
	SELECT r.version, r.state, r.attempt, r.fingerprint,
		CASE WHEN isfinite(r.lease_until) THEN (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000000)::bigint END AS lease_left,
		r.status, r.header, r.body, (r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
		r.token = $2 OR $6::boolean AND r.fingerprint = $3 AND r.lease_until <= clock_timestamp()))) IS TRUE AS open
	FROM "oncekey".records AS r
	WHERE r.key = $1 AND NOT r.expires_at <= clock_timestamp()
), claimed AS (
	INSERT INTO "oncekey".records AS r (key, version, state, attempt, took_over, token, fingerprint, lease_until, expires_at, claimed_at)
	SELECT $1, 1, 'in_progress', 1, false, $2::uuid, $3::text,
		clock_timestamp() + $4::interval, clock_timestamp() + $5::interval, clock_timestamp()
	WHERE NOT EXISTS (SELECT FROM found WHERE NOT open)
	ON CONFLICT (key) DO UPDATE SET
		attempt = CASE
			WHEN r.expires_at <= clock_timestamp() THEN 1
			WHEN r.state = 'in_progress' AND r.token = $2 THEN r.attempt
			ELSE r.attempt + 1 END,
		took_over = NOT r.expires_at <= clock_timestamp() AND r.state = 'in_progress' AND (r.token <> $2 OR r.took_over),
		version = 1, state = 'in_progress', token = $2, fingerprint = $3,
		lease_until = clock_timestamp() + $4::interval, expires_at = clock_timestamp() + $5::interval,
		status = NULL, header = NULL, body = NULL, claimed_at = clock_timestamp(), settled_at = NULL
	WHERE r.expires_at <= clock_timestamp() OR (r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
		r.token = $2 OR $6::boolean AND r.fingerprint = $3 AND r.lease_until <= clock_timestamp()))) IS TRUE
	RETURNING r.version, r.state, r.attempt, r.took_over, r.fingerprint
)
SELECT true AS won, took_over, version, state, attempt, fingerprint, NULL::bigint, NULL::smallint, NULL::jsonb, NULL::bytea FROM claimed
UNION ALL
SELECT false AS won, false AS took_over, version, state, attempt, fingerprint, lease_left, status, header, body FROM found WHERE NOT open
