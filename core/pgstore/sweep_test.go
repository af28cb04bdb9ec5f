package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// No statement of a sweep, and none of a list or of a batch, reads the whole table.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	store := pgstore.New(pool)
	fill(t, pool, "old", 2_000)
	expire(t, pool, "old1%")
	finishRemembered(t, store, "over")
	endRetain(t, pool, "over")
	fill(t, pool, "new", 20_000)
	execute(t, pool, `ANALYZE oncekey_records`)
	var plans []string
	tracer.before = func(data pgx.TraceQueryStartData) {
		if !strings.Contains(data.SQL, "oncekey_records") || strings.HasPrefix(data.SQL, "EXPLAIN") {
			return
		}
		rows, err := pool.Query(t.Context(), "EXPLAIN "+data.SQL, data.Args...)
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		plans = append(plans, data.SQL+"\n"+strings.Join(lines, "\n"))
	}
	_, err := store.Sweep(t.Context(), 500)
	must(t, err)
	_, err = store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10})
	must(t, err)
	if len(plans) < 6 {
		t.Errorf("there are %d statements, want two batches of a sweep and a list", len(plans))
	}
	for _, plan := range plans {
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("the plan is\n%s", plan)
		}
	}
}

// fill writes finished records past the store.
func fill(t *testing.T, pool *pgxpool.Pool, prefix string, number int) {
	t.Helper()
	execute(t, pool, `
INSERT INTO oncekey_records (record_key, version, state, attempt, took_over, token, revision, fingerprint, expires_at, sweep_after, status, claimed_at)
SELECT $1 || n, 1, 'completed', 1, 0, decode(md5(n::text), 'hex'), 1, 'f', `+now+` + 86400000000, `+now+` + 90000000000, 201, `+now+`
FROM generate_series(0, $2::int - 1) AS n`, prefix, number)
}
