package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// Case 2: a claim that waits for another transaction reads again after its commit: it has
// seen neither the other's uncommitted claim nor the newest steps, of which an attempt must
// miss none.
func TestClaimThatWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ other, key, want string }{
		{
			`INSERT INTO oncekey_records SELECT (jsonb_populate_record(r, '{"record_key": "copy"}')).* FROM oncekey_records AS r`,
			"copy", `attempt 2 with "first\n"`,
		},
		{`UPDATE oncekey_records SET revision = 9, steps = 'first\012second\012'`, "key", `attempt 2 with "first\nsecond\n"`},
		{`UPDATE oncekey_records SET revision = 9, retain_until = ` + now, "key", "expired"},
	} {
		store, pool := open(t)
		lease := win(t, store, remembered(claim("key")))
		lease.Steps = "first\n"
		must(t, store.Extend(t.Context(), lease, 0))
		other := holding(t, pool, test.other)
		ended := make(chan outcome)
		go func() { ended <- acquire(t.Context(), store, takeOver(test.key)) }()
		awaitLock(t, pool)
		must(t, other.Commit(t.Context()))
		o := <-ended
		must(t, o.err)
		got := fmt.Sprintf("attempt %d with %q", o.lease.Attempt, o.lease.Steps)
		if o.found != nil {
			got = o.found.State.String()
		}
		testkit.Equal(t, got, test.want, "the outcome")
	}
}

// A claim that was cut off arrives after its own release, just before the release
// reads why it has changed no row.
func TestClaimThatArrivesAfterItsRelease(t *testing.T) {
	t.Parallel()
	tracer, own := &queryTracer{}, claim("key")
	store, pool := open(t, tracer.traces)
	elsewhere := pgstore.New(connect(t, pool.Config().ConnString()))
	tracer.statements.Store(0)
	tracer.after = func(pgx.TraceQueryEndData) {
		if tracer.statements.Load() == 1 {
			win(t, elsewhere, own)
		}
	}
	must(t, store.Release(t.Context(), storage.Lease{Claim: own, Attempt: 1}))
	tracer.took(t, 2, "the release, with a look,")
	win(t, elsewhere, own) // it stands
}

// Case 19: a server that was killed comes back with all it has acknowledged.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	testkit.SurvivesKill(t, pgstore.New(migrated(t, server.DSN())), server)
}

// Case 12: a server that accepts calls and never responds. A commit without acknowledgement
// is no success, and keeps no connection. Case 11: the server carries out its pending
// statements when it continues.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	pool := migrated(t, server.DSN())
	testkit.SurvivesPause(t, pgstore.New(pool), func() bool { return pool.Stat().AcquiredConns() == 0 }, server)
}

// Case 19: a statement that the server has rolled back in favour of another is
// repeated, a bounded number of times.
func TestRolledBackStatementsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		tracer := &queryTracer{}
		store, pool := open(t, tracer.traces)
		execute(t, pool, raising(code))
		execute(t, pool, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`)
		tracer.statements.Store(0)
		fails(t, "Acquire", acquire(t.Context(), store, claim("key")).err, nil, code)
		tracer.took(t, 9, "five tries, each but the first with a look,")
	}
}

// raising makes a function for triggers that raises an error.
func raising(code string) string {
	return `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '` + code + `'; END $$`
}

// Case 39: a panic of the pool's tracer is an error of the call, on a goroutine of the store
// too.
func TestPanicOfATracerIsAnError(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	store, pool := open(t, tracer.traces)
	tracer.before = func(pgx.TraceQueryStartData) { panic("hook bug") }
	for call, err := range map[string]error{
		"Acquire": acquire(t.Context(), store, claim("key")).err,
		"Release": store.Release(t.Context(), storage.Lease{Claim: claim("key"), Attempt: 1}),
		"Check":   store.Check(t.Context()),
	} {
		fails(t, call, err, nil, "the PostgreSQL client panicked at ")
	}
	tracer.before = nil
	win(t, store, claim("key"))
	eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	store := pgstore.New(connect(t, postgrestest.Shared(t)))
	failures := tryAll(t, store, storage.Lease{Claim: claim("key"), Attempt: 1}, 10*time.Second)
	delete(failures, "BeginTransaction")
	_, failures["Sweep"] = store.Sweep(t.Context(), 1)
	for operation, err := range failures {
		fails(t, operation, err, nil, "run pgstore.Migrate first")
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	testkit.Panics(t, map[string]func(){
		"New without a pool":         func() { pgstore.New(nil) },
		"a table without a name":     func() { pgstore.Table("") },
		"a table of too long a name": func() { pgstore.Table(strings.Repeat("s", 64) + ".records") },
		"sweeping without a pause":   func() { store.RunSweeper(t.Context(), 10) },
		"migrating without a pool":   func() { _ = pgstore.Migrate(t.Context(), nil) },
	})
	testkit.PanicsWith(t, func() { pgstore.Migrations(nil) }, "pgstore: option 1 is nil: leave it out")
}
