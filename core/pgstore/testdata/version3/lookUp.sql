SELECT CASE WHEN isfinite(r.lease_until) THEN (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000000)::bigint END, r.version, r.state, r.attempt, r.fingerprint, r.status, r.header, r.body, CASE WHEN r.sketch_token = r.token THEN r.sketch END FROM oncekey.records AS r
WHERE r.key = $1 AND r.state <> 'released' AND NOT r.expires_at <= clock_timestamp()
