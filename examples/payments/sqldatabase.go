package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"

	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/sqlstore"
)

// openSQLite keeps the records and the ledger in one file. It needs no server, and the
// file outlives the process: after kill -9 the next process replays the responses.
func openSQLite(ctx context.Context, s settings, j *journal) (backend, error) {
	name := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.file}).EscapedPath()}
	name.RawQuery = url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}.Encode()
	b, _, err := openSQL(ctx, "sqlite", name.String(), sqlstore.SQLite(), `number INTEGER PRIMARY KEY`, nil, j)
	return b, err
}

// openSQL keeps the records and the ledger in a database of database/sql. The tables are
// made beside those of the records and of the ledger.
func openSQL(ctx context.Context, driver, dsn string, dialect sqlstore.Dialect, number string, tables []string, j *journal) (backend, *sql.DB, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return backend{}, nil, fmt.Errorf("%s: %w", driver, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections) // database/sql keeps two by default, and dials for all others
	err = sqlstore.Migrate(ctx, db, dialect)
	// An identity is null where the entry has none, and null is not unique.
	ledger := `CREATE TABLE IF NOT EXISTS payments_ledger (` + number + `,
	kind VARCHAR(20) NOT NULL, operation CHAR(64) UNIQUE, charged CHAR(64) UNIQUE, entry TEXT NOT NULL)`
	for _, statement := range append([]string{ledger}, tables...) {
		if err == nil {
			_, err = db.ExecContext(ctx, statement)
		}
	}
	if err != nil {
		return backend{}, nil, errors.Join(fmt.Errorf("%s: %w", driver, err), db.Close())
	}
	records := sqlstore.New(db, dialect)
	ctx, endSweep := context.WithCancel(context.WithoutCancel(ctx)) // the sweeper runs until close
	var sweeping sync.WaitGroup
	sweeping.Go(func() { records.RunSweeper(ctx, sweepEvery) })
	return backend{store: records, ledger: &sqlLedger{j, db}, close: func() error {
		endSweep()
		sweeping.Wait()
		return db.Close()
	}}, db, nil
}

// sqlLedger is a table in a database of database/sql.
type sqlLedger struct {
	journal *journal
	db      *sql.DB
}

// add inserts a row. The unique identities are the last defence against a second side
// effect, as in tables.sql.
func (l *sqlLedger) add(ctx context.Context, b book, e entry) (in entry, added bool, err error) {
	e = e.stamp(ctx)
	text, err := json.Marshal(e)
	if err != nil {
		return entry{}, false, err
	}
	operation, charged := l.identities(ctx, b, e)
	_, insertErr := l.db.ExecContext(ctx, `INSERT INTO payments_ledger (kind, operation, charged, entry) VALUES (?, ?, ?, ?)`, b, operation, charged, text)
	if insertErr == nil {
		if err := l.journal.append(b, e); err != nil { // the row is authoritative
			slog.ErrorContext(ctx, "the ledger's file lacks a line", "error", err, "kind", b, "id", e.ID)
		}
		return e, true, nil
	}
	var before []byte
	err = l.db.QueryRowContext(ctx, `SELECT entry FROM payments_ledger WHERE operation = ? OR charged = ?`, operation, charged).Scan(&before)
	if err != nil {
		return entry{}, false, explain(ctx, insertErr)
	}
	slog.ErrorContext(ctx, "the side effect has already happened", "kind", b, "attempt", e.Attempt)
	err = json.Unmarshal(before, &in)
	return in, false, err
}

// identities are the entry's identities, each as a hash or null.
func (*sqlLedger) identities(ctx context.Context, b book, e entry) (operation, charged *string) {
	all := e.identities(ctx, b)
	for i, identity := range all {
		sum := sha256.Sum256([]byte(identity))
		all[i] = hex.EncodeToString(sum[:])
	}
	if b == charges {
		charged = &all[len(all)-1]
		all = all[:len(all)-1]
	}
	if len(all) > 0 {
		operation = &all[0]
	}
	return operation, charged
}

func (l *sqlLedger) all(ctx context.Context) (map[book][]entry, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT kind, entry FROM payments_ledger ORDER BY number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	entries := emptyBooks()
	for rows.Next() {
		var b book
		var text []byte
		var e entry
		if err := rows.Scan(&b, &text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, err
		}
		entries[b] = append(entries[b], e)
	}
	return entries, rows.Err()
}
