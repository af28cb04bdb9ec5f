package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	"github.com/oncekey/oncekey/policy"
)

// user returns a client of a new user with these rights.
func user(t *testing.T, server *redistest.Server, rights ...string) *redis.Client {
	t.Helper()
	admin := connect(t, server, nil)
	setUser(t, admin, append([]string{"on", ">secret"}, rights...)...)
	return connect(t, server, func(options *redis.Options) {
		options.Username, options.Password = "app", "secret"
		options.ContextTimeoutEnabled = true
	})
}

func setUser(t *testing.T, admin *redis.Client, rights ...string) {
	t.Helper()
	words := []any{"acl", "setuser", "app"}
	for _, right := range rights {
		words = append(words, right)
	}
	must(t, admin.Do(t.Context(), words...).Err())
}

// Case 38: a process that may claim keys and not settle them claims none.
func TestMissingRightIsNoticedBeforeTheFirstClaim(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"set", "get", "pttl", "getrange", "del", "eval", "evalsha"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := user(t, server, "~*", "+@all", "-"+missing)
			store := redisstore.New(rdb)
			for range 2 { // a refusal is not remembered
				lease, record, err := store.Acquire(t.Context(), claim("key"))
				if !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), strings.ToUpper(missing)) {
					t.Errorf("Acquire returned %+v, %+v and %v, want ErrStoreForbidden and the command", lease, record, err)
				}
			}
			fails(t, "Check", store.Check(t.Context()), storage.ErrStoreForbidden)
			testkit.Equal(t, connect(t, server, nil).DBSize(t.Context()).Val(), 0, "keys of the server")
			setUser(t, connect(t, server, nil), "+"+missing)
			must(t, store.Check(t.Context()))
			must(t, store.Complete(t.Context(), win(t, store, claim("key")), result("answer")))
		})
	}
}

// Case 38: a repeated Complete needs APPEND when the store waits for replicas.
func TestMissingRightWithReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	must(t, r.rdb.Do(t.Context(), "acl", "setuser", "default", "-append").Err())
	if _, _, err := r.waiting(late).Acquire(t.Context(), claim("key")); !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), "APPEND") {
		t.Errorf("Acquire returned %v, want ErrStoreForbidden and APPEND", err)
	}
	must(t, r.rdb.Do(t.Context(), "acl", "setuser", "default", "+append").Err())
	win(t, r.waiting(late), claim("key"))
	eventually(t, func() bool { return r.rdb.DBSize(t.Context()).Val() == 1 })
}

// The first callers of a process come together: one of them asks for all.
func TestOneCallerAsksForAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(connect(t, server, punctual))
	server.Pause()
	asks := make(chan error, 1)
	go func() { // this one gives up, and another one has to ask
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, _, err := store.Acquire(ctx, claim("given up"))
		asks <- err
	}()
	var callers sync.WaitGroup
	for n := range 50 {
		callers.Go(func() { win(t, store, claim(fmt.Sprint("key-", n))) })
	}
	fails(t, "Acquire", <-asks, context.DeadlineExceeded)
	server.Resume()
	callers.Wait()
	stats := connect(t, server, nil).Info(t.Context(), "commandstats").Val()
	// Each check evaluates three scripts. The caller that gave up may have asked, too.
	if !strings.Contains(stats, "cmdstat_eval:calls=3,") && !strings.Contains(stats, "cmdstat_eval:calls=6,") {
		t.Errorf("51 callers have asked more than twice: %s", stats)
	}
}

