package pgstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// remembered lets a claim leave a tombstone for a day.
func remembered(c storage.Claim) storage.Claim {
	c.Remember = 24 * time.Hour
	return c
}

func rememberedResult(body string) storage.Result {
	res := result(body)
	res.Remember = 24 * time.Hour
	return res
}

func finishRemembered(t *testing.T, store storage.Store, key string) storage.Lease {
	t.Helper()
	lease := win(t, store, originated(remembered(digested(claim(key), key))))
	must(t, store.Complete(t.Context(), lease, rememberedResult(key)))
	return lease
}

func originated(c storage.Claim) storage.Claim {
	c.Origin = storage.Origin{Route: "POST /payments/{id}", Holder: "pod 7", KeyHash: "0123456789abcdef", Trace: "4bf92f-00f067"}
	return c
}

// recorded claims a key and records steps.
func recorded(t *testing.T, store storage.Store, c storage.Claim, steps string) storage.Lease {
	t.Helper()
	lease := win(t, store, c)
	lease.Steps = steps
	must(t, store.Extend(t.Context(), lease, time.Minute))
	return lease
}

// endRetain puts the end of Retain into the past, and keeps the end of Remember.
func endRetain(t *testing.T, pool *pgxpool.Pool, pattern string) {
	t.Helper()
	if execute(t, pool, `UPDATE oncekey.records SET retain_until = clock_timestamp() - interval '2 hours',
		retain_hour = date_trunc('hour', clock_timestamp() - interval '2 hours') WHERE key LIKE $1`, pattern) == 0 {
		t.Fatalf("there is no record %q", pattern)
	}
}

// bury makes a remembered record a tombstone.
func bury(t *testing.T, store *pgstore.Store, pool *pgxpool.Pool, key string) {
	t.Helper()
	endRetain(t, pool, key)
	if _, err := store.Sweep(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if state := queryOne[string](t, pool, `SELECT state FROM oncekey.records WHERE key = $1`, key); state != "gone" {
		t.Fatalf("after the sweep the row is %s, want gone", state)
	}
}

// Only a row with steps or with a tombstone to come is one that programs of the
// version before refuse.
func TestVersionsOfRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	expect := func(what string, want int) {
		t.Helper()
		if version := queryOne[int](t, pool, `SELECT version FROM oncekey.records WHERE key = 'key'`); version != want {
			t.Errorf("%s: the row has version %d, want %d", what, version, want)
		}
	}
	plain := win(t, store, originated(digested(takeOver("key"), "request")))
	expect("a claim", 1)
	must(t, store.Extend(t.Context(), plain, time.Minute))
	expect("a renewal", 1)
	withSteps := plain
	withSteps.Steps = "steps"
	must(t, store.Extend(t.Context(), withSteps, time.Minute))
	expect("steps", 2)
	must(t, store.Extend(t.Context(), plain, 0))
	expect("a late renewal", 2)
	second := win(t, store, digested(takeOver("key"), "request"))
	expect("a take-over of steps", 2)
	must(t, store.Release(t.Context(), second))
	expect("a release with steps", 2)
	second.Steps = ""
	must(t, store.Release(t.Context(), second))
	expect("a release", 1)
	third := win(t, store, claim("key"))
	expect("a claim after steps", 1)
	third.Remember = time.Hour
	must(t, store.Extend(t.Context(), third, 0))
	expect("a renewal that is to be remembered", 2)
	fourth := win(t, store, takeOver("key"))
	expect("a take-over that is not to be remembered", 1)
	fourth.Steps = "steps"
	must(t, store.Extend(t.Context(), fourth, time.Minute))
	must(t, store.Complete(t.Context(), fourth, result("response")))
	expect("a response", 1)
	expire(t, pool, "key")
	win(t, store, remembered(claim("key")))
	expect("a claim that is to be remembered", 2)
	expire(t, pool, "key")
	must(t, store.Complete(t.Context(), win(t, store, claim("key")), rememberedResult("response")))
	expect("a response that is to be remembered", 2)
}

