package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// firstWindow is the number of keys that the first statement of a list looks at. Each
// further statement looks at up to twice as many, as long as there is time. Keys are in
// random order in the table, so a large window costs less for each key: the server reads
// its pages in their order.
//
// There is no index by state. With such an index no settlement would be a HOT update, and
// each first-time request would write more WAL. Without it, 12 abandoned keys among a
// million are found by 1.2 s of one processor of the server, and the first 20,000 looked
// at by 0.04 s (PostgreSQL 15, shared_buffers = 128 MB). TestSoakFewAbandonedAmongMany
// repeats the search and prints how long each call takes.
const firstWindow = 2500

const (
	// windowStatement returns the last of the next $2 keys after $1, and their
	// number.
	windowStatement = `
SELECT coalesce(max(key), ''), count(*)
FROM (SELECT key FROM {schema}.records WHERE key > $1 ORDER BY key LIMIT $2) AS keys`

	// listStatement returns up to $3 records after key $1 and up to $2, without header,
	// body, sketch and steps. They are in one of the states $4, or any if $4 is null.
	// They are abandoned if $5, have the route $6 unless that is null, and are $7 old
	// unless that is null. A tombstone has neither route nor time.
	listStatement = `
SELECT ` + withoutResponse + `, r.key FROM {schema}.records AS r
WHERE r.key > $1 AND r.key <= $2 AND NOT ` + isForgotten + ` AND NOT ` + isExpired + `
	AND ($4::text[] IS NULL OR CASE WHEN ` + isOver + ` THEN 'gone' ELSE r.state END = ANY ($4::text[]))
	AND (NOT $5::boolean OR r.state = 'in_progress' AND r.lease_until <= clock_timestamp() AND NOT ` + isOver + `)
	AND ($6::text IS NULL OR split_part(` + ownOrigin + `, E'\n', 1) = $6::text AND NOT ` + isOver + `)
	AND ($7::interval IS NULL OR r.claimed_at <= clock_timestamp() - $7::interval OR ` + isOver + `)
ORDER BY r.key LIMIT $3`

	countStatement = `SELECT count(*) FROM {schema}.records WHERE key > $1 AND key <= $2`
)

// List implements [storage.Inspector]. Pages are in the order of their keys, and the
// cursor is a key. List skips an unreadable record, and logs a warning with the
// record's key. Expired rows that no Sweep has removed yet, and keys that were released
// without steps, count as looked at.
func (s *Store) List(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	budget, err := records.NewBudget(&filter, &page)
	if err != nil {
		return storage.Listing{}, fmt.Errorf("pgstore: list: %w", err)
	}
	l := listing{store: s, filter: filter, limit: page.Limit, budget: budget, window: firstWindow}
	for after, more := page.Cursor, true; more; {
		if after, more, err = l.look(ctx, after); err != nil {
			return storage.Listing{}, fmt.Errorf("pgstore: list: %w", s.explained(err))
		}
		l.next = after
	}
	return storage.Listing{Entries: l.entries, Next: l.next, LookedAt: l.budget.Looked}, nil
}

// listing is one call of List.
type listing struct {
	store   *Store
	filter  storage.Filter
	limit   int
	budget  records.Budget
	window  int
	matched int // with the unreadable records
	entries []storage.Entry
	next    string
}

// look adds the matching records of the next window. It returns the key after which
// the next window begins, or an empty key after the last one, and whether this call
// shall look at that window.
func (l *listing) look(ctx context.Context, after string) (next string, more bool, err error) {
	db := l.store.unprepared(l.store.pool)
	start, wanted := time.Now(), max(1, min(l.window, l.budget.Left()))
	var last string
	var looked int
	if err := db.QueryRow(ctx, l.store.statements.window, after, wanted).Scan(&last, &looked); err != nil || looked == 0 {
		return "", false, err
	}
	found, err := l.read(ctx, db, after, last)
	if err != nil {
		return "", false, err
	}
	l.add(ctx, found)
	if l.matched == l.limit {
		last = found[len(found)-1].key
		err = db.QueryRow(ctx, l.store.statements.count, after, last).Scan(&looked)
		l.budget.Looked += looked
		return last, false, err
	}
	l.budget.Looked += looked
	if looked < wanted {
		return "", false, nil
	}
	l.window = l.budget.Grow(wanted, time.Since(start))
	return last, l.budget.Left() > 0, nil
}

// read returns the matching records after one key and up to another.
func (l *listing) read(ctx context.Context, db querier, after, last string) ([]listedRecord, error) {
	var states []string
	for _, state := range l.filter.States {
		states = append(states, stateOf(state))
	}
	route := pgtype.Text{String: records.Escape(l.filter.Route), Valid: l.filter.Route != ""}
	age := pgtype.Interval{Microseconds: l.filter.OlderThan.Microseconds(), Valid: l.filter.OlderThan > 0}
	rows, err := db.Query(ctx, l.store.statements.list, after, last, l.limit-l.matched, states, l.filter.Abandoned, route, age)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanEntry)
}

// add decodes records. A record may have changed its state since the statement has
// compared it.
func (l *listing) add(ctx context.Context, found []listedRecord) {
	l.matched += len(found)
	for _, r := range found {
		record, err := r.decode()
		if err != nil {
			l.store.log().WarnContext(ctx, "pgstore: a list has skipped a record that cannot be read",
				slog.String("key", r.key), slog.Any("error", err))
			continue
		}
		if l.filter.Matches(record, r.now) {
			l.entries = append(l.entries, storage.Entry{Key: r.key, Record: record})
		}
	}
}

// stateOf is the state's name in the tables.
func stateOf(state storage.State) string {
	if state == storage.Expired {
		return gone
	}
	return state.String()
}

// listedRecord is a row of a list.
type listedRecord struct {
	key string
	storedRecord
}

func scanEntry(row pgx.CollectableRow) (r listedRecord, err error) {
	err = row.Scan(&r)
	return r, err
}

// ScanRow implements pgx.RowScanner.
func (r *listedRecord) ScanRow(rows pgx.Rows) error {
	row := newRawRow(rows)
	r.read(row)
	r.key = row.text()
	return row.end()
}
