package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// concurrencies are the numbers of connections that send at once.
var concurrencies = []int{1, 16, 128}

// pipelined is the minimum number of connections for the measurement of auto-pipelining.
// With fewer connections there are no commands to send together.
const pipelined = 64

// loopback measures requests over HTTP.
func loopback(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Over loopback HTTP",
		Text: []string{
			"Connections that send one request after another, from a client in the same process; the client's part " +
				"of CPU and bytes is included, and the same in all arms. CPU is this process's alone, without Redis's. The in-memory arms " +
				"have GOMAXPROCS(1), the Redis arms all processors. A ratio is in requests per second to bare, and fiber's, on fasthttp's " +
				"server, to fiber's own bare. *Memory before Redis* is tieredstore with a memstore before redisstore.",
		},
	}
	for _, backend := range []func(context.Context, *suite) (string, int, []service, func(), error){inMemoryServices, onRedisServices} {
		name, processors, services, end, err := backend(ctx, s)
		if err == nil {
			err = s.measureServices(ctx, &section, name, processors, services)
		}
		end()
		if err != nil {
			return section, err
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		section.Notes = append(section.Notes, fmt.Sprintf("The process, all servers and the client in one, has taken at most %d MiB of memory up to here.",
			usage.Maxrss/1024))
	}
	return section, nil
}

func (s *suite) measureServices(ctx context.Context, section *report.Section, name string, processors int, services []service) error {
	for _, connections := range concurrencies {
		if len(services) == 0 {
			return nil
		}
		table, targets, err := s.loadServices(ctx, name, services, connections, processors)
		if err != nil {
			return fmt.Errorf("%s, %d connections: %w", name, connections, err)
		}
		table.Caption = fmt.Sprintf("%s, %d connections; %s", name, connections, table.Caption)
		section.Tables = append(section.Tables, table)
		section.Targets = append(section.Targets, targets...)
	}
	return nil
}

// loadServices compares the services at one concurrency.
func (s *suite) loadServices(ctx context.Context, place string, services []service, connections, processors int) (report.Table, []report.Target, error) {
	table := report.Table{Head: []string{"arm", "requests/s", "p50", "p99", "CPU a request", "bytes a request", "x bare"}}
	var arms []harness.Arm
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	latencies := make(map[string]*[]float64)
	for _, service := range services {
		if service.least > connections {
			continue
		}
		arm, took, end, err := service.arm(ctx, connections)
		ends = append(ends, end)
		if err != nil {
			return table, nil, fmt.Errorf("%s: %w", service.name, err)
		}
		arms, latencies[service.name] = append(arms, arm), took
	}
	c, err := harness.Compare(ctx, s.plan(processors), arms)
	if err != nil {
		return table, nil, err
	}
	s.summary.loopback(place, connections, c, arms)
	table.Caption = "A/A control " + report.Interval(c.Control())
	for _, arm := range arms {
		cost, took := c.Median(arm.Name), *latencies[arm.Name]
		table.Rows = append(table.Rows, []string{
			arm.Name, report.Number(float64(int(1e9 / cost.Time))),
			report.Duration(harness.Quantile(took, 0.5)), report.Duration(harness.Quantile(took, 0.99)),
			report.Duration(cost.CPU), report.Number(float64(int(cost.Bytes))), report.Interval(c.Ratio(bareService(arm.Name), arm.Name)),
		})
	}
	return table, loopbackTargets(c, arms, connections), nil
}

// bareService returns the bare arm of the same server.
func bareService(arm string) string {
	if strings.HasPrefix(arm, "fiber") {
		return "fiber v3: bare"
	}
	return "bare"
}

// loopbackTargets are the targets whose arms ran.
func loopbackTargets(c *harness.Comparison, arms []harness.Arm, connections int) []report.Target {
	ran := make(map[string]bool)
	for _, arm := range arms {
		ran[arm.Name] = true
	}
	var targets []report.Target
	for _, target := range []struct {
		connections int // zero: each number
		arm, than   string
		bound       float64
	}{
		{0, "oncekey in memory: replay", "bare", 0.90},
		{0, "oncekey in memory: first", "bare", 0.88},
		{16, "oncekey on Redis: replay", "tutorial on Redis: replay", 1.35},
		{16, "oncekey on Redis: first", "tutorial on Redis: first", 0.92},
		{128, "oncekey, auto-pipelining: replay", "tutorial on Redis: replay", 1.9},
		{128, "oncekey, auto-pipelining: first", "tutorial on Redis: first", 1.25},
		{0, "oncekey, memory before Redis: replay", "bare", 0.85},
	} {
		if ran[target.arm] && (target.connections == 0 || target.connections == connections) {
			what := fmt.Sprintf("%d connections: requests/s of %s : %s", connections, target.arm, target.than)
			targets = append(targets, report.AtLeast(what, target.bound, c.Ratio(target.than, target.arm)))
		}
	}
	return targets
}

// service is a server of payments.
type service struct {
	name string
	// fresh makes a handler without known keys. It is called before each slice of a
	// first-time arm, and once for the others.
	fresh  func(context.Context) (http.Handler, error)
	replay bool
	least  int // the minimum number of connections for a measurement

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

// arm serves and loads the service. The slice took gathers the latencies.
func (v service) arm(ctx context.Context, connections int) (arm harness.Arm, took *[]float64, end func(), err error) {
	server, err := serve(ctx, v.app)
	if err != nil {
		return harness.Arm{}, nil, func() {}, err
	}
	client, err := load.Dial(ctx, server.address, connections, payload)
	if err != nil {
		return harness.Arm{}, nil, server.stop, err
	}
	end = func() { client.Close(); server.stop() }
	took = new([]float64)
	known := sequence.Add(1)
	arm = harness.Arm{Name: v.name, Most: 1 << 17, Run: func(n int) error {
		first := sequence.Add(uint64(n)) - uint64(n) + 1
		latencies, err := client.Send(n, http.StatusCreated, func(i int, into []byte) {
			if v.replay {
				putKey(known, into)
			} else {
				putKey(first+uint64(i), into)
			}
		})
		for _, latency := range latencies {
			*took = append(*took, float64(latency))
		}
		return err
	}}
	if !v.replay {
		arm.Prepare = func(int) error { return v.renew(ctx, server) }
		return arm, took, end, nil
	}
	if err := v.renew(ctx, server); err != nil {
		return arm, took, end, err
	}
	_, err = client.Send(1, http.StatusCreated, func(_ int, into []byte) { putKey(known, into) })
	return arm, took, end, err
}
