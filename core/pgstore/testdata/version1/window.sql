SELECT coalesce(max(key), ''), count(*)
FROM (SELECT key FROM "oncekey".records WHERE key > $1 ORDER BY key LIMIT $2) AS keys
