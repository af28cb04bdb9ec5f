package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

func TestLookupAndForgetTakeOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// By another client: the first claim of a store also reads the server's settings,
	// in its own time. The server gets the scripts.
	earlier := redisstore.New(connect(t, server, nil))
	win(t, earlier, claim("other"))
	forget(t, earlier, "other")
	must(t, earlier.Complete(t.Context(), win(t, earlier, claim("key")), result("answer")))
	rdb := connect(t, server, nil)
	store := redisstore.New(rdb)
	batches := &batchCounter{}
	rdb.AddHook(batches)
	if r, err := store.Lookup(t.Context(), "key"); err != nil || string(r.Body) != "answer" {
		t.Errorf("Lookup returned %+v and %v, want the response", r, err)
	}
	forget(t, store, "key")
	if batches.pipelines != 0 || batches.others != 2 {
		t.Errorf("they took %d pipelines and %d other commands, want one command each", batches.pipelines, batches.others)
	}
}

// batchCounter counts the batches of one caller, except those that open a connection.
type batchCounter struct {
	tripCounter
	pipelines, others int
}

func (c *batchCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if !opensConnection(command) {
			c.others++
		}
		return next(ctx, command)
	}
}

func (c *batchCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if !opensConnection(commands[0]) {
			c.pipelines++
		}
		return next(ctx, commands)
	}
}

// opensConnection reports whether a command greets the server or introduces the
// client to it.
func opensConnection(command redis.Cmder) bool {
	return command.Name() == "hello" || command.Name() == "client"
}

// foreign are values that others have written under our keys.
func foreign(t *testing.T, rdb *redis.Client, store *redisstore.Store) []string {
	t.Helper()
	must(t, rdb.Set(t.Context(), "oncekey:text", "hello", time.Hour).Err())
	must(t, rdb.Set(t.Context(), "oncekey:line", "{}\n", time.Hour).Err())
	must(t, rdb.RPush(t.Context(), "oncekey:list", "a").Err())
	must(t, rdb.Set(t.Context(), "oncekey:version", "oncekey\x02"+strings.Repeat("x", 100), time.Hour).Err())
	win(t, store, claim("eternal"))
	must(t, rdb.Persist(t.Context(), "oncekey:eternal").Err())
	return []string{"text", "line", "list", "version", "eternal"}
}

// Case 20: Lookup names the fault, and Forget removes the value.
func TestInspectingForeignValues(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	for _, key := range foreign(t, rdb, store) {
		if r, err := store.Lookup(t.Context(), key); r != nil || !errors.Is(err, storage.ErrCorruptRecord) || !strings.Contains(err.Error(), key) {
			t.Errorf("Lookup returned %+v and %v, want ErrCorruptRecord and the key", r, err)
		}
		forget(t, store, key)
		win(t, store, claim(key))
	}
}

// A server that does not respond, or refuses, is an error of each method.
func TestInspectingFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := connect(t, server, func(options *redis.Options) { options.MaxRetries = -1 })
	store := redisstore.New(rdb)
	inspect := func(ctx context.Context) []error {
		_, lookUp := store.Lookup(ctx, "key")
		_, list := store.List(ctx, storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10})
		_, forget := store.Forget(ctx, "key", storage.RerunIsSafe)
		return []error{lookUp, list, forget}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	must(t, rdb.Ping(t.Context()).Err())
	server.Pause()
	for _, err := range inspect(short) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want context.DeadlineExceeded", err)
		}
	}
	server.Resume()
	win(t, store, claim("key"))
	must(t, rdb.Do(t.Context(), "acl", "setuser", "default", "-evalsha", "-scan", "-del").Err())
	for _, err := range inspect(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") || !strings.HasPrefix(err.Error(), "redisstore: ") {
			t.Errorf("the error is %v, want the server's", err)
		}
	}
	must(t, rdb.Do(t.Context(), "acl", "setuser", "default", "+scan", "-eval").Err())
	if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: 10}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("List returned %v, want the server's error", err)
	}
}

func fill(t *testing.T, store *redisstore.Store, count int, body string) {
	t.Helper()
	for n := range count {
		must(t, store.Complete(t.Context(), win(t, store, claim(fmt.Sprintf("%064x", n))), result(body)))
	}
}

// A key that is free again ends with its retention, and so does the response of one that has happened. Its own record is
// remembered longer.
func TestDecisionsEndWithTheRetention(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store := redisstore.New(rdb)
	for confirmation, remembered := range map[storage.Confirmation]bool{storage.Happened: true, storage.DidNotHappen: false} {
		c := asksAtOnce("key") // with a Remember
		c.LockTTL = time.Millisecond
		win(t, store, c)
		eventually(t, func() bool { return find(t, store, claim("key")).Abandoned() })
		must(t, store.Settle(t.Context(), "key", 1, confirmation))
		key, response := rdb.PTTL(t.Context(), "oncekey:key").Val(), rdb.PTTL(t.Context(), "oncekey:{oncekey:key}:response").Val()
		if key > c.Retain != remembered || key <= 0 || response > 0 != remembered || response > c.Retain {
			t.Errorf("after %q the key has %s left and its response %s, with a Retain of %s", confirmation, key, response, c.Retain)
		}
		must(t, rdb.FlushAll(t.Context()).Err())
	}
}
