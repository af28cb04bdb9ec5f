package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/policy"
)

const (
	oursFirst       = "oncekey: first"
	oursReplay      = "oncekey: replay"
	tutorialFirst   = "tutorial, SET NX first: first"
	tutorialReplay  = "tutorial, SET NX first: replay"
	byHandFirst     = "by hand: first"
	byHandReplay    = "by hand: replay"
	bareServiceName = "bare"
)

// maker makes a handler without known keys.
type maker func(context.Context) (http.Handler, error)

// same returns one handler each time.
func same(handler http.Handler) maker {
	return func(context.Context) (http.Handler, error) { return handler, nil }
}

// service is a handler of payments, for one kind of request.
type service struct {
	name   string
	fresh  maker // called before each slice of first-time requests, and once for replays
	replay bool
}

// both are the services of a guard.
func both(name string, first, replay maker) []service {
	return []service{{name: name + ": first", fresh: first}, {name: name + ": replay", fresh: replay, replay: true}}
}

var bareService = service{name: bareServiceName, fresh: same(http.HandlerFunc(pay)), replay: true}

func oursInMemory(context.Context) (http.Handler, error) { return onceKey(newMemory()) }

func byHandInMemory(context.Context) (http.Handler, error) { return byHand(peers.NewHandMap()), nil }

func byHand(store peers.HandStore) http.Handler {
	return peers.ByHand{Store: store}.Handler(http.HandlerFunc(pay))
}

func onceKey(store storage.Store) (http.Handler, error) {
	engine, err := newEngine(store)
	if err != nil {
		return nil, err
	}
	// A busy machine may stall a store for longer than by default: that is a figure, not an error. Above a second, redisstore
	// would watch each call by a goroutine.
	return engine.Handler(http.HandlerFunc(pay), policy.StoreTimeout(time.Second)), nil
}

func tutorialOn(backend peers.Backend, getFirst bool) http.Handler {
	return peers.Tutorial{Backend: backend, GetFirst: getFirst}.Handler(http.HandlerFunc(pay))
}

// redisClients are the clients of one comparison, which all its arms share: with the same
// pool and the same timeouts, and both with auto-pipelining or none.
type redisClients struct {
	steady, emptied redis.UniversalClient // two databases
	close           func()
}

