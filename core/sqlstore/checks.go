package sqlstore

import (
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

const mayLose = "a crash may lose the last claims and responses, and a retry then runs the handler a second time"

// largestResponse is the policies' default MaxResponseBytes, and packetRoom is for the rest
// of a statement.
const largestResponse, packetRoom = 1 << 20, 64 << 10

const notKept = "a larger response is not kept, and its retries get not_replayable"

// limits judges a limit in bytes, possibly after a name and an equals sign.
func limits(value string) (storage.Grade, string) {
	limit, err := strconv.Atoi(value[strings.LastIndexByte(value, '=')+1:])
	if err != nil || limit < largestResponse+packetRoom {
		return storage.Mend, "raise it above the largest MaxResponseBytes of the policies: " + notKept
	}
	return storage.Good, ""
}

// mayRefuse judges the names of constraints and triggers.
var mayRefuse = wants(storage.Look, "remove those that may refuse a response: it is not kept then, and its retries get not_replayable", "none")

var postgresqlChecks = []check{
	{"constraints and triggers", `
SELECT coalesce(string_agg(name, ', '), 'none') FROM (
	SELECT conname::text AS name FROM pg_constraint WHERE conrelid = to_regclass('{table}') AND contype IN ('c', 'f')
	UNION ALL SELECT tgname::text FROM pg_trigger WHERE tgrelid = to_regclass('{table}') AND NOT tgisinternal) AS r`, mayRefuse},
	{"synchronous_commit", `SHOW synchronous_commit`, wants(storage.Mend, "set it to on: "+mayLose, "on", "remote_apply", "remote_write", "local")},
	{"fsync", `SHOW fsync`, wants(storage.Mend, "set it to on: "+mayLose, "on")},
	{
		"recovery", `SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END`,
		wants(storage.Mend, "lead the pool to the primary: a standby refuses each claim", "primary"),
	},
}

var mysqlChecks = []check{
	{"max_allowed_packet", `SELECT @@max_allowed_packet`, limits},
	{"constraints and triggers", `
SELECT coalesce(group_concat(name SEPARATOR ', '), 'none') FROM (
	SELECT constraint_name AS name FROM information_schema.table_constraints WHERE constraint_type IN ('CHECK', 'FOREIGN KEY')
		AND concat(table_schema, '.', table_name) IN ('{table}', concat(database(), '.{table}'))
	UNION ALL SELECT trigger_name FROM information_schema.triggers
		WHERE concat(event_object_schema, '.', event_object_table) IN ('{table}', concat(database(), '.{table}'))) AS r`, mayRefuse},
	{"innodb_flush_log_at_trx_commit", `SELECT @@innodb_flush_log_at_trx_commit`, wants(storage.Mend, "set it to 1: "+mayLose, "1")},
	{
		"sync_binlog", `SELECT CASE WHEN @@log_bin = 0 THEN 'no binary log' ELSE concat(@@sync_binlog, '') END`,
		wants(storage.Look, "set it to 1: a replica that is promoted after a crash may lack the last claims and responses", "1", "no binary log"),
	},
	{
		"storage engine", `SELECT engine FROM information_schema.tables WHERE concat(table_schema, '.', table_name) IN ('{table}', concat(database(), '.{table}'))`,
		wants(storage.Mend, "ALTER TABLE the records to InnoDB: another engine has no row locks, and loses records in a crash", "InnoDB"),
	},
	{"sql_mode", `SELECT @@sql_mode`, func(value string) (storage.Grade, string) {
		if strings.Contains(value, "STRICT_ALL_TABLES") || strings.Contains(value, "STRICT_TRANS_TABLES") {
			return storage.Good, ""
		}
		return storage.Mend, "add STRICT_TRANS_TABLES: without it a response that does not fit is cut off without an error"
	}},
	{"autocommit", `SELECT @@autocommit + 0`, wants(storage.Mend, "set it to 1: without it no record is ever committed", "1")},
	{"read_only", `SELECT @@read_only + 0`, wants(storage.Mend, "lead the pool to the primary: a replica refuses each claim", "0")},
}

var sqliteChecks = []check{
	{"largest value", `SELECT coalesce((SELECT compile_options FROM pragma_compile_options WHERE compile_options LIKE 'MAX_LENGTH=%'),
	'MAX_LENGTH=1000000000')`, limits},
	{"constraints and triggers", `
SELECT coalesce(group_concat(name, ', '), 'none') FROM sqlite_master
WHERE tbl_name = '{table}' AND (type = 'trigger' OR type = 'table' AND sql LIKE '%CHECK%(%')`, mayRefuse},
	{"journal_mode", `PRAGMA journal_mode`, wants(storage.Look, "set it to WAL: otherwise replays wait for writes", "wal")},
	{"synchronous", `PRAGMA synchronous`, wants(storage.Mend, "set it to FULL (2) on each connection: "+mayLose, "2", "3")},
	{"busy_timeout", `PRAGMA busy_timeout`, func(value string) (storage.Grade, string) {
		if value == "0" {
			return storage.Look, "set it to 5000 ms on each connection: without it a write next to another connection's write fails"
		}
		return storage.Good, ""
	}},
	{"file", `SELECT CASE WHEN file = '' THEN 'in memory' ELSE file END FROM pragma_database_list WHERE name = 'main'`, func(value string) (storage.Grade, string) {
		if value == "in memory" {
			return storage.Mend, "name a file: the records end with the process"
		}
		return storage.Good, ""
	}},
}
