package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	inMemoryName  = "In memory, %d connections"
	onRedisName   = "On Redis, %d connections"
	pipelinedName = "On Redis, %d connections, auto-pipelining"
)

// loopback measures requests per second over loopback HTTP.
func loopback(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Over loopback HTTP",
		Text: []string{
			"Connections that send one request after another, from a client in the same process; the client's part " +
				"of CPU is included, and the same in all arms. The in-memory arms have GOMAXPROCS(1), the Redis arms all processors, " +
				"and all arms of a table the same Redis client with the same settings. A ratio is in requests per second to bare. " +
				"*SET NX first* and *GET first* are the two shapes of tutorials: two round trips for " +
				"each request, or three for the first and one for a replay. " +
				byHandText + " *Memory before Redis* is tieredstore with a memstore before redisstore.",
		},
	}
	ratio := speedColumn("x bare", arm(bareServiceName))
	inMemory := backend{name: inMemoryName, callers: []int{16, 64}, processors: 1, services: inMemoryServices()}
	if err := s.compareServices(ctx, &section, inMemory, served(0), ratio); err != nil || s.redis == nil {
		return section, err
	}
	for _, on := range []backend{{name: onRedisName, callers: []int{16}}, {name: pipelinedName, callers: []int{256}}} {
		clients, err := s.redisClients(on.name == pipelinedName)
		if err == nil {
			on.services, on.server = onRedisServices(clients), s.redis.ProcessorTime
			err = s.compareServices(ctx, &section, on, served(0), ratio)
		}
		clients.close()
		if err != nil {
			return section, err
		}
	}
	return section, nil
}

func inMemoryServices() []service {
	tutorial := func(context.Context) (http.Handler, error) { return tutorialOn(peers.NewMap(), false), nil }
	all := append([]service{bareService}, both("by hand", byHandInMemory, byHandInMemory)...)
	all = append(all, both("oncekey", oursInMemory, oursInMemory)...)
	return append(all, both("tutorial", tutorial, tutorial)...)
}

// onRedisServices share the two clients. The database of first-time arms is emptied before
// each slice.
func onRedisServices(clients redisClients) []service {
	cached := func(client redis.UniversalClient) (http.Handler, error) {
		return onceKey(tieredstore.New(newMemory(), redisstore.New(client), tieredstore.HotTimeout(time.Second)))
	}
	tutorial := func(getFirst bool) func(redis.UniversalClient) (http.Handler, error) {
		return func(client redis.UniversalClient) (http.Handler, error) {
			return tutorialOn(peers.Redis{Client: client}, getFirst), nil
		}
	}
	all := append([]service{bareService}, clients.both("oncekey", onceKeyOnRedis)...)
	all = append(all, clients.both("tutorial, SET NX first", tutorial(false))...)
	all = append(all, clients.both("by hand", byHandOnRedis)...)
	all = append(all, clients.both("tutorial, GET first", tutorial(true))...)
	return append(all, service{name: "oncekey, memory before Redis: replay", fresh: clients.on(clients.steady, cached), replay: true})
}

const (
	// openShare is the part of the guarded service's own peak at which requests arrive.
	openShare = 0.6
	// openConnections is more than are busy at once at this rate, except in a stall.
	openConnections = 64
)

func openName(kind string) string { return "Open loop, " + kind + ", %d connections" }

func openComparison(kind string) string { return fmt.Sprintf(openName(kind), openConnections) }

// openLoop measures latencies at a fixed arrival rate.
func openLoop(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Latency at a fixed arrival rate",
		Text: []string{
			"Requests over loopback HTTP, records in memory. Requests are due at fixed times, whether or not the service keeps up, " +
				"and a latency begins when its request was due: a stall counts for every request that it delays (no coordinated omission). " +
				"Client and service share a process, and the latencies of all rounds are pooled before the quantile is taken. " +
				fmt.Sprintf("The rate is %.0f %% of that which the guarded service reached in a closed loop just before.", 100*openShare),
		},
	}
	theirs, oncekey := both("by hand", byHandInMemory, byHandInMemory), both("oncekey", oursInMemory, oursInMemory)
	for kind, ours := range oncekey {
		every, err := s.peak(ctx, ours)
		if err != nil {
			return section, err
		}
		every = time.Duration(float64(every) / openShare)
		err = s.compareServices(ctx, &section, backend{name: openName(ours.name), callers: []int{openConnections}, services: []service{bareService, theirs[kind], ours}},
			served(every), pooledColumn("pooled p50 x bare", 0.5), pooledColumn("pooled p99 x bare", 0.99))
		if err != nil {
			return section, err
		}
	}
	return section, nil
}

// peak is the time between the requests of a service in a closed loop.
func (s *suite) peak(ctx context.Context, of service) (time.Duration, error) {
	arm, end, err := served(0)(ctx, of, openConnections)
	defer end()
	if err != nil {
		return 0, err
	}
	c, err := harness.Compare(ctx, s.plan(0), []harness.Arm{arm})
	if err != nil {
		return 0, err
	}
	return time.Duration(c.Median(of.name).Time), nil
}

func pooledColumn(head string, q float64) column {
	return column{head, func(c *harness.Comparison, arm string) string {
		if arm == bareServiceName || !c.Has(arm, bareServiceName) {
			return ""
		}
		return report.Interval(c.PooledRatio(q, arm, bareServiceName))
	}}
}
