package sqlrows

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
func limits(value string) (string, storage.Grade, string) {
	limit, err := strconv.Atoi(value[strings.LastIndexByte(value, '=')+1:])
	if err != nil || limit < largestResponse+packetRoom {
		return value, storage.Mend, "raise it above the largest MaxResponseBytes of the policies: " + notKept
	}
	return value, storage.Good, ""
}

// MySQLChecks are the settings of MySQL and MariaDB that matter to the records.
var MySQLChecks = []Check{
	{"max_allowed_packet", `SELECT @@max_allowed_packet`, limits},
	{"constraints and triggers", `
SELECT coalesce(group_concat(name SEPARATOR ', '), 'none') FROM (
	SELECT constraint_name AS name FROM information_schema.table_constraints WHERE constraint_type IN ('CHECK', 'FOREIGN KEY')
		AND table_schema = {database} AND table_name = '{name}'
	UNION ALL SELECT trigger_name FROM information_schema.triggers
		WHERE event_object_schema = {database} AND event_object_table = '{name}') AS r`, MayRefuse},
	{"innodb_flush_log_at_trx_commit", `SELECT @@innodb_flush_log_at_trx_commit`, Wants(storage.Mend, "set it to 1: "+mayLose, "1")},
	{
		"sync_binlog", `SELECT CASE WHEN @@log_bin = 0 THEN 'no binary log' ELSE concat(@@sync_binlog, '') END`,
		Wants(storage.Look, "set it to 1: a replica that is promoted after a crash may lack the last claims and responses", "1", "no binary log"),
	},
	{
		"storage engine", `SELECT engine FROM information_schema.tables WHERE table_schema = {database} AND table_name = '{name}'`,
		Wants(storage.Mend, "ALTER TABLE the records to InnoDB: another engine has no row locks, and loses records in a crash", "InnoDB"),
	},
	{"sql_mode", `SELECT @@sql_mode`, func(value string) (string, storage.Grade, string) {
		if strings.Contains(value, "STRICT_ALL_TABLES") || strings.Contains(value, "STRICT_TRANS_TABLES") {
			return value, storage.Good, ""
		}
		return value, storage.Mend, "add STRICT_TRANS_TABLES: without it a response that does not fit is cut off without an error"
	}},
	{"autocommit", `SELECT @@autocommit + 0`, Wants(storage.Mend, "set it to 1: without it no record is ever committed", "1")},
	{"read_only", `SELECT @@read_only + 0`, Wants(storage.Mend, "lead the pool to the primary, and set rejectReadOnly=true in the DSN: a replica refuses each claim", "0")},
}

// SQLiteChecks are the settings of a file that matter to its records.
var SQLiteChecks = []Check{
	{"largest value", `SELECT coalesce((SELECT compile_options FROM pragma_compile_options WHERE compile_options LIKE 'MAX_LENGTH=%'),
	'MAX_LENGTH=1000000000')`, limits},
	{"constraints and triggers", `
SELECT coalesce(group_concat(name, ', '), 'none') FROM sqlite_master
WHERE tbl_name = '{table}' AND (type = 'trigger' OR type = 'table' AND sql LIKE '%CHECK%(%')`, MayRefuse},
	{"journal_mode", `PRAGMA journal_mode`, func(value string) (string, storage.Grade, string) {
		switch value {
		case "wal":
			return value, storage.Good, ""
		case "off", "memory":
			return value, storage.Mend, "set it to WAL: a crash may damage the file, with all its records"
		default:
			return value, storage.Look, "set it to WAL: otherwise replays wait for writes"
		}
	}},
	{"synchronous", `PRAGMA synchronous`, Wants(storage.Mend, "set it to FULL (2) on each connection: "+mayLose, "2", "3")},
	{"busy_timeout", `PRAGMA busy_timeout`, func(value string) (string, storage.Grade, string) {
		if value == "0" {
			return value, storage.Look, "set it to 5000 ms on each connection: without it a write next to another connection's write fails"
		}
		return value, storage.Good, ""
	}},
	{"file", `SELECT CASE WHEN file = '' THEN 'in memory' ELSE file END FROM pragma_database_list WHERE name = 'main'`, func(value string) (string, storage.Grade, string) {
		if value == "in memory" {
			return value, storage.Mend, "name a file: the records end with the process"
		}
		return value, storage.Good, ""
	}},
}
