package redisstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// remembered is a claim with a fingerprint as package fingerprint writes it.
func remembered(key string) storage.Claim {
	c := claim(key)
	c.Fingerprint, c.Digest = "sha256:"+strings.Repeat("0123456789abcdef", 4), storage.Digest{1}
	c.Remember = 720 * time.Hour
	return c
}

func rememberedResult(body string) storage.Result {
	res := result(body)
	res.Remember = 720 * time.Hour
	return res
}

// nameOf is the name of a response with a key of its own.
func nameOf(key string) string { return "oncekey:{oncekey:" + key + "}:response" }

// Only the short value stays after Retain.
func TestSizeOfATombstone(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	key := strings.Repeat("0123456789abcdef", 4)
	res := rememberedResult(strings.Repeat("body", 10_000))
	res.Retain, res.Sketch = time.Millisecond, make([]byte, 256)
	must(t, store.Complete(t.Context(), win(t, store, remembered(key)), res))
	eventually(t, func() bool { return find(t, store, remembered(key)).State == storage.Expired })
	eventually(t, func() bool { return rdb.DBSize(t.Context()).Val() == 1 })
	size := rdb.MemoryUsage(t.Context(), "oncekey:"+key).Val()
	must(t, rdb.Set(t.Context(), "oncekey:"+key, "", time.Hour).Err())
	empty := rdb.MemoryUsage(t.Context(), "oncekey:"+key).Val()
	t.Logf("a tombstone takes %d bytes, and an empty key %d", size, empty)
	if size-empty > 96 || empty == 0 {
		t.Errorf("a tombstone takes %d bytes over an empty key, want at most 96", size-empty)
	}
}

// A Remember costs no round trip, except to callers that do not have one themselves,
// and to those who come too late for an abandoned key.
func TestRoundTripsWithRemember(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	trips := countTrips(rdb)
	store := redisstore.New(rdb)
	must(t, store.Complete(t.Context(), win(t, store, remembered("warm")), rememberedResult("loads the scripts")))
	find(t, store, claim("warm")) // loads the other
	trips.Store(0)

	lease := win(t, store, remembered("key"))
	trips.expect(t, "claiming", 1)
	find(t, store, remembered("key"))
	trips.expect(t, "finding a key in progress", 1)
	must(t, store.Extend(t.Context(), lease, 0))
	trips.expect(t, "extending", 1)
	next := remembered("key")
	next.TakeOver = true
	lease = win(t, store, next)
	trips.expect(t, "taking over", 2)
	must(t, store.Complete(t.Context(), lease, rememberedResult("answer")))
	trips.expect(t, "completing", 1)
	replays(t, store, remembered("key"), "answer")
	trips.expect(t, "replaying", 1)
	replays(t, store, claim("key"), "answer")
	trips.expect(t, "replaying without a Remember", 2)

	expire(t, rdb, "key", time.Minute)
	if r := find(t, store, remembered("key")); r.State != storage.Expired || r.Status != 201 {
		t.Errorf("the record is %+v, want it expired", r)
	}
	trips.expect(t, "finding a tombstone", 1)
	win(t, store, remembered("abandoned"))
	expire(t, rdb, "abandoned", time.Minute)
	trips.Store(0)
	if r := find(t, store, remembered("abandoned")); r.State != storage.Expired || r.Status != 0 {
		t.Errorf("the record is %+v, want it expired", r)
	}
	trips.expect(t, "finding the tombstone of an abandoned key", 2)
}

// A tombstone cannot be completed by a result with a Remember either.
func TestCompletingATombstone(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	for key, status := range map[string]int{"finished": 201, "abandoned": 0} {
		lease := win(t, store, remembered(key))
		if status != 0 {
			must(t, store.Complete(t.Context(), lease, rememberedResult("answer")))
		}
		expire(t, rdb, key, lease.Remember)
		fails(t, key+": Complete", store.Complete(t.Context(), lease, rememberedResult("late")), storage.ErrLeaseLost)
		if r := find(t, store, remembered(key)); r.State != storage.Expired || r.Status != status || r.Body != nil {
			t.Errorf("%s: the record is %+v, want a tombstone of status %d", key, r, status)
		}
		testkit.Equal(t, rdb.Exists(t.Context(), nameOf(key)).Val(), 0, "%s: a response was written", key)
	}
}

// expire ends the Retain of a record, in the same way as time.
func expire(t *testing.T, rdb *redis.Client, key string, left time.Duration) {
	t.Helper()
	must(t, rdb.PExpire(t.Context(), "oncekey:"+key, left).Err())
	must(t, rdb.Del(t.Context(), nameOf(key)).Err())
}

