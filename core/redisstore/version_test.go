package redisstore

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// nextStored is the record of a made-up next version of this program, which has one more
// field than this version.
type nextStored struct {
	stored
	tenant string
}

func (s *nextStored) layout(c *codec) {
	s.stored.layout(c)
	if c.has(s.tenant != "") {
		c.words(&s.tenant)
	}
}

// written returns the value that the next version writes: this version's, with the field.
func (s *nextStored) written(of []byte) []byte {
	read := codec{rest: of[len(mark):], reading: true}
	s.layout(&read)
	s.tenant = "tenant"
	write := codec{rest: []byte(mark)}
	s.layout(&write)
	write.end()
	return append(write.rest, of[len(of)-s.size:]...)
}

// While pods of two versions run, each reads the records of the other one: this version
// skips the field that it does not know, and the next version finds it empty.
func TestFieldOfTheNextVersion(t *testing.T) {
	t.Parallel()
	for name, value := range usualValues() {
		var next nextStored
		read := codec{rest: value[len(mark):], reading: true}
		if next.layout(&read); read.cut || read.invalid || !read.end() || next.tenant != "" {
			t.Errorf("%s is read by the next version as %+v", name, next)
		}
		newer := (&nextStored{}).written(value)
		want, err := decode(value)
		testkit.Must(t, err)
		got, err := decode(newer)
		if err != nil || got.token != want.token || got.record.Fingerprint != want.record.Fingerprint || got.record.Status != want.record.Status ||
			!bytes.Equal(got.record.Body, want.record.Body) || got.record.Steps != want.record.Steps || got.retain != want.retain {
			t.Errorf("%s of the next version is read as %+v, %v\nwant %+v", name, got, err, want)
		}
		if listed, enough, err := decodeBeginning(newer); err != nil || !enough || listed.record.Attempt != want.record.Attempt {
			t.Errorf("%s of the next version is listed as %+v, %t, %v", name, listed, enough, err)
		}
	}
}

// Calls of this version on records of the next one, in a server: it replays them, refuses
// duplicates, takes over, and leaves the others' claims alone.
func TestRecordsOfTheNextVersion(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	store, ctx := New(rdb), t.Context()
	claim := someLease().Claim
	put := func(value []byte, life time.Duration) {
		t.Helper()
		testkit.Must(t, rdb.Set(ctx, DefaultPrefix+claim.Key, (&nextStored{}).written(value), life).Err())
	}
	other := claim
	other.Token, other.TakeOver = storage.NewToken(), true

	finished := encodeResult(someLease(), storage.Result{State: storage.Completed, Status: 201, Body: []byte("answer"), Retain: time.Hour}, someTime)
	put(finished, time.Hour)
	if _, r, err := store.Acquire(ctx, other); err != nil || r == nil || string(r.Body) != "answer" {
		t.Errorf("Acquire returned %+v and %v, want the response", r, err)
	}
	running := someLease()
	put(encodeClaim(&running, someTime), running.Retain)
	if _, r, err := store.Acquire(ctx, other); err != nil || r == nil || r.State != storage.InProgress || r.Abandoned() {
		t.Errorf("Acquire returned %+v and %v, want the running claim", r, err)
	}
	testkit.Fails(t, "Complete", store.Complete(ctx, storage.Lease{Claim: other, Attempt: 2}, storage.Result{State: storage.Failed, Status: 400, Retain: time.Hour}), storage.ErrLeaseLost)
	running.LockTTL, running.Steps = 0, "charge\n"
	put(encodeClaim(&running, someTime), running.Retain)
	lease, _, err := store.Acquire(ctx, other)
	if err != nil || !lease.TookOver || lease.Attempt != 3 || lease.Steps != running.Steps {
		t.Errorf("Acquire returned %+v and %v, want the abandoned key", lease, err)
	}
}

// Case 40: a value of a version that this one does not know is refused by each call, and stays
// as it is until it expires. Then the key is new.
func TestUnknownVersionIsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	store := New(rdb)
	for name, value := range usualValues() {
		newer := strings.Replace(string(value), mark, "oncekey\x02", 1)
		l := someLease()
		l.Key = name
		key := DefaultPrefix + name
		testkit.Must(t, rdb.Set(t.Context(), key, newer, time.Hour).Err())
		for call, err := range callAll(t.Context(), store, l) {
			settles := call == "Complete" || call == "Release" || call == "Extend"
			if settles && !errors.Is(err, storage.ErrLeaseLost) ||
				!settles && (!errors.Is(err, storage.ErrCorruptRecord) || !strings.Contains(err.Error(), "its format is version 2, this is version 1")) {
				t.Errorf("%s of %s returned %v", call, name, err)
			}
		}
		if got, left := rdb.Get(t.Context(), key).Val(), rdb.PTTL(t.Context(), key).Val(); got != newer || left < 59*time.Minute {
			t.Errorf("%s has become %q, for %s", name, got, left)
		}
		testkit.Must(t, rdb.PExpire(t.Context(), key, -1).Err())
		if lease, found, err := store.Acquire(t.Context(), l.Claim); err != nil || found != nil || lease.Attempt != 1 {
			t.Errorf("after %s has expired, Acquire returned %+v, %+v and %v, want a lease", name, lease, found, err)
		}
	}
}

func callAll(ctx context.Context, store *Store, l storage.Lease) map[string]error {
	l.TakeOver = true
	remembered := l.Claim
	remembered.Remember = time.Hour
	_, _, acquire := store.Acquire(ctx, l.Claim)
	_, _, remember := store.Acquire(ctx, remembered)
	_, lookUp := store.Lookup(ctx, l.Key)
	return map[string]error{
		"Acquire": acquire, "Acquire with a Remember": remember, "Lookup": lookUp,
		"Settle":   store.Settle(ctx, l.Key, l.Attempt, storage.Happened),
		"Complete": store.Complete(ctx, l, storage.Result{State: storage.Completed, Status: 200, Retain: time.Hour}),
		"Release":  store.Release(ctx, l),
		"Extend":   store.Extend(ctx, l, time.Minute),
	}
}
