package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// backend holds all storage, and the way to the payment provider.
type backend struct {
	records storage.Store
	db      *sql.DB // the merchant's own data
	charge  charger
	// close must be called after the last response is stored.
	close func() error
}

const tables = `
CREATE TABLE IF NOT EXISTS items (
	id TEXT PRIMARY KEY, title TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0));
INSERT INTO items VALUES ('mug', 'Mug', 1500, 1000), ('poster', 'Poster, signed', 9000, 3) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS sessions (
	id TEXT PRIMARY KEY, owner TEXT NOT NULL, lines TEXT NOT NULL, status TEXT NOT NULL, operation TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
	id TEXT PRIMARY KEY, session TEXT NOT NULL UNIQUE, charge TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL);
`

// open opens the own data and the records: with -store sqlite both in one file, which
// outlives the process, and otherwise both in memory.
func open(ctx context.Context, s settings) (*backend, error) {
	name, connections := ":memory:", 1 // each connection to :memory: is a database of its own
	if s.store == "sqlite" {
		file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.file}).EscapedPath()}
		file.RawQuery = url.Values{
			"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}, "_txlock": {"immediate"},
		}.Encode()
		name, connections = file.String(), 8
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("-file %q: %w", s.file, err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	b := &backend{records: memstore.New(), db: db, charge: (&provider{db}).charge, close: db.Close}
	_, err = db.ExecContext(ctx, tables+providerTables)
	if err == nil && s.store == "sqlite" {
		err = b.keepRecords(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-file %q: %w", s.file, err), db.Close())
	}
	return b, nil
}

// keepRecords puts the records into the database, and sweeps expired ones until close.
func (b *backend) keepRecords(ctx context.Context) error {
	if err := sqlstore.Migrate(ctx, b.db, sqlstore.SQLite()); err != nil {
		return err
	}
	records := sqlstore.New(b.db, sqlstore.SQLite())
	ctx, endSweep := context.WithCancel(context.WithoutCancel(ctx)) // the sweeper runs until close
	var sweeping sync.WaitGroup
	sweeping.Go(func() { records.RunSweeper(ctx, 10*time.Minute) })
	b.records, b.close = records, func() error {
		endSweep()
		sweeping.Wait()
		return b.db.Close()
	}
	return nil
}

// rows is a database or a transaction.
type rows interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// load returns a session of the owner.
func load(ctx context.Context, from rows, owner, id string) (session, error) {
	found := session{ID: id}
	var lines []byte
	err := from.QueryRowContext(ctx, `SELECT lines, status, operation, coalesce(orders.id, '')
		FROM sessions LEFT JOIN orders ON orders.session = sessions.id WHERE sessions.id = ? AND owner = ?`, id, owner).
		Scan(&lines, &found.Status, &found.operation, &found.Order)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return found, errNotFound
	case err != nil:
		return found, err
	}
	return found, json.Unmarshal(lines, &found.Lines)
}

// change lets decide change a session, in one transaction with its own writes. Without an
// error both are stored.
func (s *shop) change(ctx context.Context, owner, id string, decide func(*sql.Tx, *session) error) (session, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return session{}, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it has no effect, and otherwise err says more
	found, err := load(ctx, tx, owner, id)
	if err == nil {
		err = decide(tx, &found)
	}
	if err != nil {
		return found, err
	}
	lines, err := json.Marshal(found.Lines)
	if err != nil {
		return found, err
	}
	if _, err = tx.ExecContext(ctx, `UPDATE sessions SET lines = ?, status = ?, operation = ? WHERE id = ?`,
		lines, found.Status, found.operation, id); err != nil {
		return found, err
	}
	return found, tx.Commit()
}
