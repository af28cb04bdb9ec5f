INSERT INTO oncekey.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, digest, digest_token, lease_until, expires_at, claimed_at)
VALUES ($1, $2::uuid, 1, 'in_progress', $3, $4, $5, $8::uuid, $2::uuid,
	clock_timestamp() + $6::interval, clock_timestamp() + $7::interval, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = 'in_progress', attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = clock_timestamp() + $6::interval, expires_at = clock_timestamp() + $7::interval,
	digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL, settled_at = NULL
WHERE r.expires_at <= clock_timestamp() OR r.attempt = EXCLUDED.attempt AND r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
