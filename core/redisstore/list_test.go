package redisstore_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// A list neither stops at values that are no records nor hides them.
func TestListSkipsForeignValues(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	var log bytes.Buffer
	store := redisstore.New(rdb, redisstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	foreign(t, rdb, store)
	must(t, rdb.Set(t.Context(), "oncekey:empty", "", 0).Err())
	win(t, store, claim("ours"))
	if listed := listAll(t, store, storage.InProgress, 1000); len(listed) != 1 || listed["ours"] == nil {
		t.Errorf("the list is %v, want our key alone", listed)
	}
	if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "count=5") || !strings.Contains(said, "oncekey:") {
		t.Errorf("the log says %q, want a warning that counts 5 values", said)
	}
}

// Only the beginning of a record is read, however large the record is.
func TestListReadsBeginningsOnly(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	const records = 50
	fill(t, store, records, strings.Repeat("body\n", 20_000))
	wide := result("wide")
	for range 5000 {
		wide.Header = append(wide.Header, storage.Field{Name: "X", Value: `,"headers":`})
	}
	must(t, store.Complete(t.Context(), win(t, store, claim("wide")), wide))
	before := sentBytes(t, rdb)
	listed := listAll(t, store, storage.Completed, 20)
	sent := sentBytes(t, rdb) - before
	if r := listed["wide"]; len(listed) != records+1 || r == nil || r.Status != 201 || r.Attempt != 1 || r.Body != nil || r.Header != nil {
		t.Errorf("%d records are listed, and the wide one is %+v", len(listed), r)
	}
	if sent > 2048*records {
		t.Errorf("the server has sent %d bytes, want about a kilobyte for each of %d records", sent, records)
	}
	before = sentBytes(t, rdb)
	listAll(t, store, storage.InProgress, 20)
	if sent := sentBytes(t, rdb) - before; sent > 200*records {
		t.Errorf("the server has sent %d bytes, want none of records in another state", sent)
	}
}

func sentBytes(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	stats := rdb.Info(t.Context(), "stats").Val()
	sent, err := strconv.Atoi(regexp.MustCompile(`total_net_output_bytes:(\d+)`).FindStringSubmatch(stats)[1])
	must(t, err)
	return sent
}

func TestListOfLongFingerprints(t *testing.T) {
	t.Parallel()
	_, store := start(t)
	for _, fingerprint := range []string{strings.Repeat("long", 5000), `,"headers":`, "\n,\"headers\":[]}\n", strings.Repeat(`"`, 1000)} {
		c := claim("key")
		c.Fingerprint = fingerprint
		lease := win(t, store, c)
		if r := listAll(t, store, storage.InProgress, 10)["key"]; r == nil || r.Fingerprint != fingerprint || r.LeaseLeft <= 0 {
			t.Errorf("the record is %+v, want the fingerprint %.20q", r, fingerprint)
		}
		must(t, store.Complete(t.Context(), lease, result(strings.Repeat("body", 1000))))
		if r := listAll(t, store, storage.Completed, 10)["key"]; r == nil || r.Fingerprint != fingerprint || r.Body != nil {
			t.Errorf("the record is %+v, want the fingerprint %.20q and no body", r, fingerprint)
		}
		forget(t, store, "key")
	}
}

// A prefix is no pattern, and other people's keys cost pages, not results.
func TestListKeepsToItsPrefix(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	for _, prefix := range []string{"a*c:", "a?c:", "[abc]:", `a\*:`, "abc:", ""} {
		store := redisstore.New(rdb, redisstore.Prefix(prefix))
		win(t, store, claim("of "+prefix))
	}
	for n := range 500 {
		must(t, rdb.Set(t.Context(), "somebody:"+strconv.Itoa(n), "theirs", 0).Err())
	}
	for _, prefix := range []string{"a*c:", "a?c:", "[abc]:", `a\*:`, "abc:"} {
		listed := listAll(t, redisstore.New(rdb, redisstore.Prefix(prefix)), storage.InProgress, 10)
		if len(listed) != 1 || listed["of "+prefix] == nil {
			t.Errorf("under %q are %v, want its own key", prefix, listed)
		}
	}
}

// Case 16's cluster: a list goes through all masters.
func TestListOfCluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	store := redisstore.New(cluster)
	const records = 200
	fill(t, store, records, "body")
	for _, limit := range []int{1, 7, 1000} {
		testkit.Equal(t, len(listAll(t, store, storage.Completed, limit)), records, "in pages of %d records", limit)
	}
	if r, err := store.Lookup(t.Context(), strings.Repeat("0", 64)); err != nil || r == nil {
		t.Errorf("Lookup returned %+v and %v, want the record", r, err)
	}
	listing, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	must(t, err)
	single := redisstore.New(connect(t, redistest.Start(t), nil))
	if _, err := single.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Cursor: listing.Next, Limit: 1}); err == nil || !strings.Contains(err.Error(), "not those of the first page") {
		t.Errorf("List with a cursor of other servers returned %v, want an error", err)
	}
	one := redis.NewClient(&redis.Options{Addr: cluster.Options().Addrs[0]})
	defer one.Close()
	for _, hiding := range []*redisstore.Store{redisstore.New(pipelined(t, cluster)), redisstore.New(one)} {
		if _, err := hiding.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1}); err == nil || !strings.Contains(err.Error(), "*redis.ClusterClient") {
			t.Errorf("List through a client that reaches one master returned %v, want the remedy", err)
		}
	}
}

func TestListRefusesCursors(t *testing.T) {
	t.Parallel()
	_, store := start(t)
	fill(t, store, 20, "body")
	listing, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	must(t, err)
	if listing.Next == "" {
		t.Fatal("there is no second page")
	}
	for _, wrong := range []string{"x", "!", listing.Next + "A", listing.Next[1:], listing.Next[:len(listing.Next)-1], "e30", "bnVsbA", strings.Repeat("A", 1000)} {
		if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Cursor: wrong, Limit: 1}); err == nil || !strings.Contains(err.Error(), "cursor") || len(err.Error()) > 300 {
			t.Errorf("List with the cursor %.20q returned %v, want an error", wrong, err)
		}
	}
}