// A response that the server has evicted is not replayed, and does not run again.
func TestEvictedResponse(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	for name, store := range map[string]*redisstore.Store{"plain": redisstore.New(rdb), "pipelined": redisstore.New(pipelined(t, rdb))} {
		must(t, store.Complete(t.Context(), win(t, store, remembered(name)), rememberedResult("answer")))
		must(t, rdb.Del(t.Context(), nameOf(name)).Err())
		found, err := store.Lookup(t.Context(), name)
		must(t, err)
		for by, r := range map[string]*storage.Record{
			"Acquire": find(t, store, remembered(name)), "a claim without a Remember": find(t, store, claim(name)),
			"Lookup": found, "List": listAll(t, store, storage.Unreplayable, 10)[name],
		} {
			if r == nil || r.State != storage.Unreplayable || r.Status != 201 || r.Body != nil || r.Fingerprint != remembered("").Fingerprint || r.Expires.IsZero() {
				t.Errorf("%s, %s: the record is %+v, want one that cannot be replayed", name, by, r)
			}
		}
		if listed := listAll(t, store, storage.Completed, 10); listed[name] != nil {
			t.Errorf("%s: the record is listed as completed: %+v", name, listed[name])
		}
		forget(t, store, name)
	}
}

func forget(t *testing.T, store *redisstore.Store, key string) {
	t.Helper()
	if there, err := store.Forget(t.Context(), key, storage.RerunIsSafe); err != nil || !there {
		t.Errorf("Forget returned %t and %v, want true", there, err)
	}
}

// Case 20: a damaged value or response is neither replayed nor claimed.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	for name, damage := range map[string]func(key string) error{
		"a cut value":    func(key string) error { return rdb.Set(t.Context(), "oncekey:"+key, "oncekey\x01cut", time.Hour).Err() },
		"a cut response": func(key string) error { return rdb.Set(t.Context(), nameOf(key), "{}\n", time.Hour).Err() },
		"a response in a list": func(key string) error {
			rdb.Del(t.Context(), nameOf(key))
			return rdb.RPush(t.Context(), nameOf(key), "a").Err()
		},
		"a response of no line": func(key string) error { return rdb.Set(t.Context(), nameOf(key), "hello", time.Hour).Err() },
	} {
		must(t, store.Complete(t.Context(), win(t, store, remembered(name)), rememberedResult("answer")))
		must(t, damage(name))
		for _, c := range []storage.Claim{remembered(name), claim(name)} {
			refused(t, store, c, storage.ErrCorruptRecord)
		}
		if r, err := store.Lookup(t.Context(), name); !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("%s: Lookup returned %+v and %v, want ErrCorruptRecord", name, r, err)
		}
		testkit.Equal(t, len(listAll(t, store, storage.Completed, 10)), 0, "%s: listed records", name)
		forget(t, store, name)
		testkit.Equal(t, rdb.DBSize(t.Context()).Val(), 0, "%s: keys after Forget", name)
	}
}

// A list reads the origin and the times of a response with a key of its own, however
// long the fingerprint is, and lists no response as a record.
func TestListOfRememberedKeys(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	var log bytes.Buffer
	for _, prefix := range []string{"oncekey:", "{tag}:", ""} {
		must(t, rdb.FlushAll(t.Context()).Err())
		store := redisstore.New(rdb, redisstore.Prefix(prefix), redisstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		for key, fingerprint := range map[string]string{"usual": remembered("").Fingerprint, "text": "é", "long": strings.Repeat("長い", 2000)} {
			c := remembered(key)
			c.Fingerprint, c.Origin.Route = fingerprint, "POST /"+key
			lease := win(t, store, c)
			lease.Age = time.Minute
			must(t, store.Complete(t.Context(), lease, rememberedResult(strings.Repeat("answer", 1000))))
		}
		listed := listAll(t, store, storage.Completed, 10)
		for key, r := range listed {
			if r.Origin.Route != "POST /"+key || r.Body != nil || r.Finished.Sub(r.Created) != time.Minute || r.Expires.Sub(r.Finished) != time.Hour {
				t.Errorf("under %q the record of %s is %+v", prefix, key, r)
			}
		}
		if expired := listAll(t, store, storage.Expired, 10); len(listed) != 3 || len(expired) != 0 {
			t.Errorf("under %q %d completed and %d expired records are listed, want 3 and none", prefix, len(listed), len(expired))
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log says %q", log.String())
	}
}
