package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// loopback measures requests over HTTP.
func loopback(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Over loopback HTTP",
		Text: []string{
			"Connections that send one request after another, from a client in the same process; the client's part " +
				"of CPU and bytes is included, and the same in all arms. The in-memory arms have GOMAXPROCS(1), the Redis arms all processors, " +
				"and all arms of a table the same Redis client with the same settings. A ratio is in requests per second to bare, and fiber's, " +
				"on fasthttp's server, to fiber's own bare. *SET NX first* and *GET first* are the two shapes of tutorials: two round trips for " +
				"each request, or three for the first and one for a replay. " +
				byHandText + " *Floor* is the bare handler and the commands of a claim and a settlement by its token, with values as large as oncekey's. " +
				"*Memory before Redis* is tieredstore with a memstore before redisstore.",
		},
	}
	if err := s.compareServices(ctx, &section, inMemoryServices(), nil); err != nil || s.redis == nil {
		return section, err
	}
	for _, on := range []backend{{name: onRedisName, callers: []int{16}}, {name: pipelinedName, callers: []int{256}}} {
		clients, err := s.redisClients(on.name == pipelinedName)
		if err == nil {
			on.services = onRedisServices(clients)
			err = s.compareServices(ctx, &section, on, s.redis.ProcessorTime)
		}
		clients.close()
		if err != nil {
			return section, err
		}
	}
	return section, nil
}

// compareServices compares the services of a backend at each concurrency.
func (s *suite) compareServices(ctx context.Context, section *report.Section, on backend, server func() time.Duration) error {
	columns := []column{rateColumn, p50Column, p99Column, cpuColumn, bytesColumn, speedColumn("x bare", bareService)}
	if server != nil {
		columns = slices.Insert(columns, 4, serverColumn)
	}
	for _, connections := range on.callers {
		arms, end, err := serviceArms(ctx, on.services, connections)
		if err == nil {
			plan := s.plan(on.processors)
			plan.Server = server
			err = s.compare(ctx, section, comparison{fmt.Sprintf(on.name, connections), plan, arms, columns})
		}
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// bareService returns the bare arm of the same server.
func bareService(arm string) string {
	if strings.HasPrefix(arm, "fiber") {
		return "fiber v3: bare"
	}
	return bareServiceName
}

// serviceArms serves and loads each service, until end. See service.arm.
func serviceArms(ctx context.Context, services []service, connections int) (arms []harness.Arm, end func(), err error) {
	var ends []func()
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, service := range services {
		arm, endService, err := service.arm(ctx, connections)
		ends = append(ends, endService)
		if err != nil {
			return nil, end, fmt.Errorf("%s: %w", service.name, err)
		}
		arms = append(arms, arm)
	}
	return arms, end, nil
}

// service is a server of payments.
type service struct {
	name string
	// fresh makes a handler without known keys. It is called before each slice of a
	// first-time arm, and once for the others.
	fresh  func(context.Context) (http.Handler, error)
	replay bool

	app     fasthttp.RequestHandler // fiber's application, instead of a fresh handler
	storage *peers.Storage          // the application's stored responses
}

// renew gives the server a handler without known keys.
func (v service) renew(ctx context.Context, to *server) error {
	if v.app != nil {
		return v.storage.Reset()
	}
	handler, err := v.fresh(ctx)
	to.handler.Store(&handler)
	return err
}

// arm serves and loads the service. Each connection sends one request after another.
func (v service) arm(ctx context.Context, connections int) (arm harness.Arm, end func(), err error) {
	server, err := serve(ctx, v.app)
	if err != nil {
		return harness.Arm{}, func() {}, err
	}
	client, err := load.Dial(ctx, server.address, connections, payload)
	if err != nil {
		return harness.Arm{}, server.stop, err
	}
	end = func() { client.Close(); server.stop() }
	keys := v.keys()
	var took []float64
	arm = harness.Arm{Name: v.name, Least: harness.TurnsOfWorkers * connections, Most: 1 << 17, Took: func() []float64 { return took }, Run: func(n int) (err error) {
		took, err = client.Send(n, http.StatusCreated, keys(n))
		return err
	}}
	if !v.replay {
		arm.Prepare = func(int) error { return v.renew(ctx, server) }
		return arm, end, nil
	}
	if err := v.renew(ctx, server); err != nil {
		return arm, end, err
	}
	_, err = client.Send(1, http.StatusCreated, keys(1))
	return arm, end, err
}

// keys returns a function that makes the keys of n requests: new ones, or the same one for
// all replays.
func (v service) keys() func(n int) func(i int, into []byte) {
	known := sequence.Add(1)
	return func(n int) func(int, []byte) {
		first := sequence.Add(uint64(n)) - uint64(n) + 1
		return func(i int, into []byte) {
			if v.replay {
				putKey(known, into)
			} else {
				putKey(first+uint64(i), into)
			}
		}
	}
}
