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

func inMemoryServices(context.Context, *suite) (name string, processors int, services []service, end func(), err error) {
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	plain := func(context.Context) (http.Handler, error) {
		return peers.Tutorial(peers.NewMap(), http.HandlerFunc(pay), false), nil
	}
	printing := func(context.Context) (http.Handler, error) {
		return peers.Tutorial(peers.NewMap(), http.HandlerFunc(pay), true), nil
	}
	steady, emptied := peers.NewStorage(), peers.NewStorage()
	return "In memory", 1, []service{
		{name: "bare", fresh: barePay, replay: true},
		{name: "oncekey in memory: first", fresh: ours},
		{name: "oncekey in memory: replay", fresh: ours, replay: true},
		{name: "tutorial in memory: first", fresh: plain},
		{name: "tutorial in memory: replay", fresh: plain, replay: true},
		{name: "tutorial with fingerprint in memory: first", fresh: printing},
		{name: "tutorial with fingerprint in memory: replay", fresh: printing, replay: true},
		{name: "fiber v3: bare", app: peers.Fiber3(nil, answer), storage: peers.NewStorage(), replay: true},
		{name: "fiber v3: first", app: peers.Fiber3(emptied, answer), storage: emptied},
		{name: "fiber v3: replay", app: peers.Fiber3(steady, answer), storage: steady, replay: true},
	}, func() {}, nil
}

func barePay(context.Context) (http.Handler, error) { return http.HandlerFunc(pay), nil }

func onceKey(store storage.Store) (http.Handler, error) {
	engine, err := newEngine(store)
	if err != nil {
		return nil, err
	}
	return engine.Handler(http.HandlerFunc(pay)), nil
}

// onRedisServices has one client for each use of Redis, all with equal settings. It empties
// the database of first-time arms before each slice.
func onRedisServices(_ context.Context, s *suite) (name string, processors int, services []service, end func(), err error) {
	if s.redis == nil {
		return "", 0, nil, func() {}, nil
	}
	steady, emptied := s.redisClient(0), s.redisClient(1)
	pipelining, pipeliningEmptied := s.redisClient(0), s.redisClient(1)
	end = func() {
		for _, client := range []*redis.Client{steady, emptied, pipelining, pipeliningEmptied} {
			client.Close()
		}
	}
	pipe, err := pipelining.AutoPipeline()
	if err != nil {
		return "", 0, nil, end, err
	}
	pipeEmptied, err := pipeliningEmptied.AutoPipeline()
	if err != nil {
		return "", 0, nil, end, err
	}
	on := func(handler func() (http.Handler, error)) func(context.Context) (http.Handler, error) {
		return func(ctx context.Context) (http.Handler, error) {
			if err := emptied.FlushDB(ctx).Err(); err != nil {
				return nil, err
			}
			return handler()
		}
	}
	ours := func(client redis.UniversalClient) func(context.Context) (http.Handler, error) {
		return on(func() (http.Handler, error) { return onceKey(redisstore.New(client)) })
	}
	tutorial := func(client *redis.Client) func(context.Context) (http.Handler, error) {
		return on(func() (http.Handler, error) {
			return peers.Tutorial(peers.Redis{Client: client}, http.HandlerFunc(pay), false), nil
		})
	}
	cached := on(func() (http.Handler, error) {
		return onceKey(tieredstore.New(newMemory(), redisstore.New(steady), tieredstore.HotTimeout(time.Second)))
	})
	return "On Redis", 0, []service{
		{name: "bare", fresh: barePay, replay: true},
		{name: "oncekey on Redis: first", fresh: ours(emptied)},
		{name: "oncekey on Redis: replay", fresh: ours(steady), replay: true},
		{name: "tutorial on Redis: first", fresh: tutorial(emptied)},
		{name: "tutorial on Redis: replay", fresh: tutorial(steady), replay: true},
		{name: "oncekey, auto-pipelining: first", fresh: ours(pipeEmptied), least: pipelined},
		{name: "oncekey, auto-pipelining: replay", fresh: ours(pipe), replay: true, least: pipelined},
		{name: "oncekey, memory before Redis: replay", fresh: cached, replay: true},
	}, end, nil
}

// redisClient has a connection for each concurrent request.
func (s *suite) redisClient(database int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.redis.Addr, DB: database, ContextTimeoutEnabled: true, PoolSize: 160, DialTimeout: 10 * time.Second,
	})
}
