INSERT INTO oncekey.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, expires_at, status, header, body, sketch, sketch_token,
	digest, digest_token, claimed_at, settled_at)
VALUES ($1, $2::uuid, 1, $3, $9, $10, $11, clock_timestamp() + $4::interval, $5, $6::text::jsonb, $7, $8, $2::uuid,
	$12::uuid, $2::uuid, clock_timestamp(), clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = EXCLUDED.state, attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = NULL, expires_at = clock_timestamp() + $4::interval,
	status = EXCLUDED.status, header = EXCLUDED.header, body = EXCLUDED.body,
	sketch = EXCLUDED.sketch, sketch_token = EXCLUDED.sketch_token, digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	settled_at = clock_timestamp()
WHERE r.expires_at <= clock_timestamp() OR r.attempt = EXCLUDED.attempt AND r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
