package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 20: values that other programs have written under our keys are neither
// replayed nor claimed, nor overwritten.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	tests := []struct {
		name, mentions string
		write          func(key string) error
	}{
		{"text", "does not begin as a record", func(key string) error { return rdb.Set(t.Context(), key, "hello\n", time.Hour).Err() }},
		{"empty", "does not begin as a record", func(key string) error { return rdb.Set(t.Context(), key, "", time.Hour).Err() }},
		{"list", "WRONGTYPE", func(key string) error { return rdb.RPush(t.Context(), key, "a").Err() }},
		{"in progress for ever", "expiry", func(key string) error {
			win(t, store, claim(strings.TrimPrefix(key, redisstore.DefaultPrefix)))
			return rdb.Persist(t.Context(), key).Err()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			must(t, test.write("oncekey:"+test.name))
			before := rdb.Dump(t.Context(), "oncekey:"+test.name).Val()
			c := takeOver(test.name)
			lease, record, err := store.Acquire(t.Context(), c)
			if record != nil || lease != (storage.Lease{}) || !errors.Is(err, storage.ErrCorruptRecord) {
				t.Fatalf("Acquire returned %+v, %+v and %v, want ErrCorruptRecord", lease, record, err)
			}
			for _, part := range []string{`"oncekey:` + test.name + `"`, test.mentions} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %q, want it to mention %s", err, part)
				}
			}
			testkit.Equal(t, rdb.Dump(t.Context(), "oncekey:"+test.name).Val(), before, "the value has changed")
		})
	}
}

func TestSettlingAnOverwrittenClaim(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	lease := win(t, store, claim("key"))
	must(t, rdb.Set(t.Context(), "oncekey:key", "hello", time.Hour).Err())
	for operation, err := range tryAll(t, store, lease, time.Minute) {
		if operation != "Acquire" && !errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("%s returned %v, want ErrLeaseLost", operation, err)
		}
	}
}

func TestFinishedRecordWithoutExpiryIsReplayed(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	must(t, store.Complete(t.Context(), win(t, store, claim("key")), result("answer")))
	must(t, rdb.Persist(t.Context(), "oncekey:key").Err())
	replays(t, store, claim("key"), "answer")
}

func TestDeletingAKeyMakesItNew(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	must(t, store.Complete(t.Context(), win(t, store, claim("key")), result("answer")))
	must(t, rdb.Del(t.Context(), "oncekey:key").Err())
	win(t, store, claim("key"))
}