// Case 38: a right to some keys alone, and commands that were renamed.
func TestOtherRefusalsOfRights(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(t *testing.T) *redis.Client{
		"other keys": func(t *testing.T) *redis.Client {
			t.Helper()
			return user(t, redistest.Start(t), "~another:*", "+@all")
		},
		"no keys of responses": func(t *testing.T) *redis.Client {
			t.Helper()
			return user(t, redistest.Start(t), "~oncekey:[a-z0-9]*", "+@all")
		},
		"no writing": func(t *testing.T) *redis.Client {
			t.Helper()
			return user(t, redistest.Start(t), "%R~*", "+@all")
		},
		"renamed command": func(t *testing.T) *redis.Client {
			t.Helper()
			return connect(t, redistest.Start(t, "--rename-command", "EVALSHA", "hidden"), nil)
		},
	}, func(t *testing.T, start func(t *testing.T) *redis.Client) {
		store := redisstore.New(start(t))
		refused(t, store, claim("key"), storage.ErrStoreForbidden)
	})
}

// Case 38: rights that are lost while the process runs, one of them inside of a script.
func TestRightThatIsLost(t *testing.T) {
	t.Parallel()
	for right, hook := range map[string]redis.Hook{"evalsha": &tripCounter{}, "getrange": &newerTexts{}} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := user(t, server, "~*", "+@all")
			rdb.AddHook(hook)
			store := redisstore.New(rdb)
			first, second := win(t, store, claim("first")), win(t, store, claim("second"))
			setUser(t, connect(t, server, nil), "-"+right)
			for name, err := range map[string]error{
				"Complete": store.Complete(t.Context(), first, result("answer")),
				"Release":  store.Release(t.Context(), second),
				"Extend":   store.Extend(t.Context(), first, first.LockTTL),
			} {
				fails(t, name, err, storage.ErrStoreForbidden)
			}
			refused(t, store, claim("third"), storage.ErrStoreForbidden)
		})
	}
}

// newerTexts words the refusals inside of scripts as Redis 7.2 and Valkey do.
type newerTexts struct{ tripCounter }

func (*newerTexts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if err != nil && strings.Contains(err.Error(), "The user executing the script") {
			err = newerError("ERR ACL failure in script: User app has no permissions to run the 'getrange' command script: 4b6")
			command.SetErr(err)
		}
		return err
	}
}

type newerError string

func (t newerError) Error() string { return string(t) }
func (newerError) RedisError()     {}

// A service's user may lack the right of operators.
func TestOperatorsRightIsMissing(t *testing.T) {
	t.Parallel()
	store := redisstore.New(user(t, redistest.Start(t), "~*", "+@all", "-scan"))
	_, err := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 1})
	fails(t, "List", err, storage.ErrStoreForbidden, "NOPERM")
	must(t, store.Check(t.Context()))
}

// Case 38: a temporary error is not a missing right.
func TestRefusalsThatPass(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), func(options *redis.Options) { options.MaxRetries = -1 })
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	store := redisstore.New(rdb)
	if _, _, err := store.Acquire(t.Context(), claim("key")); err == nil || errors.Is(err, storage.ErrStoreForbidden) {
		t.Errorf("Acquire returned %v, want the server's OOM", err)
	}
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	win(t, store, claim("key"))
}

// Case 38: of many requests to a server that takes claims and refuses settlements,
// at most two run their handlers, and none with FailOpen either.
func TestRequestsToAStoreThatCannotSettle(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			rdb := user(t, redistest.Start(t), "~*", "+@all", "-eval", "-evalsha")
			guard, err := core.New(redisstore.New(rdb), core.SharedScope, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
			must(t, err)
			var runs atomic.Int32
			handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs.Add(1)
				w.WriteHeader(http.StatusCreated)
			}), policy.OnStoreError(mode), policy.StoreTimeout(time.Minute)) // a late reply is no missing right
			for n := range 20 {
				response := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", fmt.Sprint("key-", n), "{}"))
				testkit.Equal(t, response.Code, http.StatusServiceUnavailable, "the status of request %d", n)
			}
			if ran := runs.Load(); ran > 0 {
				t.Errorf("%d handlers ran, want none: the first claim must notice", ran)
			}
			must(t, guard.Shutdown(t.Context()))
		})
	}
}
