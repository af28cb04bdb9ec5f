package redisstore_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// documentedLines are the lines of docs/redis.md that set a user's rights: the line for each service, and the lines for
// WaitReplicas, for Cluster, for the warning, for core.WithScopeLimit and for a client's own settings.
func documentedLines(t *testing.T) (all [][]any) {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	must(t, err)
	lines := regexp.MustCompile("ACL SETUSER [^`\n]*").FindAllString(strings.ReplaceAll(string(page), `\|`, "|"), -1)
	if len(lines) != 6 {
		t.Fatalf("docs/redis.md has the lines %q, want six", lines)
	}
	for _, line := range lines {
		var words []any
		for word := range strings.FieldsSeq(line) {
			words = append(words, word)
		}
		all = append(all, words)
	}
	return all
}

// service connects as the documented user.
func service(options *redis.Options) { options.Username, options.Password = "payments", "secret" }

// Case 49: TestConformance is run with the rights of a service. These are the rights for WaitReplicas, the warning and a
// cluster.
func TestDocumentedRightsOfSettings(t *testing.T) {
	t.Parallel()
	lines := documentedLines(t)
	rights, replicas, cluster, warning := lines[0], lines[1], lines[2], lines[3]
	serves := func(t *testing.T, client redis.UniversalClient, options ...redisstore.Option) {
		t.Helper()
		store := redisstore.New(client, options...)
		must(t, store.Check(t.Context()))
		for n := range 20 {
			lease := win(t, store, claim(fmt.Sprint(n)))
			must(t, store.Complete(t.Context(), lease, result("answer")))
			must(t, store.Complete(t.Context(), lease, result("answer")))
			find(t, store, claim(fmt.Sprint(n)))
		}
		testkit.Equal(t, len(listAll(t, store, storage.Completed, 100)), 20, "records that are listed")
	}
	t.Run("WaitReplicas", func(t *testing.T) {
		t.Parallel()
		r := startReplicated(t)
		must(t, r.rdb.Do(t.Context(), rights...).Err())
		must(t, r.rdb.Do(t.Context(), replicas...).Err())
		serves(t, connect(t, r.master, service), redisstore.WaitReplicas(1, late))
	})
	t.Run("the warning", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		admin := connect(t, server, nil)
		must(t, admin.Do(t.Context(), rights...).Err())
		must(t, admin.Do(t.Context(), warning...).Err())
		rdb := connect(t, server, service)
		serves(t, rdb)
		must(t, rdb.ConfigGet(t.Context(), "maxmemory*").Err())
	})
	t.Run("a client's settings", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		admin := connect(t, server, nil)
		must(t, admin.Do(t.Context(), rights...).Err())
		own := func(options *redis.Options) {
			service(options)
			options.DB, options.ClientName = 5, "pod-1"
		}
		err := redisstore.New(connect(t, server, own)).Check(t.Context())
		fails(t, "Check", err, storage.ErrStoreForbidden, "no connection: NOPERM")
		must(t, admin.Do(t.Context(), documentedLines(t)[5]...).Err())
		serves(t, connect(t, server, own))
	})
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.StartCluster(t, 3, 0)
		for _, node := range nodes.Nodes() {
			admin := connect(t, node, nil)
			must(t, admin.Do(t.Context(), rights...).Err())
			must(t, admin.Do(t.Context(), cluster...).Err())
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs(), Username: "payments", Password: "secret"})
		t.Cleanup(func() { client.Close() })
		serves(t, client)
		for _, node := range nodes.Nodes() { // a client that is refused COMMAND asks for it before each command
			stats := connect(t, node, nil).Info(t.Context(), "commandstats").Val()
			testkit.Equal(t, regexp.MustCompile(`cmdstat_command:\S*rejected_calls=[1-9]\d*`).FindString(stats), "", "a server counts")
		}
	})
}
