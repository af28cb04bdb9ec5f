package redisstore_test

import (
	"context"
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

// checks are the checks of Examine, in their order.
var checks = []string{
	"connection", "version", "client", "cluster", "eviction policy", "memory", "largest value", "persistence", "replication", "rights",
	"rights of operators", "prefix", "clock", "round trip", "canary",
}

// examined returns the finding of each check.
func examined(t *testing.T, store *redisstore.Store) map[string]storage.Finding {
	t.Helper()
	return testkit.Examined(t, store.Examine(t.Context()), checks)
}

// edited is a hook that changes replies, for settings that no server of a test can have.
type edited struct {
	tripCounter
	edit func(command redis.Cmder)
}

func (e *edited) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		e.edit(command)
		return err
	}
}

func editInfo(old, edited string) func(redis.Cmder) {
	return func(command redis.Cmder) {
		if text, is := command.(*redis.StringCmd); is && strings.HasSuffix(command.FullName(), "info") {
			text.SetVal(strings.ReplaceAll(text.Val(), old, edited))
		}
	}
}

// One server with settings made wrong, one after another. At first all is good.
func TestExamineFindsWrongSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Persistent()...)
	admin := connect(t, server, nil)
	timely := func(options *redis.Options) { options.ContextTimeoutEnabled = true }
	replica := func(t *testing.T) { t.Helper(); must(t, admin.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err()) }
	config := func(words ...string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			for i := 0; i < len(words); i += 2 {
				must(t, admin.ConfigSet(t.Context(), words[i], words[i+1]).Err())
			}
		}
	}
	findings := examined(t, redisstore.New(connect(t, server, timely)))
	for check, f := range findings {
		wantFinding(t, findings, check, storage.Good, f.Seen)
	}
	testkit.Equal(t, admin.DBSize(t.Context()).Val(), 0, "keys after Examine")
	for _, test := range []struct {
		name    string
		prepare func(*testing.T)
		client  func(*redis.Options)
		edit    func(redis.Cmder)
		options []redisstore.Option
		check   string
		grade   storage.Grade
		texts   []string
	}{
		{name: "an old server", edit: editInfo("redis_version:", "redis_version:6.2.0-"), check: "version", grade: storage.Mend, texts: []string{"6.2.0", "upgrade"}},
		{name: "a client without ends", client: func(*redis.Options) {}, check: "client", grade: storage.Look, texts: []string{"ContextTimeoutEnabled"}},
		{name: "a node of a cluster", edit: editInfo("cluster_enabled:0", "cluster_enabled:1"), check: "cluster", grade: storage.Mend, texts: []string{"*redis.ClusterClient"}},
		{name: "eviction to come", prepare: config("maxmemory-policy", "allkeys-lru"), check: "eviction policy", grade: storage.Look, texts: []string{"allkeys-lru"}},
		{name: "eviction", prepare: config("maxmemory", "1gb"), check: "eviction policy", grade: storage.Mend, texts: []string{"allkeys-lru", "1073741824", "noeviction"}},
		{name: "much memory", edit: editInfo("used_memory:", "used_memory:900000000\r\nx:"), check: "memory", grade: storage.Look, texts: []string{"83 %"}},
		{name: "too much memory", edit: editInfo("used_memory:", "used_memory:1070000000\r\nx:"), check: "memory", grade: storage.Mend, texts: []string{"99 %", "raise maxmemory"}},
		{
			name: "replies that end their connection", prepare: config("client-output-buffer-limit", "normal 100kb 0 0"), check: "largest value",
			grade: storage.Mend, texts: []string{"client-output-buffer-limit normal 102400", "503"},
		},
		{name: "a second on disk", prepare: config("appendfsync", "everysec"), check: "persistence", grade: storage.Look, texts: []string{"everysec"}},
		{name: "no disk", prepare: config("appendonly", "no"), check: "persistence", grade: storage.Mend, texts: []string{"appendonly yes"}},
		{name: "too few replicas", options: []redisstore.Option{redisstore.WaitReplicas(1, 10*time.Millisecond)}, check: "replication", grade: storage.Mend, texts: []string{"WaitReplicas 1"}},
		{name: "no wait", edit: editInfo("connected_slaves:0", "connected_slaves:1"), check: "replication", grade: storage.Look, texts: []string{"1 replicas"}},
		{name: "other clocks", edit: func(command redis.Cmder) {
			if at, is := command.(*redis.TimeCmd); is {
				at.SetVal(at.Val().Add(time.Hour))
			}
		}, check: "clock", grade: storage.Look, texts: []string{"NTP"}},
		{name: "another program", prepare: func(t *testing.T) {
			t.Helper()
			must(t, admin.Set(t.Context(), "oncekey:session", "theirs", 0).Err())
		}, check: "prefix", grade: storage.Mend, texts: []string{"1 of 1 values", "session", "prefix of its own"}},
		{name: "a replica", prepare: replica, check: "replication", grade: storage.Mend, texts: []string{"role slave"}},
		{name: "a canary on a replica", check: "canary", grade: storage.Mend, texts: []string{"claim: ", "READONLY"}},
	} {
		if test.prepare != nil {
			test.prepare(t)
		}
		if test.client == nil {
			test.client = timely
		}
		rdb := connect(t, server, test.client)
		if test.edit != nil {
			rdb.AddHook(&edited{edit: test.edit})
		}
		t.Run(test.name, func(t *testing.T) {
			wantFinding(t, examined(t, redisstore.New(rdb, append(test.options, redisstore.Logger(slog.New(slog.DiscardHandler)))...)), test.check, test.grade, test.texts...)
		})
	}
}

