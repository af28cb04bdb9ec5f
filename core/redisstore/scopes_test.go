package redisstore_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 49: the counts of scopes need the rights that docs/redis.md names, and no others.
func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	rights, more := documentedLines(t)[0], documentedLines(t)[4]
	server := redistest.Start(t)
	admin := connect(t, server, nil)
	must(t, admin.Do(t.Context(), rights...).Err())
	_, err := redisstore.New(connect(t, server, service)).Admit(t.Context(), aPlace(), time.Minute, oneKey)
	fails(t, "without the rights Admit", err, storage.ErrStoreForbidden)
	must(t, admin.Do(t.Context(), more...).Err())
	t.Run("serve", func(t *testing.T) { limits(t, connect(t, server, service)) })
	if t.Failed() {
		return
	}
	eachIsUsed(t, admin, more)
}

// Ready names each right that a limit of scopes needs and the user lacks, before the first request. Without a limit the store
// needs none of them, and trying them leaves no key.
func TestCheckOfTheRightsOfALimit(t *testing.T) {
	t.Parallel()
	rights, more := documentedLines(t)[0], documentedLines(t)[4]
	server := redistest.Start(t)
	admin := connect(t, server, nil)
	must(t, admin.Do(t.Context(), rights...).Err())
	unlimited := redisstore.New(connect(t, server, service))
	limited := redisstore.New(connect(t, server, service))
	engine, err := core.New(limited, core.SharedScope, core.WithScopeLimit(core.ScopeLimit{PerMinute: 1}))
	must(t, err)
	must(t, unlimited.Check(t.Context()))
	must(t, admin.Do(t.Context(), more...).Err())
	must(t, engine.Ready(t.Context()))
	for _, word := range more {
		granted, is := strings.CutPrefix(word.(string), "+")
		if !is {
			continue
		}
		must(t, admin.Do(t.Context(), "acl", "setuser", "payments", "-"+granted).Err())
		err := engine.Ready(t.Context())
		if !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), "refuses "+strings.ToUpper(granted)+":") {
			t.Errorf("without %s Ready returned %v", granted, err)
		}
		must(t, unlimited.Check(t.Context()))
		must(t, admin.Do(t.Context(), "acl", "setuser", "payments", "+"+granted).Err())
	}
	must(t, engine.Ready(t.Context()))
	if names := namesIn(t, admin); len(names) > 0 {
		t.Errorf("trying the rights has left the keys %v", names)
	}
}

// A process without the rights of its limit claims no key. The claim of a key that is not
// admitted has to be given back, and a busy process leaves most of them until their leases end.
func TestClaimWithoutTheRightsOfALimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := connect(t, server, nil)
	must(t, admin.Do(t.Context(), documentedLines(t)[0]...).Err())
	store := redisstore.New(connect(t, server, service))
	_, err := core.New(store, core.SharedScope, core.WithScopeLimit(core.ScopeLimit{PerMinute: 1}))
	must(t, err)
	refused(t, store, claim("key"), storage.ErrStoreForbidden)
	if names := namesIn(t, admin); len(names) > 0 {
		t.Errorf("the claim has left the keys %v", names)
	}
	must(t, admin.Do(t.Context(), documentedLines(t)[4]...).Err())
	_, _, err = store.Acquire(t.Context(), claim("key"))
	must(t, err)
}

// On a cluster both keys of a scope are in one slot, and two processes share the counts.
func TestLimiterConformanceOnACluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	limits(t, cluster)
	checked := redisstore.New(cluster)
	if !storage.Limits(checked) {
		t.Error("the store does not count")
	}
	must(t, checked.Check(t.Context()))
	for scope := range 20 {
		place := storage.Place{Scope: fmt.Sprintf("%064x", scope), Token: storage.NewToken()}
		for _, store := range []*redisstore.Store{redisstore.New(cluster), redisstore.New(cluster)} {
			_, err := store.Admit(t.Context(), place, time.Minute, oneKey)
			must(t, err)
			place.Token = storage.NewToken()
		}
		if got, err := redisstore.New(cluster).Admit(t.Context(), place, time.Minute, oneKey); err != nil || got.Reached != storage.ReachedInFlight {
			t.Errorf("a third process got %+v, %v", got, err)
		}
	}
}

