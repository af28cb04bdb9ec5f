UPDATE oncekey.records AS r SET
	state = 'released', took_over = false, fingerprint = '', digest = NULL, lease_until = NULL, expires_at = clock_timestamp() + $4::interval,
	settled_at = clock_timestamp()
WHERE r.key = $1 AND r.attempt = $3 AND r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