// Each write replaces the ends of Retain and of Remember, and what the sweeper finds
// them by.
func TestEndsOfRememberedRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	expect := func(what string, retain, remember time.Duration) {
		t.Helper()
		var kept time.Duration
		var retained *time.Duration
		var byHour bool
		must(t, pool.QueryRow(t.Context(), `SELECT expires_at - clock_timestamp(), retain_until - clock_timestamp(),
			retain_hour IS NOT DISTINCT FROM date_trunc('hour', retain_until) FROM oncekey.records`).Scan(&kept, &retained, &byHour))
		near := func(got, want time.Duration) bool { return got > want-time.Minute && got <= want }
		if !near(kept, retain+remember) || !byHour {
			t.Errorf("%s: the row ends in %s, and retain_hour is right: %t; want %s", what, kept, byHour, retain+remember)
		}
		if (retained != nil) != (remember > 0) || retained != nil && !near(*retained, retain) {
			t.Errorf("%s: retain_until is in %v, want %s before %s", what, retained, retain, remember)
		}
	}
	with := func(c storage.Claim, retain, remember time.Duration) storage.Claim {
		c.Retain, c.Remember = retain, remember
		return c
	}
	first := win(t, store, with(claim("key"), 2*time.Hour, 10*time.Hour))
	expect("a claim", 2*time.Hour, 10*time.Hour)
	first.Retain, first.Remember = 5*time.Hour, 30*time.Hour
	must(t, store.Extend(t.Context(), first, 0))
	expect("a renewal", 5*time.Hour, 30*time.Hour)
	second := win(t, store, with(takeOver("key"), 8*time.Hour, 20*time.Hour))
	expect("a take-over", 8*time.Hour, 20*time.Hour)
	must(t, store.Extend(t.Context(), second, 0))
	third := win(t, store, with(takeOver("key"), 4*time.Hour, 0))
	expect("a take-over that is not remembered", 4*time.Hour, 0)
	third.Remember = time.Hour
	must(t, store.Extend(t.Context(), third, time.Minute))
	expect("a renewal that is remembered", 4*time.Hour, time.Hour)
	third.Remember = 0
	must(t, store.Extend(t.Context(), third, time.Minute))
	expect("a renewal that is not", 4*time.Hour, 0)
	res := result("response")
	res.Retain, res.Remember = 3*time.Hour, 9*time.Hour
	must(t, store.Complete(t.Context(), third, res))
	expect("a response", 3*time.Hour, 9*time.Hour)
	for _, remember := range []time.Duration{7 * time.Hour, 0} { // a claim that was lost, over an expired row
		expire(t, pool, "key")
		res.Retain, res.Remember = 6*time.Hour, remember
		must(t, store.Complete(t.Context(), storage.Lease{Claim: claim("key"), Attempt: 1}, res))
		expect("a restored response", 6*time.Hour, remember)
	}
	expire(t, pool, "key")
	lease := win(t, store, with(claim("key"), 2*time.Hour, 10*time.Hour))
	res.Retain, res.Remember = 6*time.Hour, 0
	must(t, store.Complete(t.Context(), lease, res))
	expect("a response that is not remembered", 6*time.Hour, 0)
}

