package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// manyDead is the share of dead rows, in percent, above which autovacuum lags behind,
	// and fewDead a number that is not worth a finding.
	manyDead, fewDead = 50, 1000
	// sweepLate is how long an expired row may wait: Sweep removes it after the next full
	// hour, and sweepers pause.
	sweepLate = 2 * time.Hour
	// bytesPerKey is about the size of a row in the index of keys, in pages that are half
	// full. An index of less than smallIndex is not worth a finding.
	bytesPerKey, smallIndex = 220, 8 << 20
)

// query reads one value. Where that fails it returns the finding to report.
func query[T any](ctx context.Context, e *examiner, check, statement string) (value T, failed *storage.Finding) {
	rows, err := e.db.Query(ctx, inSchema(e.store.schema, statement))
	if err == nil {
		value, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		finding := examination.Skipped(check, "the table is missing", "run pgstore.Migrate")
		failed = &finding
	case err != nil:
		finding := examination.Skipped(check, "could not see it: "+e.store.explained(err).Error(), "let this role read it")
		failed = &finding
	}
	return value, failed
}

// table proves the columns and keys, and looks for what may refuse a response.
func (e *examiner) table(ctx context.Context, check string) storage.Finding {
	if err := e.store.proveTable(ctx, e.db); err != nil {
		return examination.Mend(check, err.Error(), "run pgstore.Migrate, or change the table to what the error expects")
	}
	var refusing []string
	if failed := e.ofRecords(ctx, check, refusingStatement, &refusing); failed != nil {
		return *failed
	}
	if len(refusing) > 0 {
		return examination.Look(check, "constraints and triggers: "+strings.Join(refusing, ", "),
			"remove those that may refuse a response: it is not kept then, and its retries get not_replayable")
	}
	return examination.Good(check, "each column and the key are as expected")
}

const refusingStatement = `
SELECT array(SELECT conname::text FROM pg_constraint WHERE conrelid = c.oid AND contype IN ('c', 'f')
	UNION ALL SELECT tgname::text FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal)` + ofRecords

const autovacuumStatement = `
SELECT format('%s dead rows of %s, last autovacuum %s', coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0) + coalesce(s.n_dead_tup, 0),
		coalesce(date_trunc('second', s.last_autovacuum)::text, 'never')),
	coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0), coalesce('autovacuum_enabled=false' = ANY (c.reloptions), false)` + ofRecords

// ofRecords is the row of the table records, whose schema is $1.
const ofRecords = `
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE n.nspname = $1::text AND c.relname = 'records'`

func (e *examiner) autovacuum(ctx context.Context, check string) storage.Finding {
	var seen string
	var dead, live int64
	var disabled bool
	if failed := e.ofRecords(ctx, check, autovacuumStatement, &seen, &dead, &live, &disabled); failed != nil {
		return *failed
	}
	const all = 100
	switch {
	case disabled || e.settings["autovacuum"] != "on":
		return examination.Mend(check, "autovacuum is off; "+seen, "set autovacuum on, for the server and for the table records")
	case dead > fewDead && dead*all > (dead+live)*manyDead:
		return examination.Look(check, seen, "lower autovacuum_vacuum_scale_factor and autovacuum_vacuum_cost_delay of the table, and end old transactions")
	default:
		return examination.Good(check, seen)
	}
}

// ofRecords reads a row about the table records.
func (e *examiner) ofRecords(ctx context.Context, check, statement string, into ...any) *storage.Finding {
	err := e.db.QueryRow(ctx, statement, e.store.schema).Scan(into...)
	if err == nil {
		return nil
	}
	finding := examination.Skipped(check, "could not see it: "+err.Error(), "let this role read pg_class and pg_stat_all_tables")
	if errors.Is(err, pgx.ErrNoRows) {
		finding = examination.Skipped(check, "the table records is missing", "run pgstore.Migrate")
	}
	return &finding
}

func (e *examiner) sweeping(ctx context.Context, check string) storage.Finding {
	seconds, failed := query[float64](ctx, e, check,
		`SELECT greatest(0, coalesce(extract(epoch FROM now() AT TIME ZONE 'UTC' - min(sweep_after)), 0))::float8 FROM {schema}.records`)
	if failed != nil {
		return *failed
	}
	age := (time.Duration(seconds) * time.Second).Round(time.Second)
	if age > sweepLate {
		return examination.Look(check, fmt.Sprintf("the oldest expired row could have been swept %s ago", age),
			"run RunSweeper in each instance, or Sweep from a scheduler: the table grows")
	}
	return examination.Good(check, fmt.Sprintf("no expired row has waited for longer than %s", max(age, time.Second)))
}

func (e *examiner) fillfactor(ctx context.Context, check string) storage.Finding {
	var options []string
	if failed := e.ofRecords(ctx, check, `SELECT coalesce(c.reloptions, '{}')`+ofRecords, &options); failed != nil {
		return *failed
	}
	const name, most = "fillfactor=", 70
	factor := 100
	for _, option := range options {
		if value, is := strings.CutPrefix(option, name); is {
			_, _ = fmt.Sscan(value, &factor) // the server has checked that it is a number
		}
	}
	if seen := fmt.Sprintf("fillfactor %d", factor); factor > most {
		return examination.Look(check, seen, "set fillfactor to 50 on the table records: without space on the page each response writes to the indexes too")
	}
	return examination.Good(check, fmt.Sprintf("fillfactor %d", factor))
}

// indexStatement returns no size for a table without its index.
const indexStatement = `
SELECT coalesce((SELECT pg_relation_size(x.indexrelid) FROM pg_index AS x WHERE x.indrelid = c.oid AND x.indisprimary), 0),
	greatest(c.reltuples, s.n_live_tup, 0)::bigint` + ofRecords

func (e *examiner) indexes(ctx context.Context, check string) storage.Finding {
	var size, rows int64
	if failed := e.ofRecords(ctx, check, indexStatement, &size, &rows); failed != nil {
		return *failed
	}
	seen := fmt.Sprintf("the index of keys has %d bytes for about %d rows", size, rows)
	if size > smallIndex && size > rows*bytesPerKey {
		return examination.Look(check, seen, inSchema(e.store.schema, "run REINDEX INDEX CONCURRENTLY {schema}.records_pkey, and sweep often"))
	}
	return examination.Good(check, seen)
}
