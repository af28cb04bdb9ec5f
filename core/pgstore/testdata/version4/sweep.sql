DELETE FROM oncekey.records WHERE key = ANY (ARRAY(
	SELECT key FROM oncekey.records
	WHERE sweep_after <= now() AT TIME ZONE 'UTC' ORDER BY sweep_after LIMIT $1
	FOR UPDATE SKIP LOCKED
))
