package linearizable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// program is a program's way to its records.
type program interface {
	storage.Transactor
	storage.Inspector
	storage.Checker
	Sweep(ctx context.Context, batch int) (int64, error)
}

// overBoth returns a store of each package on one table, which one of them migrates.
func overBoth(t *testing.T, byPgx bool) map[string]program {
	t.Helper()
	dsn := postgrestest.Shared(t)
	pool, db := service.Pool(t, dsn), service.SQL(t, "pgx", dsn)
	migrations := []error{pgstore.Migrate(t.Context(), pool), sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL())}
	if !byPgx {
		_, err := pool.Exec(t.Context(), `DROP TABLE oncekey_records, oncekey_records_migrations`)
		migrations = append(migrations, err, sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL()), pgstore.Migrate(t.Context(), pool))
	}
	testkit.Must(t, errors.Join(migrations...))
	return map[string]program{"pgstore": pgstore.New(pool), "sqlstore": sqlstore.New(db, sqlstore.PostgreSQL())}
}

// transferred is a claim of a key, with all that a row can hold.
func transferred(key string) storage.Claim {
	return storage.Claim{
		Key: key, Token: storage.NewToken(), Fingerprint: "sha256:" + fmt.Sprintf("%064x", len(key)), Digest: storage.Digest{1, 2, 3}, LockTTL: time.Minute,
		Retain: time.Hour, Remember: time.Hour, Origin: storage.Origin{Route: "POST /payments", Holder: "pod 7", KeyHash: "0123", Trace: "4bf9"},
	}
}

func won(t *testing.T, on program, c storage.Claim) storage.Lease {
	t.Helper()
	lease, found, err := on.Acquire(t.Context(), c)
	if err != nil || found != nil {
		t.Fatalf("Acquire of %q returned %+v and %v, want the lease", c.Key, found, err)
	}
	return lease
}

func seen(t *testing.T, on program, c storage.Claim) *storage.Record {
	t.Helper()
	lease, found, err := on.Acquire(t.Context(), c)
	if err != nil || found == nil {
		t.Fatalf("Acquire of %q returned %+v and %v, want a record", c.Key, lease, err)
	}
	return found
}

// Case 99: a service moves from one package for PostgreSQL to the other, either way, and
// loses no key, step, lease, remembered key or handler's transaction.
func TestServiceMovesBetweenTheStores(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"pgstore": "sqlstore", "sqlstore": "pgstore"} {
		t.Run(from+" to "+to, func(t *testing.T) {
			t.Parallel()
			stores := overBoth(t, from == "pgstore")
			moves(t, stores[from], stores[to])
		})
	}
}

func moves(t *testing.T, before, after program) {
	t.Helper()
	testkit.Must(t, errors.Join(before.Check(t.Context()), after.Check(t.Context())))
	result := func(body string) storage.Result {
		return storage.Result{
			State: storage.Completed, Status: 201, Body: []byte(body), Header: storage.Header{{Name: "A", Value: "'\xff"}}, Sketch: []byte("\x00\xff"),
			Retain: time.Hour, Remember: time.Hour,
		}
	}
	// A finished key, and all that is known of it.
	testkit.Must(t, before.Complete(t.Context(), won(t, before, transferred("finished")), result("\x00\xff")))
	is, was := seen(t, after, transferred("finished")), seen(t, before, transferred("finished"))
	if fmt.Sprintf("%+v", *is) != fmt.Sprintf("%+v", *was) || string(is.Body) != "\x00\xff" || is.Origin != transferred("").Origin {
		t.Errorf("the record is %+v, and was %+v", is, was)
	}
	// A lease goes on in the other store, with its steps.
	running := won(t, before, transferred("running"))
	running.Steps = "first\n"
	testkit.Must(t, before.Extend(t.Context(), running, time.Minute))
	if r := seen(t, after, transferred("running")); r.Steps != "first\n" || r.Attempt != 1 || r.Abandoned() {
		t.Errorf("the record is %+v, want it in progress with its step", r)
	}
	running.Steps = "first\nsecond\n"
	testkit.Must(t, errors.Join(after.Extend(t.Context(), running, time.Minute), after.Complete(t.Context(), running, result("answer"))))
	testkit.Must(t, before.Complete(t.Context(), running, result("answer"))) // its reply was lost
	// A key is taken over with its steps, and its first holder has lost it.
	lost := won(t, before, transferred("abandoned"))
	lost.Steps = "first\n"
	testkit.Must(t, before.Extend(t.Context(), lost, 0))
	second := transferred("abandoned")
	second.TakeOver = true
	if l := won(t, after, second); l.Attempt != 2 || l.Steps != "first\n" || !l.TookOver {
		t.Errorf("the lease is %+v, want the second attempt with the step", l)
	}
	testkit.Fails(t, "Complete of the first attempt", before.Complete(t.Context(), lost, result("late")), storage.ErrLeaseLost)
	// A released key keeps its steps for its own request.
	released := won(t, before, transferred("released"))
	released.Steps = "first\n"
	testkit.Must(t, before.Release(t.Context(), released))
	if l := won(t, after, transferred("released")); l.Attempt != 2 || l.Steps != "first\n" || l.TookOver {
		t.Errorf("the lease is %+v, want the second attempt with the step", l)
	}
	// A remembered key whose response is over.
	short := transferred("remembered")
	short.Retain = time.Microsecond
	won(t, before, short)
	for range 2 { // before and after a sweep
		if r := seen(t, after, transferred("remembered")); r.State != storage.Expired || r.Attempt != 1 {
			t.Errorf("the record is %+v, want a remembered key", r)
		}
		_, err := after.Sweep(t.Context(), 10)
		testkit.Must(t, err)
	}
	// A transaction of a handler commits the result of a claim of the other store.
	paid := won(t, before, transferred("paid"))
	handler, transaction, err := after.BeginTransaction(t.Context(), paid)
	testkit.Must(t, err)
	testkit.Must(t, transaction.Commit(handler, paid, result("paid")))
	if r := seen(t, before, transferred("paid")); string(r.Body) != "paid" {
		t.Errorf("the record is %+v, want the result of the transaction", r)
	}
	// Operators see all keys.
	for _, on := range []program{before, after} {
		listing, err := on.List(t.Context(), storage.Filter{}, storage.Page{Limit: 100})
		if err != nil || len(listing.Entries) != 6 {
			t.Errorf("List returned %d records and %v, want 6", len(listing.Entries), err)
		}
	}
	if there, err := after.Forget(t.Context(), "finished", storage.RerunIsSafe); err != nil || !there {
		t.Errorf("Forget returned %t and %v, want true", there, err)
	}
	won(t, before, transferred("finished"))
}