// A user who may see nothing is told so, and one who lacks a right is told which.
func TestExamineNamesRights(t *testing.T) {
	t.Parallel()
	rights := documentedLines(t)[0]
	server := redistest.Start(t)
	admin := connect(t, server, nil)
	must(t, admin.Do(t.Context(), rights...).Err())
	findings := examined(t, redisstore.New(connect(t, server, service)))
	for _, check := range []string{"version", "eviction policy", "memory", "persistence", "replication", "cluster", "clock"} {
		wantFinding(t, findings, check, storage.Skipped, "NOPERM")
	}
	for _, check := range []string{"rights", "rights of operators", "prefix", "round trip", "canary"} {
		wantFinding(t, findings, check, storage.Good, "")
	}
	must(t, admin.Do(t.Context(), "acl", "setuser", "payments", "+info", "-scan", "-getrange").Err())
	findings = examined(t, redisstore.New(connect(t, server, service)))
	wantFinding(t, findings, "eviction policy", storage.Good, "noeviction") // which INFO has too
	wantFinding(t, findings, "persistence", storage.Mend, "appendonly no")
	wantFinding(t, findings, "rights", storage.Mend, "GETRANGE", "ACL SETUSER")
	wantFinding(t, findings, "rights of operators", storage.Look, "'scan'", "+scan")
	wantFinding(t, findings, "prefix", storage.Skipped, "+scan")
	wantFinding(t, findings, "canary", storage.Mend, "claim: ")
}

func TestExamineCluster(t *testing.T) {
	t.Parallel()
	rdb := startCluster(t)
	findings := examined(t, redisstore.New(rdb))
	wantFinding(t, findings, "cluster", storage.Good, "16384 of 16384")
	wantFinding(t, findings, "canary", storage.Good, "replayed")
	wantFinding(t, findings, "client", storage.Look, "ContextTimeoutEnabled")
	rdb.AddHook(&edited{edit: editInfo("cluster_slots_ok:16384", "cluster_slots_ok:16383")})
	wantFinding(t, examined(t, redisstore.New(rdb)), "cluster", storage.Mend, "16383 of 16384")
}

// Of a server that is down, or that refuses the password, only the connection is judged.
func TestExamineUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := connect(t, server, func(options *redis.Options) { options.MaxRetries = -1 })
	judged := func(rdb *redis.Client, want string) {
		t.Helper()
		findings := examined(t, redisstore.New(rdb))
		wantFinding(t, findings, "connection", storage.Mend, want)
		for _, check := range checks[1:] {
			wantFinding(t, findings, check, storage.Skipped, "mend the connection")
		}
	}
	judged(connect(t, server, func(options *redis.Options) { options.Username, options.Password = "app", "wrong" }), "WRONGPASS")
	for _, mode := range []string{"redis_mode:sentinel", "server_mode:sentinel"} {
		sentinel := connect(t, server, nil)
		sentinel.AddHook(&edited{edit: editInfo("redis_mode:standalone", mode)})
		judged(sentinel, "NewFailoverClient")
	}
	server.Kill()
	judged(rdb, "refused")
}
