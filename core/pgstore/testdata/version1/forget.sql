DELETE FROM "oncekey".records AS r WHERE r.key = $1 RETURNING r.state <> 'released' AND NOT r.expires_at <= clock_timestamp()