// The record of a tombstone is the same before and after its sweep. Its response is
// not, and what is left of the row is small.
func TestTombstone(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	hash := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	tests := map[string]struct {
		fingerprint string
		end         func(storage.Lease)
		status      int
	}{
		"finished": {hash, func(l storage.Lease) {
			l.Steps = "steps"
			must(t, store.Extend(t.Context(), l, time.Minute))
			must(t, store.Complete(t.Context(), l, rememberedResult(strings.Repeat("response", 1000))))
		}, 201},
		"abandoned": {hash, func(l storage.Lease) {
			l.Steps = strings.Repeat("steps", 1000)
			must(t, store.Extend(t.Context(), l, 0))
		}, 0},
		"of another fingerprint": {"SHA256:" + hash[7:], func(l storage.Lease) {
			must(t, store.Complete(t.Context(), l, rememberedResult("response")))
		}, 201},
		"of a hash in capitals": {"sha256:" + strings.ToUpper(hash[7:]), func(l storage.Lease) {
			must(t, store.Extend(t.Context(), l, 0))
		}, 0},
	}
	for key, test := range tests {
		c := originated(remembered(takeOver(key)))
		c.Fingerprint, c.Digest = test.fingerprint, storage.Digest{1, 15: 0xff}
		test.end(win(t, store, c))
		endRetain(t, pool, key)
		before := find(t, store, takeOver(key))
		want := storage.Record{
			State: storage.Expired, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, Status: test.status, Expires: before.Expires,
		}
		if rest := time.Until(before.Expires); !equal(before, &want) || rest < 24*time.Hour || rest > 26*time.Hour {
			t.Errorf("%s: before the sweep the record is %+v, want %+v for an hour and a day", key, before, want)
		}
		if removed, err := store.Sweep(t.Context(), 10); removed != 0 || err != nil {
			t.Errorf("%s: Sweep returned %d and %v, want 0: the tombstone stays", key, removed, err)
		}
		if after := find(t, store, takeOver(key)); !equal(after, &want) {
			t.Errorf("%s: after the sweep the record is %+v, want %+v", key, after, want)
		}
		if looked, err := store.Lookup(t.Context(), key); err != nil || !equal(looked, &want) {
			t.Errorf("%s: Lookup returned %+v and %v, want %+v", key, looked, err, want)
		}
		if listed := listAll(t, store, storage.Expired, 1)[key]; !equal(listed, &want) {
			t.Errorf("%s: the listed record is %+v, want %+v", key, listed, want)
		}
		left := queryOne[int](t, pool, `SELECT num_nonnulls(lease_until, header, sketch, steps, sketch_token, digest_token, origin, origin_token,
			retain_until, retain_hour, settled_at) FROM oncekey.records WHERE key = $1`, key)
		if left != 0 {
			t.Errorf("%s: %d columns of the record are left, want none", key, left)
		}
		// Without the byte that PostgreSQL adds for the length of a text.
		own := queryOne[int](t, pool, `SELECT octet_length(state) + octet_length(fingerprint) + coalesce(octet_length(body), 0)
			+ pg_column_size(digest) + pg_column_size(attempt) + coalesce(pg_column_size(status), 0) FROM oncekey.records WHERE key = $1`, key)
		row := queryOne[int](t, pool, `SELECT pg_column_size(r.*) FROM oncekey.records AS r WHERE key = $1`, key)
		t.Logf("%s: %d bytes of its own, %d in the row", key, own, row)
		if own > 64 && c.Fingerprint == hash {
			t.Errorf("%s: the tombstone has %d bytes of its own, want at most 64", key, own)
		}
	}
}

// equal ignores that nil and empty slices differ: both have nothing in them.
func equal(got, want *storage.Record) bool {
	return got != nil && fmt.Sprintf("%+v", *got) == fmt.Sprintf("%+v", *want)
}

