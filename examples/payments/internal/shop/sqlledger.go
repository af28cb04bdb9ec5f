package shop

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"log/slog"
)

// OverSQLite makes the table of the ledger in a database of SQLite.
func OverSQLite(ctx context.Context, db *sql.DB, j *Journal) (Ledger, error) {
	return overSQL(ctx, db, j, `number INTEGER PRIMARY KEY`)
}

// OverMySQL makes the tables of the ledger and of the bank in a database of MySQL or MariaDB.
func OverMySQL(ctx context.Context, db *sql.DB, j *Journal) (Ledger, Bank, error) {
	ledger, err := overSQL(ctx, db, j, `number BIGINT AUTO_INCREMENT PRIMARY KEY`, mysqlTables...)
	return ledger, &mysqlBank{db}, err
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
	return &sqlLedger{j, db}, nil
}

// sqlLedger is a table in a database of database/sql.
type sqlLedger struct {
	journal *Journal
	db      *sql.DB
}

// Add inserts a row. The unique identities are the last defence against a second side
// effect, as in tables.sql.
func (l *sqlLedger) Add(ctx context.Context, b Book, e Entry) (in Entry, added bool, err error) {
	e = e.stamp(ctx)
	text, err := json.Marshal(e)
	if err != nil {
		return Entry{}, false, err
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