func (d *databases) redisClients(pipelining bool) (redisClients, error) {
	steady, emptied := d.redisClient(0), d.redisClient(1)
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

// on makes a fresh handler over one of the clients. It empties the database of first-time arms.
func (c redisClients) on(client redis.UniversalClient, handler func(redis.UniversalClient) (http.Handler, error)) maker {
	return func(ctx context.Context) (http.Handler, error) {
		if err := c.emptied.FlushDB(ctx).Err(); err != nil {
			return nil, err
		}
		return handler(client)
	}
}

func (c redisClients) both(name string, handler func(redis.UniversalClient) (http.Handler, error)) []service {
	return both(name, c.on(c.emptied, handler), c.on(c.steady, handler))
}

func onceKeyOnRedis(client redis.UniversalClient) (http.Handler, error) {
	return onceKey(redisstore.New(client))
}

func byHandOnRedis(client redis.UniversalClient) (http.Handler, error) {
	return byHand(peers.HandRedis{Client: client}), nil
}

// backend is a place for records, with the services that keep them there.
type backend struct {
	name       string // of the comparison, with a verb for the number of callers
	callers    []int
	processors int                  // zero: all
	server     func() time.Duration // nil: none
	services   []service
}

// opener makes an arm of a service with so many callers. The arm needs no service after end.
type opener func(ctx context.Context, v service, callers int) (arm harness.Arm, end func(), err error)

// compareServices compares the services of a backend for each number of callers.
func (s *suite) compareServices(ctx context.Context, section *report.Section, on backend, open opener, ratios ...column) error {
	for _, callers := range on.callers {
		arms, end, err := openAll(ctx, on.services, open, callers)
		if err == nil {
			plan, columns := s.plan(on.processors), []column{rateColumn, p50Column, p99Column, cpuColumn}
			if plan.Server = on.server; plan.Server != nil {
				columns = append(columns, serverColumn)
				if callers >= 64 {
					plan.Slice *= 4 // several turns for each caller
				}
			}
			err = s.compare(ctx, section, comparison{fmt.Sprintf(on.name, callers), plan, arms, append(columns, ratios...)})
		}
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// openAll opens each service, until end.
func openAll(ctx context.Context, services []service, open opener, callers int) (arms []harness.Arm, end func(), err error) {
	var ends []func()
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, service := range services {
		arm, endService, err := open(ctx, service, callers)
		ends = append(ends, endService)
		if err != nil {
			return nil, end, fmt.Errorf("%s: %w", service.name, err)
		}
		arms = append(arms, arm)
	}
	return arms, end, nil
}

// called calls the service's handler in this process. Replays are of many keys in turn,
// because a store may join calls with one key.
func called(ctx context.Context, v service, callers int) (arm harness.Arm, end func(), err error) {
	senders := make([]*exchange, callers)
	renew := func() error {
		handler, err := v.fresh(ctx)
		for i := range senders {
			if err == nil {
				senders[i], err = newExchange(ctx, handler)
			}
		}
		return err
	}
	var keys []string
	arm = harness.Timed(v.name, callers, func(i int) error { return senders[i%callers].send(keys[i%len(keys)]) })
	if !v.replay {
		arm.Most = 1 << 16
		arm.Prepare = func(n int) error { keys = newKeys(n); return renew() }
		return arm, func() {}, nil
	}
	if err := renew(); err != nil {
		return arm, func() {}, err
	}
	keys = newKeys(max(256, 4*callers))
	return arm, func() {}, harness.Parallel(callers, len(keys), func(caller, i int) error { return senders[caller].send(keys[i]) })
}

// served serves the service over HTTP. Each connection sends one request after another. With
// a time between requests they are sent at that rate instead, as connections become free.
func served(every time.Duration) opener {
	return func(ctx context.Context, v service, connections int) (arm harness.Arm, end func(), err error) {
		server, err := serve(ctx)
		if err != nil {
			return arm, func() {}, err
		}
		client, err := load.Dial(ctx, server.address, connections, payload)
		if err != nil {
			return arm, server.stop, err
		}
		end = func() { client.Close(); server.stop() }
		renew := func(int) error {
			handler, err := v.fresh(ctx)
			server.handler.Store(&handler)
			return err
		}
		known := sequence.Add(1)
		var took []float64
		run := func(n int) (err error) {
			first := sequence.Add(uint64(n)) - uint64(n) + 1
			took, err = client.Send(every, n, http.StatusCreated, func(i int, into []byte) {
				if v.replay {
					putKey(known, into)
				} else {
					putKey(first+uint64(i), into)
				}
			})
			return err
		}
		arm = harness.Arm{Name: v.name, Least: harness.TurnsOfWorkers * connections, Most: 1 << 17, Took: func() []float64 { return took }, Run: run}
		if !v.replay {
			arm.Prepare = renew
			return arm, end, nil
		}
		if err := renew(1); err != nil {
			return arm, end, err
		}
		return arm, end, run(1)
	}
}

// server serves its current handler.
type server struct {
	address string
	handler atomic.Pointer[http.Handler]
	close   func() error
	ended   chan struct{}
}

// serve starts a server on a free loopback port. The function stop ends the server.
func serve(ctx context.Context) (*server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{address: listener.Addr().String(), ended: make(chan struct{})}
	// A connection may wait minutes for its first request.
	serving := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*s.handler.Load()).ServeHTTP(w, r)
	})}
	s.close = serving.Close
	go func() {
		defer close(s.ended)
		_ = serving.Serve(listener) // until stop
	}()
	return s, nil
}

// stop ends the server, after its clients have disconnected.
func (s *server) stop() {
	_ = s.close()
	<-s.ended
}
