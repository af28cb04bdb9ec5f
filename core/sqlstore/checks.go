package sqlstore

import (
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

const mayLose = "a crash may lose the last claims and responses, and a retry then runs the handler a second time"

var postgresqlChecks = []check{
	{"synchronous_commit", `SHOW synchronous_commit`, wants(storage.Mend, "set it to on: "+mayLose, "on", "remote_apply", "remote_write", "local")},
	{"fsync", `SHOW fsync`, wants(storage.Mend, "set it to on: "+mayLose, "on")},
	{
		"recovery", `SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE 'primary' END`,
		wants(storage.Mend, "lead the pool to the primary: a standby refuses each claim", "primary"),
	},
}

var mysqlChecks = []check{
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
