package redisstore_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 95: a value that is larger than proto-max-bulk-len. The server ends the connection,
// often before the client has read the reason. The outcome is kept without its response.
func TestResponseThatIsTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	server := redistest.Start(t, "--proto-max-bulk-len", fmt.Sprint(limit))
	admin := connect(t, server, nil)
	user := func(name, rights string) func(*redis.Options) {
		return func(options *redis.Options) {
			words := []any{"acl", "setuser", name, "on", ">secret", "~*", "+@all"}
			for right := range strings.FieldsSeq(rights) {
				words = append(words, right)
			}
			must(t, admin.Do(t.Context(), words...).Err())
			options.Username, options.Password = name, "secret"
		}
	}
	for name, change := range map[string]func(*redis.Options){
		"any user":                    nil,
		"a user without CONFIG":       user("a", "-config"),
		"a client that never repeats": func(options *redis.Options) { options.MaxRetries = -1 },
	} {
		for _, remember := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, remember), func(t *testing.T) {
				t.Parallel()
				store := redisstore.New(connect(t, server, change), redisstore.Prefix(fmt.Sprint(name, remember)))
				for _, size := range []int{limit, limit + 1, 8 * limit} {
					c := claim(fmt.Sprint(size))
					c.Remember = remember
					lease := win(t, store, c)
					res := result(strings.Repeat("x", size))
					res.Remember = remember
					fails(t, "Complete", store.Complete(t.Context(), lease, res), storage.ErrNotStorable)
					lease.Steps = strings.Repeat("x", size)
					fails(t, "Extend", store.Extend(t.Context(), lease, time.Minute), storage.ErrNotStorable)
					outcome := storage.Result{State: storage.Unreplayable, Status: 201, Retain: time.Hour, Remember: remember}
					err := store.Complete(t.Context(), lease, outcome)
					if errors.Is(err, io.EOF) { // the connection that the server ends was in the pool
						err = store.Complete(t.Context(), lease, outcome)
					}
					must(t, err)
					if r := find(t, store, c); r.State != storage.Unreplayable || r.Status != 201 {
						t.Errorf("the record is %+v, want an Unreplayable one", r)
					}
				}
			})
		}
	}
	findings := redisstore.New(admin).Examine(t.Context())
	for _, f := range findings {
		if f.Check == "largest value" && (f.Grade != storage.Mend || !strings.Contains(f.Seen, fmt.Sprint(limit))) {
			t.Errorf("the finding is %+v, want the limit", f)
		}
	}
}

// A full server serves operators who look a record up: a transaction would be refused, although it only reads.
func TestFullServerIsInspected(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store := redisstore.New(rdb)
	must(t, store.Complete(t.Context(), win(t, store, claim("finished")), result("body")))
	win(t, store, claim("running"))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for key, want := range map[string]storage.State{"finished": storage.Completed, "running": storage.InProgress} {
		if record, err := store.Lookup(t.Context(), key); err != nil || record == nil || record.State != want {
			t.Errorf("Lookup returned %+v and %v, want a record that is %s", record, err, want)
		}
	}
	wantFinding(t, examined(t, store), "rights of operators", storage.Good)
	forget(t, store, "finished")
}

// A server that refuses all writes for now still has the responses of finished keys.
func TestServerThatRefusesWritesReplays(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(t *testing.T, rdb *redis.Client){
		"OOM": func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
		},
		"NOREPLICAS": func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		},
		"READONLY": func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		},
		"MISCONF": func(t *testing.T, rdb *redis.Client) {
			folder := t.TempDir()
			must(t, rdb.ConfigSet(t.Context(), "dir", folder).Err())
			must(t, rdb.ConfigSet(t.Context(), "save", "3600 1").Err())
			must(t, os.RemoveAll(folder))
			must(t, rdb.BgSave(t.Context()).Err())
			testkit.Await(t, "for a snapshot that fails", func() bool {
				return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t, redistest.Start(t, "--enable-protected-configs", "yes"), func(options *redis.Options) { options.MaxRetries = -1 })
			store := redisstore.New(rdb)
			remembered := claim("remembered")
			remembered.Remember = time.Hour
			res := result("body")
			must(t, store.Complete(t.Context(), win(t, store, claim("finished")), res))
			res.Remember = remembered.Remember
			must(t, store.Complete(t.Context(), win(t, store, remembered), res))
			win(t, store, claim("running"))
			abandoned := claim("abandoned")
			abandoned.LockTTL = time.Millisecond
			win(t, store, abandoned)
			refuse(t, rdb)
			for _, c := range []storage.Claim{claim("finished"), remembered} {
				if r := find(t, redisstore.New(rdb), c); r.State != storage.Completed || string(r.Body) != "body" {
					t.Errorf("the record is %+v, want the response", r)
				}
			}
			testkit.Equal(t, find(t, store, claim("running")).State, storage.InProgress, "the record's state")
			abandoned.TakeOver = true
			for _, c := range []storage.Claim{claim("new"), abandoned} {
				if _, _, err := store.Acquire(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("Acquire of the key %s returned %v, want the server's %s", c.Key, err, name)
				}
			}
		})
	}
}

// Case 95: too little memory may pass, and a lost connection too.
func TestFaultsThatMayPass(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := connect(t, server, nil)
	store := redisstore.New(rdb)
	lease := win(t, store, claim("key"))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := store.Complete(t.Context(), lease, result(strings.Repeat("x", 2<<20)))
	if err == nil || errors.Is(err, storage.ErrNotStorable) {
		t.Errorf("without memory Complete returned %v, want an error that may pass", err)
	}
	server.Kill()
	err = store.Complete(t.Context(), lease, result(strings.Repeat("x", 2<<20)))
	if err == nil || errors.Is(err, storage.ErrNotStorable) {
		t.Errorf("without a server Complete returned %v, want an error that may pass", err)
	}
}

// A server that refuses the connection itself is neither ready, nor empty, nor full of values that cannot be read. go-redis
// leaves the commands of a pipeline without an error then.
func TestConnectionThatIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must(t, connect(t, server, nil).Do(t.Context(), "config", "set", "requirepass", "secret").Err())
	for want, change := range map[string]func(*redis.Options){
		"WRONGPASS":                 func(options *redis.Options) { options.Password = "other" },
		"DB index is out of range":  func(options *redis.Options) { options.Password, options.DB = "secret", 99 },
		"invalid username-password": func(options *redis.Options) { options.Password, options.Protocol = "other", 2 },
	} {
		client := connect(t, server, change)
		for name, store := range map[string]*redisstore.Store{
			"client": redisstore.New(client), "AutoPipeline": redisstore.New(pipelined(t, client)),
			"WaitReplicas": redisstore.New(client, redisstore.WaitReplicas(1, time.Second)),
		} {
			c := claim("key")
			c.Remember = time.Hour
			_, _, acquired := store.Acquire(t.Context(), c)
			_, listed := store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10})
			for call, err := range map[string]error{"Check": store.Check(t.Context()), "Acquire": acquired, "List": listed} {
				if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, storage.ErrCorruptRecord) {
					t.Errorf("%s, %s: %s returned %v", want, name, call, err)
				}
			}
		}
	}
}