// A tombstone comes to the sweeper twice: at the end of Retain, and of Remember.
func TestSweepOfRememberedRecords(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	for n := range 25 {
		finishRemembered(t, store, keyOf("over", n))
	}
	for n := range 5 {
		finishRemembered(t, store, keyOf("young", n))
		win(t, store, remembered(claim(keyOf("running", n))))
		finishRemembered(t, store, keyOf("forgotten", n))
	}
	endRetain(t, pool, "over%")
	endRetain(t, pool, "forgotten%")
	expire(t, pool, "forgotten%")
	sweep := func(want int64) {
		t.Helper()
		if removed, err := store.Sweep(t.Context(), 10); removed != want || err != nil {
			t.Errorf("Sweep returned %d and %v, want %d", removed, err, want)
		}
	}
	count := func(what string, want int) {
		t.Helper()
		if rows := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records WHERE `+what); rows != want {
			t.Errorf("%d rows are %s, want %d", rows, what, want)
		}
	}
	sweep(5)
	count("state = 'gone' AND key LIKE 'over%' AND header IS NULL", 25)
	count("state = 'completed' AND key LIKE 'young%' AND body IS NOT NULL", 5)
	count("true", 35)
	sweep(0)
	expire(t, pool, "over%")
	sweep(25)
	count("true", 10)
}

// The hour is a matter of the sweeper's index: no response is swept before its end,
// and none is returned after it.
func TestTombstoneBeforeItIsSwept(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finishRemembered(t, store, "key")
	execute(t, pool, `UPDATE oncekey.records SET retain_until = clock_timestamp(), retain_hour = date_trunc('hour', clock_timestamp())`)
	if _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if state := queryOne[string](t, pool, `SELECT state FROM oncekey.records`); state != "completed" {
		t.Errorf("the row is %s, want it unswept before the full hour", state)
	}
	if r := find(t, store, takeOver("key")); r.State != storage.Expired || r.Body != nil {
		t.Errorf("the record is %+v, want a tombstone", r)
	}
}

// A claim or another sweeper may be at work on a row.
func TestSweepSkipsLockedTombstones(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finishRemembered(t, store, "key")
	endRetain(t, pool, "key")
	other, err := pool.Begin(t.Context())
	must(t, err)
	_, err = other.Exec(t.Context(), `SELECT FROM oncekey.records FOR UPDATE`)
	must(t, err)
	if _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if state := queryOne[string](t, pool, `SELECT state FROM oncekey.records`); state != "completed" {
		t.Errorf("the locked row is %s, want it as it was", state)
	}
	must(t, other.Rollback(t.Context()))
	bury(t, store, pool, "key")
}

// The sweeper reads no row that is neither over nor expired.
func TestSweepFindsTombstonesByTheirIndex(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `
INSERT INTO oncekey.records (key, version, state, attempt, took_over, token, fingerprint, expires_at, status, claimed_at, retain_until, retain_hour)
SELECT 'key' || n, 2, 'completed', 1, false, gen_random_uuid(), 'sha256:f', now() + interval '10 days', 201, now(), ends, date_trunc('hour', ends)
FROM (SELECT n, now() + interval '1 day' * CASE WHEN n < 2000 THEN -1 ELSE 1 END AS ends FROM generate_series(1, 20000) AS n) AS row`)
	fill(t, pool, "plain", 20_000)
	execute(t, pool, `ANALYZE oncekey.records`)
	plan := explain(t, pool, store.SweepStatement())
	if !strings.Contains(plan, "Index Scan using records_retain_hour") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("the plan is\n%s", plan)
	}
}

// Completing a remembered key touches no index either.
func TestCompletionsOfRememberedKeysAreHOT(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	const runs = 200
	for n := range runs {
		finishRemembered(t, store, fmt.Sprintf("%064x", n))
	}
	expectHOT(t, pool, runs)
}

// meanwhile changes the row of key while a take-over waits for it, with an older
// snapshot.
func meanwhile(t *testing.T, store *pgstore.Store, pool *pgxpool.Pool, change string) (lease storage.Lease, found *storage.Record) {
	t.Helper()
	other, err := pool.Begin(t.Context())
	must(t, err)
	_, err = other.Exec(t.Context(), `UPDATE oncekey.records SET `+change)
	must(t, err)
	done := make(chan error)
	go func() {
		var err error
		lease, found, err = store.Acquire(t.Context(), takeOver("key"))
		done <- err
	}()
	eventually(t, func() bool { return isWaiting(t, pool) })
	must(t, other.Commit(t.Context()))
	must(t, <-done)
	return lease, found
}

// A late renewal may add a step while another attempt takes over. An attempt must not
// miss a step.
func TestTakeOverSeesTheNewestSteps(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	must(t, store.Extend(t.Context(), recorded(t, store, claim("key"), "first\n"), 0))
	lease, found := meanwhile(t, store, pool, `steps = 'first\012second\012'`)
	if found != nil || lease.Attempt != 2 || lease.Steps != "first\nsecond\n" {
		t.Errorf("it got %+v and %+v, want attempt 2 with both steps", lease, found)
	}
}

// An abandoned key may become a tombstone while another attempt takes over.
func TestTakeOverOfTombstone(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	must(t, store.Extend(t.Context(), win(t, store, remembered(claim("key"))), 0))
	lease, found := meanwhile(t, store, pool, `retain_until = clock_timestamp()`)
	if found == nil || found.State != storage.Expired || found.Attempt != 1 {
		t.Errorf("it got %+v and %+v, want the tombstone of attempt 1", lease, found)
	}
}

// A step of a transactional handler is recorded on another connection, while the
// handler's transaction is open: the transaction locks no row of the store before its
// commit. The pool has just these two connections.
func TestStepsDuringTransaction(t *testing.T) {
	t.Parallel()
	r := begin(t, func(config *pgxpool.Config) { config.MaxConns = 2 })
	for _, steps := range []string{"first\n", "first\nsecond\n"} {
		r.lease.Steps = steps
		must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
		if record := find(t, r.store, claim("key")); record.Steps != steps {
			t.Errorf("the record is %+v, want the steps %q", record, steps)
		}
	}
	must(t, r.Commit(t.Context(), r.lease, result("paid")))
	if steps := queryOne[*string](t, r.pool, `SELECT steps FROM oncekey.records`); steps != nil {
		t.Errorf("the row still has the steps %q", *steps)
	}
	r.ends(t, true)
}

// A rolled back transaction leaves the steps to the next attempt: their effects are
// outside of the database.
func TestStepsSurviveRollback(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	r.lease.Steps = "first\n"
	must(t, r.store.Extend(t.Context(), r.lease, time.Minute))
	must(t, r.Rollback(t.Context()))
	must(t, r.store.Extend(t.Context(), r.lease, 0))
	if lease := win(t, r.store, takeOver("key")); lease.Steps != "first\n" {
		t.Errorf("the lease is %+v, want the step", lease)
	}
	r.ends(t, false)
}

// A renewal passes all steps again. The database writes them once.
func TestRenewalsDoNotWriteTheStepsAgain(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `ALTER TABLE oncekey.records SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)`)
	random, text := rand.NewChaCha8([32]byte{}), make([]byte, 100_000)
	random.Read(text) //nolint:errcheck // never returns an error
	lease := recorded(t, store, claim("key"), fmt.Sprintf("%x", text))
	size := func() int64 {
		return queryOne[int64](t, pool, `SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'oncekey.records'::regclass`)
	}
	before := size()
	for range 10 {
		must(t, store.Extend(t.Context(), lease, time.Minute))
	}
	must(t, store.Extend(t.Context(), lease, 0))
	if lease := win(t, store, takeOver("key")); len(lease.Steps) != 2*len(text) {
		t.Errorf("the lease has %d bytes of steps, want %d", len(lease.Steps), 2*len(text))
	}
	if after := size(); before == 0 || after != before {
		t.Errorf("the steps took %d bytes, and %d after the renewals", before, after)
	}
}

// Origin and times are for operators. They stay the claim's own until the next claim.
func TestOriginAndTimes(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	now := func() time.Time { return queryOne[time.Time](t, pool, `SELECT clock_timestamp()`) }
	before := now()
	c := originated(claim("key"))
	c.Origin.Route, c.Origin.Holder = "POST /Preis/{ü}\\n\n", "\"pod\"\t7"
	lease := win(t, store, c)
	claimed := now()
	expect := func(what string, state storage.State, finished bool) {
		t.Helper()
		looked, err := store.Lookup(t.Context(), "key")
		must(t, err)
		for _, r := range []*storage.Record{find(t, store, claim("key")), looked, listAll(t, store, state, 1)["key"]} {
			if r == nil || r.Origin != c.Origin || r.Created.Before(before) || r.Created.After(claimed) {
				t.Fatalf("%s: the record is %+v, want it claimed from %s to %s by %+v", what, r, before, claimed, c.Origin)
			}
			if left := r.Expires.Sub(now()); left < time.Hour-time.Minute || left > time.Hour {
				t.Errorf("%s: the record expires in %s, want an hour", what, left)
			}
			if r.Finished.IsZero() == finished || finished && r.Finished.Before(claimed) {
				t.Errorf("%s: the record was finished at %s, want a time: %t", what, r.Finished, finished)
			}
		}
	}
	expect("claimed", storage.InProgress, false)
	lease.Age = time.Hour // the store has its own
	must(t, store.Extend(t.Context(), lease, time.Minute))
	expect("renewed", storage.InProgress, false)
	lease.Remember = 24 * time.Hour
	must(t, store.Extend(t.Context(), lease, time.Minute))
	expect("renewed, to be remembered", storage.InProgress, false)
	must(t, store.Complete(t.Context(), lease, rememberedResult("response")))
	expect("completed", storage.Completed, true)
}

// The query of docs/postgres.md.
func TestOriginInSQL(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	win(t, store, originated(claim("running")))
	win(t, store, claim("without an origin"))
	finishRemembered(t, store, "finished")
	rows, err := pool.Query(t.Context(), documented(t, "running by route", ""))
	must(t, err)
	type line struct {
		Route   string
		Count   int
		Claimed time.Time
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	must(t, err)
	if len(lines) != 1 || lines[0].Route != "POST /payments/{id}" || lines[0].Count != 1 {
		t.Errorf("the query found %+v, want one running key of POST /payments/{id}", lines)
	}
}

// A claim that the database has lost is as old as its holder says, and an expired row
// under it is not the claim's.
func TestTimeOfLostClaim(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	settle := map[string]func(l storage.Lease) error{
		"extended":  func(l storage.Lease) error { return store.Extend(t.Context(), l, time.Minute) },
		"completed": func(l storage.Lease) error { return store.Complete(t.Context(), l, result("response")) },
	}
	for name, call := range settle {
		for _, row := range []string{"no row", "an expired row"} {
			lease := storage.Lease{Claim: originated(claim(name + " with " + row)), Attempt: 1, Age: 10 * time.Minute}
			if row == "an expired row" {
				finish(t, store, lease.Key)
				expire(t, pool, lease.Key)
			}
			must(t, call(lease))
			r := find(t, store, claim(lease.Key))
			age := queryOne[time.Time](t, pool, `SELECT clock_timestamp()`).Sub(r.Created)
			if age < 10*time.Minute || age > 11*time.Minute || r.Origin != lease.Origin {
				t.Errorf("%s: the record is %+v, %s old, want ten minutes", lease.Key, r, age)
			}
		}
	}
}

// An expired row with steps belongs to no lease: a late renewal does not find the
// steps of an earlier claim.
func TestStepsOfExpiredRowAreNotKept(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	recorded(t, store, claim("key"), "of an earlier claim")
	expire(t, pool, "key")
	lease := storage.Lease{Claim: claim("key"), Attempt: 1, Steps: "own"}
	must(t, store.Extend(t.Context(), lease, 0))
	if next := win(t, store, takeOver("key")); next.Steps != "own" {
		t.Errorf("the lease is %+v, want the claim's own steps", next)
	}
	expire(t, pool, "key")
	must(t, store.Complete(t.Context(), storage.Lease{Claim: claim("key"), Attempt: 1}, rememberedResult("response")))
	if left := queryOne[bool](t, pool, `SELECT steps IS NOT NULL FROM oncekey.records`); left {
		t.Error("the response has steps beside it, want none")
	}
}

// Settlements of a claim that is a tombstone are lost, in a transaction too.
func TestCommitAfterTheEndOfRetain(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		pool := migrated(t, postgrestest.Shared(t), nil)
		store := pgstore.New(pool)
		lease := win(t, store, remembered(claim("key")))
		ctx, transaction, err := store.BeginTransaction(t.Context(), lease)
		must(t, err)
		endRetain(t, pool, "key")
		if swept {
			bury(t, store, pool, "key")
		}
		if err := transaction.Commit(ctx, lease, result("late")); !errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("swept %t: Commit returned %v, want ErrLeaseLost", swept, err)
		}
		if r := find(t, store, takeOver("key")); r.State != storage.Expired || r.Status != 0 {
			t.Errorf("swept %t: the record is %+v, want the tombstone of an abandoned key", swept, r)
		}
	}
}
