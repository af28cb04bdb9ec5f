UPDATE oncekey.records AS r SET
	state = $3, lease_until = NULL, expires_at = clock_timestamp() + $4::interval, status = $5, header = $6::text::jsonb, body = $7,
	sketch = $8, sketch_token = $2::uuid, settled_at = clock_timestamp()
WHERE r.key = $1 AND r.version = 1 AND r.token = $2::uuid AND r.attempt = $9 AND r.state = 'in_progress'
