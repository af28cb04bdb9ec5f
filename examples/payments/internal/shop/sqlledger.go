package shop

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

//go:embed tables.sql
var tables string

// OverPostgres makes the tables of tables.sql, and returns the ledger and the bank in them.
func OverPostgres(ctx context.Context, db *sql.DB, j *Journal) (Ledger, Bank, error) {
	_, err := db.ExecContext(ctx, tables)
	return &sqlLedger{j, db, numbered}, &sqlBank{db, inPostgres}, err
}

// OverSQLite makes the table of the ledger in a database of SQLite.
func OverSQLite(ctx context.Context, db *sql.DB, j *Journal) (Ledger, error) {
	return overSQL(ctx, db, j, `number INTEGER PRIMARY KEY`)
}

// OverMySQL makes the tables of the ledger and of the bank in a database of MySQL or MariaDB.
func OverMySQL(ctx context.Context, db *sql.DB, j *Journal) (Ledger, Bank, error) {
	ledger, err := overSQL(ctx, db, j, `number BIGINT AUTO_INCREMENT PRIMARY KEY`, mysqlTables...)
	return ledger, &sqlBank{db, inMySQL}, err
}

func overSQL(ctx context.Context, db *sql.DB, j *Journal, number string, tables ...string) (Ledger, error) {
	// An identity is null where the entry has none, and null is not unique.
	ledger := `CREATE TABLE IF NOT EXISTS payments_ledger (` + number + `,
	kind VARCHAR(20) NOT NULL, operation CHAR(64) UNIQUE, charged CHAR(64) UNIQUE, entry TEXT NOT NULL)`
	for _, statement := range append([]string{ledger}, tables...) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return &sqlLedger{j, db, func(statement string) string { return statement }}, nil
}

// numbered returns a statement with PostgreSQL's placeholders in the place of question marks.
func numbered(statement string) string {
	parts := strings.Split(statement, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// sqlLedger is a table that all processes share and that outlives each process.
type sqlLedger struct {
	journal *Journal
	db      *sql.DB
	dialect func(statement string) string
}

// Add inserts a row in a transaction of its own. For a side effect within the response's
// transaction see sqlBank. A process that dies between this row and the stored response
// leaves an abandoned key. The unique identities let the next attempt find the row, and a
// retry under another key too.
func (l *sqlLedger) Add(ctx context.Context, b Book, e Entry) (in Entry, added bool, err error) {
	e = e.stamp(ctx)
	text, err := json.Marshal(e)
	if err != nil {
		return Entry{}, false, err
	}
	operation, charged := l.identities(ctx, b, e)
	insert := l.dialect(`INSERT INTO payments_ledger (kind, operation, charged, entry) VALUES (?, ?, ?, ?)`)
	_, insertErr := l.db.ExecContext(ctx, insert, b, operation, charged, string(text))
	if insertErr == nil {
		if err := l.journal.append(b, e); err != nil { // the row is authoritative
			slog.ErrorContext(ctx, "the ledger's file lacks a line", "error", err, "kind", b, "id", e.ID)
		}
		return e, true, nil
	}
	var before []byte
	find := l.dialect(`SELECT entry FROM payments_ledger WHERE operation = ? OR charged = ? ORDER BY number LIMIT 1`)
	err = l.db.QueryRowContext(ctx, find, operation, charged).Scan(&before)
	if err != nil {
		return Entry{}, false, explain(ctx, insertErr)
	}
	slog.ErrorContext(ctx, "the side effect has already happened", "kind", b, "attempt", e.Attempt)
	err = json.Unmarshal(before, &in)
	return in, false, err
}

// identities are the entry's identities, each as a hash or null.
func (*sqlLedger) identities(ctx context.Context, b Book, e Entry) (operation, charged *string) {
	all := e.identities(ctx, b)
	for i, identity := range all {
		sum := sha256.Sum256([]byte(identity))
		all[i] = hex.EncodeToString(sum[:])
	}
	if b == Charges {
		charged = &all[len(all)-1]
		all = all[:len(all)-1]
	}
	if len(all) > 0 {
		operation = &all[0]
	}
	return operation, charged
}

func (l *sqlLedger) All(ctx context.Context) (map[Book][]Entry, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT kind, entry FROM payments_ledger ORDER BY number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	entries := emptyBooks()
	for rows.Next() {
		var b Book
		var text []byte
		var e Entry
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

// explain turns a database error into the handler's error. Of all other errors the outcome
// is unknown: the key is released, and the identities tell the next attempt.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errCutShort, err)
	case codeOf(err) == textCannotBeEncoded:
		return BadRequest("text cannot hold NUL characters or broken UTF-8")
	default:
		return err
	}
}
