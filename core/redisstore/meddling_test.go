package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// meddler is a hook that lets others in where Acquire's two commands have a gap,
// and before its script. A claim that asks late has the gap before its script.
type meddler struct {
	tripCounter
	before, between, after, script func()
}

func (m *meddler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		switch command.Name() {
		case "evalsha":
			call(m.script)
		case "set":
			call(m.before)
			defer call(m.after)
			defer call(m.between)
		}
		return next(ctx, command)
	}
}

func (m *meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() != "set" {
			return next(ctx, commands)
		}
		call(m.before)
		first := next(ctx, commands[:1])
		call(m.between)
		second := next(ctx, commands[1:])
		call(m.after)
		if first != nil {
			return first
		}
		return second
	}
}

// eachClaim runs a test with claims that ask for the time to live late, and with those
// that ask beside each SET.
func eachClaim(t *testing.T, test func(t *testing.T, claim func(key string) storage.Claim)) {
	t.Helper()
	testkit.Each(t, map[string]func(string) storage.Claim{"asks late": claim, "asks at once": asksAtOnce}, test)
}

func asksAtOnce(key string) storage.Claim {
	c := claim(key)
	c.Remember = time.Hour
	return c
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// meddled returns two stores over one server. The meddler runs between the commands of
// store, and may use others there.
func meddled(t *testing.T) (m *meddler, others, store *redisstore.Store, rdb *redis.Client) {
	t.Helper()
	m = &meddler{}
	server := redistest.Start(t)
	rdb, hooked := connect(t, server, nil), connect(t, server, nil)
	hooked.AddHook(m)
	return m, redisstore.New(rdb), redisstore.New(hooked), rdb
}

// Case 2: the record is gone when its time to live is read.
func TestKeyThatExpiresDuringAcquireIsClaimed(t *testing.T) {
	t.Parallel()
	eachClaim(t, func(t *testing.T, claim func(string) storage.Claim) {
		m, others, store, rdb := meddled(t)
		win(t, others, claim("key"))
		m.between = func() { must(t, rdb.Del(t.Context(), "oncekey:key").Err()); m.between = nil }
		winAttempt(t, store, claim("key"), 1, false)
	})
}

// Case 2: it comes and goes each time: never a lease that was not claimed.
func TestKeyThatCannotBeCaughtIsInProgress(t *testing.T) {
	t.Parallel()
	eachClaim(t, func(t *testing.T, claim func(string) storage.Claim) {
		m, others, store, rdb := meddled(t)
		m.before = func() { win(t, others, claim("key")) }
		m.between = func() { must(t, rdb.Del(t.Context(), "oncekey:key").Err()) }
		if r := find(t, store, claim("key")); r.State != storage.InProgress || r.Abandoned() || r.Fingerprint != "sha256:f" {
			t.Errorf("the record is %+v, want it in progress", r)
		}
	})
}

// A record that was completed in the gap has another time to live. With a Remember its response is apart, where a claim
// without one does not look.
func TestCompletionInTheGapIsNotTakenForAbandonment(t *testing.T) {
	t.Parallel()
	eachClaim(t, func(t *testing.T, claim func(string) storage.Claim) {
		m, others, store, rdb := meddled(t)
		for _, remember := range []time.Duration{0, time.Hour} {
			holder := win(t, others, claim("key"))
			m.between = func() {
				short := result("answer")
				short.Retain, short.Remember = time.Minute, remember // less than the claim's would be at the end of its lease
				must(t, others.Complete(t.Context(), holder, short))
				m.between = nil
			}
			replays(t, store, claim("key"), "answer")
			must(t, rdb.FlushAll(t.Context()).Err())
		}
	})
}

func TestCompletionInTheGapDoesNotLengthenTheLease(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	holder := win(t, others, asksAtOnce("key"))
	m.between = func() {
		long := result("answer")
		long.Retain = 48 * time.Hour
		must(t, others.Complete(t.Context(), holder, long))
	}
	if r := find(t, store, asksAtOnce("key")); r.State != storage.InProgress || r.Abandoned() || r.LeaseLeft > holder.LockTTL {
		t.Errorf("the record is %+v, want it in progress for at most %s", r, holder.LockTTL)
	}
}

func TestRenewalBeforeTheTakeOverWins(t *testing.T) {
	t.Parallel()
	eachClaim(t, func(t *testing.T, claim func(string) storage.Claim) {
		m, others, store, _ := meddled(t)
		holder := abandoned(t, others, "key")
		m.after = func() { must(t, others.Extend(t.Context(), holder, time.Minute)); m.after = nil }
		c := claim("key")
		c.TakeOver = true
		if r := find(t, store, c); r.Attempt != 1 || r.Abandoned() {
			t.Errorf("the record is %+v, want attempt 1 in progress", r)
		}
	})
}

// A renewal before any script of a take-over or of an operator's decision wins too, also one that writes the same value.
func TestRenewalBeforeEachScriptWins(t *testing.T) {
	t.Parallel()
	takesOver := func(c storage.Claim) func(*redisstore.Store) error {
		c.TakeOver = true
		return func(store *redisstore.Store) error {
			_, record, err := store.Acquire(t.Context(), c)
			if record != nil && record.Attempt == 1 && !record.Abandoned() {
				return storage.ErrNotAbandoned
			}
			return err
		}
	}
	for name, act := range map[string]func(*redisstore.Store) error{
		"asks late": takesOver(claim("key")), "asks at once": takesOver(asksAtOnce("key")),
		"settles": func(store *redisstore.Store) error { return store.Settle(t.Context(), "key", 1, storage.Happened) },
	} {
		m, others, store, rdb := meddled(t)
		for n, all := 1, 1; n <= all; n++ {
			holder, scripts := abandoned(t, others, "key"), 0
			m.script = func() {
				if scripts++; scripts == n {
					must(t, rdb.PExpire(t.Context(), "oncekey:key", holder.Retain+time.Minute).Err())
				}
			}
			if err := act(store); !errors.Is(err, storage.ErrNotAbandoned) {
				t.Errorf("%s: after a renewal before script %d the error is %v, want ErrNotAbandoned", name, n, err)
			}
			must(t, rdb.FlushAll(t.Context()).Err())
			abandoned(t, others, "key")
			m.script, all = func() { all++ }, 0
			must(t, act(store))
			must(t, rdb.FlushAll(t.Context()).Err())
		}
	}
}

func TestReleasedKeyThatCannotBeCaughtIsInProgress(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	rival := released(t, others)
	var last storage.Lease
	m.script = func() { // another tombstone each time
		rival.Token = storage.NewToken()
		last = win(t, others, rival)
		must(t, others.Release(t.Context(), last))
	}
	asker := claim("key")
	asker.Fingerprint = "sha256:other"
	if r := find(t, store, asker); r.State != storage.InProgress || r.Abandoned() || r.Attempt != last.Attempt || r.Fingerprint != "sha256:f" {
		t.Errorf("the record is %+v, want attempt %d of its last holder in progress", r, last.Attempt)
	}
}

// A caller that loses a released key to another request gets that request's record.
func TestReleasedKeyThatAnotherRequestClaims(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	released(t, others)
	m.script = func() { win(t, others, claim("key")); m.script = nil }
	asker := claim("key")
	asker.Fingerprint = "sha256:other"
	if r := find(t, store, asker); r.Attempt != 3 || r.Fingerprint != "sha256:f" || r.LeaseLeft < 30*time.Second {
		t.Errorf("the record is %+v, want attempt 3 of the other request in progress", r)
	}
}

func TestReleasedKeyThatExpiresIsClaimed(t *testing.T) {
	t.Parallel()
	m, others, store, rdb := meddled(t)
	released(t, others)
	m.script = func() { must(t, rdb.Del(t.Context(), "oncekey:key").Err()) }
	winAttempt(t, store, claim("key"), 1, false)
}

// released leaves the key as its second attempt has released it, and returns that attempt's claim.
func released(t *testing.T, store storage.Store) storage.Claim {
	t.Helper()
	abandoned(t, store, "key")
	c := takeOver("key")
	must(t, store.Release(t.Context(), win(t, store, c)))
	return c
}

// abandoned returns a lease that has run out.
func abandoned(t *testing.T, store storage.Store, key string) storage.Lease {
	t.Helper()
	c := claim(key)
	c.LockTTL = time.Millisecond
	lease := win(t, store, c)
	eventually(t, func() bool { return find(t, store, claim(key)).Abandoned() })
	return lease
}
