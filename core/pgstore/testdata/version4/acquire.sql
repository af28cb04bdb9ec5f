SELECT CASE WHEN isfinite(r.lease_until) THEN (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000000)::bigint END, r.version, r.state, r.attempt, r.fingerprint, CASE WHEN r.digest_token = r.token THEN r.digest END, r.status, r.header, r.body, CASE WHEN r.sketch_token = r.token THEN r.sketch END,
	CASE WHEN r.key IS NULL OR (r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
		r.token = $2 OR $6::boolean AND r.lease_until <= clock_timestamp() AND (
			r.fingerprint = $3 OR r.digest = $8 AND r.digest_token = r.token)))) IS TRUE THEN
		oncekey.claim_request($1, $2::uuid, $3::text, $8::uuid, $4::interval, $5::interval, $6::boolean, $7::boolean) END
FROM (SELECT) AS one LEFT JOIN oncekey.records AS r ON r.key = $1 AND NOT r.expires_at <= clock_timestamp()
