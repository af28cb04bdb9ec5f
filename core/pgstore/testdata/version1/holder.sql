SELECT r.version = 1 AND r.token = $2::uuid AND r.state NOT IN ('in_progress', 'released'),
	r.version = 1 AND r.token = $2::uuid AND r.state = 'in_progress' AND r.attempt = $3
FROM "oncekey".records AS r WHERE r.key = $1 AND NOT r.expires_at <= clock_timestamp()
