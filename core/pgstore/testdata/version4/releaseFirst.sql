DELETE FROM oncekey.records AS r WHERE r.key = $1 AND r.attempt = $3 AND r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')
