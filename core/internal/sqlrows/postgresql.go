package sqlrows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// Classes of SQLSTATE, and codes, with which PostgreSQL refuses a row for good: data that
// no column takes, a constraint, a limit of the program, and a trigger's exception.
var (
	refusedClasses = []string{"22", "23", "44", "54"}
	refusedStates  = []string{"P0001"}
)

// RefusedForGood reports whether an error of PostgreSQL, with its SQLSTATE if it has one,
// says that it refuses a row now and later. The text is that of the limit of 1 GB.
func RefusedForGood(state, text string) bool {
	return state != "" && (slices.Contains(refusedClasses, state[:min(2, len(state))]) || slices.Contains(refusedStates, state)) ||
		strings.Contains(text, "invalid memory alloc request size")
}

// TakesNoChanges reports whether an error of PostgreSQL says that it takes new rows of the table
// and no changes of them: a publication needs a replica identity that the table lacks, or does
// not cover it.
func TakesNoChanges(state string) bool { return state == "55000" || state == "42P10" }

// ProbeFailure returns the error of a probe, which names the publication if the table takes no changes.
func ProbeFailure(state string, err error) error {
	if !TakesNoChanges(state) {
		return err
	}
	return fmt.Errorf("%w: a publication does not cover the table's replica identity: %w", storage.ErrNotStorable, err)
}

// PostgreSQLChecks are the settings of a server that matter to the records. AsynchronousClaims
// is worth a look in durability.
func PostgreSQLChecks() []Check {
	const loses = "a crash may lose the last claims and responses, and their requests run twice"
	return []Check{
		{"version", `SELECT (current_setting('server_version_num')::int < 130000)::int || ' PostgreSQL ' || current_setting('server_version')`, verdicts(
			verdict{storage.Mend, "upgrade: the store needs PostgreSQL 13 or newer"})},
		{"constraints and triggers", `
SELECT coalesce(string_agg(name, ', '), 'none') FROM (
	SELECT conname::text AS name FROM pg_constraint WHERE conrelid = to_regclass('{table}') AND contype IN ('c', 'f')
	UNION ALL SELECT tgname::text FROM pg_trigger WHERE tgrelid = to_regclass('{table}') AND NOT tgisinternal) AS r`, MayRefuse},
		{
			"primary", `SELECT CASE WHEN pg_is_in_recovery() THEN 'the server is a standby' ELSE 'the server is a primary' END`,
			Wants(storage.Mend, "lead the pool to the primary, by target_session_attrs=read-write in the DSN: a standby refuses each claim", "the server is a primary"),
		},
		{"durability", `
SELECT CASE WHEN f <> 'on' OR p <> 'on' THEN 1 WHEN c = 'off' THEN 2 ELSE 0 END
	|| format(' synchronous_commit %s, fsync %s, full_page_writes %s', c, f, p)
FROM (SELECT current_setting('synchronous_commit') AS c, current_setting('fsync') AS f, current_setting('full_page_writes') AS p) AS s`, verdicts(
			verdict{storage.Mend, "set fsync and full_page_writes on: a crash of the machine may lose or damage all records"},
			verdict{storage.Mend, "set synchronous_commit on for this role: " + loses})},
		{
			"write-ahead log", `
SELECT coalesce(string_agg('not of ' || oid::regclass, ', '), 'of the whole table') FROM pg_class
WHERE relpersistence <> 'p' AND (oid = to_regclass('{table}') OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('{table}')))`,
			Wants(storage.Mend, "run ALTER TABLE ... SET LOGGED: a crash of the server or a failover empties the table, and requests run twice", "of the whole table"),
		},
		{"synchronous standbys", `
SELECT CASE WHEN names = '' AND there > 0 THEN 1 WHEN names <> '' AND c = 'local' THEN 2 WHEN names <> '' AND there = 0 THEN 3 ELSE 0 END
	|| format(' synchronous_standby_names %s, synchronous_commit %s, %s standbys are connected', quote_literal(names), c, there)
FROM (SELECT current_setting('synchronous_standby_names') AS names, current_setting('synchronous_commit') AS c,
	(SELECT count(*) FROM pg_stat_replication) AS there) AS s`, verdicts(
			verdict{storage.Look, "set synchronous_standby_names: a failover may lose the last claims and responses"},
			verdict{storage.Look, "set synchronous_commit on: commits do not wait for the standbys"},
			verdict{storage.Mend, "start the standbys: each commit waits for them"})},
		{"time limits", `
SELECT max((setting::bigint BETWEEN 1 AND 2999)::int) || ' ' || string_agg(name || ' ' || setting || 'ms', ', ' ORDER BY name) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`, verdicts(
			verdict{storage.Look, "raise those below 3000ms, or set them to 0: the store bounds its statements itself, and a server's limit also ends a handler's transaction"})},
		{"autovacuum", `
SELECT CASE WHEN 'autovacuum_enabled=false' = ANY (c.reloptions) OR current_setting('autovacuum') <> 'on' THEN 1
		WHEN n_dead_tup > 1000 AND n_dead_tup > n_live_tup THEN 2 ELSE 0 END
	|| format(' %s dead rows of %s, last autovacuum %s', n_dead_tup, n_live_tup + n_dead_tup, coalesce(date_trunc('second', last_autovacuum)::text, 'never'))
FROM pg_class AS c JOIN pg_stat_all_tables AS s ON s.relid = c.oid WHERE c.oid = to_regclass('{table}')`, verdicts(
			verdict{storage.Mend, "set autovacuum on, for the server and for the table"},
			verdict{storage.Look, "lower autovacuum_vacuum_scale_factor and autovacuum_vacuum_cost_delay of the table, and end old transactions"})},
		{"fillfactor", `
SELECT (factor > 70)::int || ' fillfactor ' || factor
FROM pg_class AS c, LATERAL (SELECT coalesce((SELECT substr(o, 12)::int FROM unnest(c.reloptions) AS o WHERE o LIKE 'fillfactor=%'), 100) AS factor) AS f
WHERE c.oid = to_regclass('{table}')`, verdicts(
			verdict{storage.Look, "set the fillfactor of the table to 25: without space on the page each response writes to the indexes too"})},
		// A row takes about 220 bytes in the index of keys, in pages that are half full.
		{"index size", `
SELECT (size > 8 << 20 AND size > rows * 220)::int || format(' the index of keys has %s bytes for about %s rows', size, rows)
FROM (SELECT coalesce((SELECT pg_relation_size(x.indexrelid) FROM pg_index AS x WHERE x.indrelid = c.oid AND x.indisprimary), 0) AS size,
	greatest(c.reltuples, s.n_live_tup, 0)::bigint AS rows
	FROM pg_class AS c LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid WHERE c.oid = to_regclass('{table}')) AS i`, verdicts(
			verdict{storage.Look, "run REINDEX INDEX CONCURRENTLY for the primary key, and sweep often"})},
	}
}