func TestLimiterConformanceOnAutoPipeline(t *testing.T) {
	t.Parallel()
	limits(t, pipelined(t, connect(t, redistest.Start(t), nil)))
}

// limits runs the suite. Each case has a prefix of its own.
func limits(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	var cases atomic.Int32
	storetest.RunLimiter(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			return redisstore.New(client, redisstore.Prefix(fmt.Sprintf("oncekey:scope%d:", cases.Add(1))))
		},
		Unit: 600 * time.Millisecond,
	})
}

var oneKey = storage.ScopeLimit{InFlight: 1, NewKeys: 1, Window: time.Minute}

func aPlace() storage.Place {
	return storage.Place{Scope: strings.Repeat("a", 64), Token: storage.NewToken()}
}

// The keys of a scope expire with its last place and with its window, and each call is one round
// trip.
func TestKeysOfScopesExpire(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store, p := redisstore.New(rdb), aPlace()
	limit := storage.ScopeLimit{InFlight: 2, NewKeys: 2, Window: time.Minute}
	admit := func(p storage.Place, ttl time.Duration) {
		t.Helper()
		_, err := store.Admit(t.Context(), p, ttl, limit)
		must(t, err)
	}
	admit(p, time.Hour)
	must(t, store.Keep(t.Context(), p, time.Hour)) // loads the scripts
	trips := countTrips(rdb)
	admit(aPlace(), time.Second)
	must(t, store.Keep(t.Context(), p, time.Hour))
	testkit.Equal(t, trips.Load(), 2, "round trips of two calls")
	left := map[string]time.Duration{}
	for _, key := range namesIn(t, rdb) {
		left[regexp.MustCompile("[a-z]+$").FindString(key)] = rdb.PTTL(t.Context(), key).Val()
		if !strings.HasPrefix(key, redisstore.DefaultPrefix+"{") {
			t.Errorf("the key %s is not within the rights of a user", key)
		}
	}
	if places, window := left["places"], left["window"]; len(left) != 2 || places <= 50*time.Minute || places > time.Hour || window <= 0 || window > time.Minute {
		t.Errorf("the keys expire in %v", left)
	}
	must(t, store.Keep(t.Context(), p, 0))
	testkit.Equal(t, len(namesIn(t, rdb)), 2, "beside the window and the other place there are the keys")
}

// namesIn returns the names of the few keys of a server.
func namesIn(t *testing.T, rdb *redis.Client) (names []string) {
	t.Helper()
	names, _, err := rdb.Scan(t.Context(), 0, "*", 1000).Result()
	must(t, err)
	return names
}

// A prefix with half a brace would put the two keys of a scope into two slots.
func TestScopesRefuseABrace(t *testing.T) {
	t.Parallel()
	store := redisstore.New(connect(t, redistest.Start(t), nil), redisstore.Prefix("a}"))
	if _, err := store.Admit(t.Context(), aPlace(), time.Minute, oneKey); err == nil || !strings.Contains(err.Error(), "want a Prefix without braces") {
		t.Errorf("Admit returned %v", err)
	}
	must(t, store.Check(t.Context()))
	if !storage.Limits(store) || store.Check(t.Context()) == nil {
		t.Error("Check of a store that is to count returned nil")
	}
	tagged := redisstore.New(connect(t, redistest.Start(t), nil), redisstore.Prefix("{s}:"))
	if _, err := tagged.Admit(t.Context(), aPlace(), time.Minute, oneKey); err != nil {
		t.Error(err)
	}
}
