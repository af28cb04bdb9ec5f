SELECT r.key, r.version, r.state, r.attempt, r.fingerprint,
		CASE WHEN isfinite(r.lease_until) THEN (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000000)::bigint END AS lease_left,
		r.status, NULL::jsonb, NULL::bytea FROM "oncekey".records AS r
WHERE r.key > $1 AND r.key <= $2 AND r.state = $3 AND NOT r.expires_at <= clock_timestamp()
ORDER BY r.key LIMIT $4
