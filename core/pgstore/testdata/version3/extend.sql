INSERT INTO oncekey.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, lease_until, expires_at, claimed_at)
VALUES ($1, $2::uuid, 1, 'in_progress', $3, $4, $5, clock_timestamp() + $6::interval, clock_timestamp() + $7::interval, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = 'in_progress', attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = clock_timestamp() + $6::interval, expires_at = clock_timestamp() + $7::interval,
	status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL, settled_at = NULL
WHERE r.expires_at <= clock_timestamp() OR r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
