//go:build cgo && !race

package sqlstore_test

import (
	_ "github.com/mattn/go-sqlite3"

	"github.com/oncekey/oncekey/core/sqlstore"
)

// cgo are the set-ups whose driver is in C, which the race detector does not see.
var cgo = []setUp{{
	name: "SQLite with go-sqlite3", driver: "sqlite3", database: "sqlite", dialect: sqlstore.SQLite(),
	dsn: sqliteFile("_synchronous=OFF&_busy_timeout=5000&_journal_mode=WAL"),
}}
