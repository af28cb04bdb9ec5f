INSERT INTO "oncekey".records AS r
	(key, token, version, state, attempt, took_over, fingerprint, expires_at, status, header, body, claimed_at, settled_at)
VALUES ($1, $2::uuid, 1, $3, $4, $5, $6, clock_timestamp() + $7::interval, $8, $9::text::jsonb, $10, clock_timestamp(), clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = EXCLUDED.state, attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = NULL, expires_at = clock_timestamp() + $7::interval,
	status = EXCLUDED.status, header = EXCLUDED.header, body = EXCLUDED.body, settled_at = clock_timestamp()
WHERE r.expires_at <= clock_timestamp() OR r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
