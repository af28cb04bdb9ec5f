package main

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
)

// backend is a place for records, with the services that keep them there.
type backend struct {
	name       string // of the comparison, with a verb for the number of connections or callers
	callers    []int
	processors int // zero: all
	services   []service
}

const (
	inMemoryName    = "In memory, %d connections"
	onRedisName     = "On Redis, %d connections"
	pipelinedName   = "On Redis, %d connections, auto-pipelining"
	oursFirst       = "oncekey: first"
	oursReplay      = "oncekey: replay"
	tutorialFirst   = "tutorial, SET NX first: first"
	tutorialReplay  = "tutorial, SET NX first: replay"
	bareServiceName = "bare"
	byHandFirst     = "by hand: first"
	byHandReplay    = "by hand: replay"
	floorFirst      = "floor: first"
	floorReplay     = "floor: replay"
)

func inMemoryServices() backend {
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	tutorial := func(fingerprint bool) func(context.Context) (http.Handler, error) {
		return func(context.Context) (http.Handler, error) {
			return peers.Tutorial{Backend: peers.NewMap(), Fingerprint: fingerprint}.Handler(http.HandlerFunc(pay)), nil
		}
	}
	steady, emptied := peers.NewStorage(), peers.NewStorage()
	return backend{inMemoryName, []int{16, 64}, 1, []service{
		{name: bareServiceName, fresh: barePay, replay: true},
		{name: byHandFirst, fresh: byHandInMemory},
		{name: byHandReplay, fresh: byHandInMemory, replay: true},
		{name: oursFirst, fresh: ours},
		{name: oursReplay, fresh: ours, replay: true},
		{name: "tutorial: first", fresh: tutorial(false)},
		{name: "tutorial: replay", fresh: tutorial(false), replay: true},
		{name: "tutorial with fingerprint: first", fresh: tutorial(true)},
		{name: "tutorial with fingerprint: replay", fresh: tutorial(true), replay: true},
		{name: "fiber v3: bare", app: peers.Fiber3(nil, response), storage: peers.NewStorage(), replay: true},
		{name: "fiber v3: first", app: peers.Fiber3(emptied, response), storage: emptied},
		{name: "fiber v3: replay", app: peers.Fiber3(steady, response), storage: steady, replay: true},
	}}
}

func byHand(store peers.HandStore) http.Handler {
	return peers.ByHand{Store: store}.Handler(http.HandlerFunc(pay))
}

func byHandInMemory(context.Context) (http.Handler, error) { return byHand(peers.NewHandMap()), nil }

func byHandOnRedis(client redis.UniversalClient) (http.Handler, error) {
	return byHand(peers.HandRedis{Client: client}), nil
}

// floorOnRedis is the bare handler and the commands without which no key is claimed and settled,
// with values as large as those of redisstore for the same request. It reads no body and keeps no response.
func floorOnRedis(client redis.UniversalClient) (http.Handler, error) {
	const head, claimSize, recordSize = 52, 123, 519
	store := peers.HandRedis{Client: client}
	claim := peers.HandRecord{Token: storage.NewToken(), Body: make([]byte, claimSize-head)}
	record := peers.HandRecord{Token: claim.Token, Status: http.StatusCreated, Body: make([]byte, recordSize-head)}
	return least(func(ctx context.Context, key string) error {
		found, err := store.Claim(ctx, key, claim)
		if err == nil && found == nil {
			err = store.Settle(ctx, key, record)
		}
		return err
	}), nil
}

func barePay(context.Context) (http.Handler, error) { return http.HandlerFunc(pay), nil }

func onceKey(store storage.Store) (http.Handler, error) {
	engine, err := newEngine(store)
	if err != nil {
		return nil, err
	}
	return engine.Handler(http.HandlerFunc(pay)), nil
}

func onceKeyOnRedis(client redis.UniversalClient) (http.Handler, error) {
	return onceKey(redisstore.New(client))
}

// onRedisServices share the two clients. The database of first-time arms is emptied before
// each slice.
func onRedisServices(clients redisClients) []service {
	on := clients.on
	cached := func(client redis.UniversalClient) (http.Handler, error) {
		return onceKey(tieredstore.New(newMemory(), redisstore.New(client), tieredstore.HotTimeout(time.Second)))
	}
	tutorial := func(getFirst bool) func(redis.UniversalClient) (http.Handler, error) {
		return func(client redis.UniversalClient) (http.Handler, error) {
			return peers.Tutorial{Backend: peers.Redis{Client: client}, GetFirst: getFirst}.Handler(http.HandlerFunc(pay)), nil
		}
	}
	return []service{
		{name: bareServiceName, fresh: barePay, replay: true},
		{name: oursFirst, fresh: on(clients.emptied, onceKeyOnRedis)},
		{name: oursReplay, fresh: on(clients.steady, onceKeyOnRedis), replay: true},
		{name: tutorialFirst, fresh: on(clients.emptied, tutorial(false))},
		{name: tutorialReplay, fresh: on(clients.steady, tutorial(false)), replay: true},
		{name: byHandFirst, fresh: on(clients.emptied, byHandOnRedis)},
		{name: byHandReplay, fresh: on(clients.steady, byHandOnRedis), replay: true},
		{name: floorFirst, fresh: on(clients.emptied, floorOnRedis)},
		{name: floorReplay, fresh: on(clients.steady, floorOnRedis), replay: true},
		{name: "tutorial, GET first: first", fresh: on(clients.emptied, tutorial(true))},
		{name: "tutorial, GET first: replay", fresh: on(clients.steady, tutorial(true)), replay: true},
		{name: "oncekey, memory before Redis: replay", fresh: on(clients.steady, cached), replay: true},
	}
}

// redisClients are the clients of one comparison, which all its arms share: with the same
// pool and the same timeouts, and both with auto-pipelining or none.
type redisClients struct {
	steady, emptied redis.UniversalClient // two databases
	close           func()
}

// on makes a fresh handler over one of the clients. It empties the database of first-time arms.
func (c redisClients) on(client redis.UniversalClient, handler func(redis.UniversalClient) (http.Handler, error)) func(context.Context) (http.Handler, error) {
	return func(ctx context.Context) (http.Handler, error) {
		if err := c.emptied.FlushDB(ctx).Err(); err != nil {
			return nil, err
		}
		return handler(client)
	}
}

func (s *suite) redisClients(pipelining bool) (redisClients, error) {
	steady, emptied := s.redisClient(0), s.redisClient(1)
	clients := redisClients{steady, emptied, func() { steady.Close(); emptied.Close() }}
	if !pipelining {
		return clients, nil
	}
	pipe, err := steady.AutoPipeline()
	if err != nil {
		return clients, err
	}
	pipeEmptied, err := emptied.AutoPipeline()
	clients.steady, clients.emptied = pipe, pipeEmptied
	return clients, err
}

// redisClient has a connection for each concurrent request of a pooled comparison.
func (s *suite) redisClient(database int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.redis.Addr, DB: database, ContextTimeoutEnabled: true, PoolSize: 160, DialTimeout: 10 * time.Second,
	})
}
