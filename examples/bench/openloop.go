package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	// openShare is the part of its processors that the guarded service uses.
	openShare = 0.6
	// openConnections is more than are busy at once at this rate, except in a stall.
	openConnections = 64
	// openRounds is the number of rounds for each of the plan's. A short run is rarely
	// disturbed, and all runs of an arm are pooled.
	openRounds = 6
	// openWarm is the part of a run's requests that come first and do not count: the
	// service has slept since its last run.
	openWarm = 0.1
)

func openComparison(kind string) string { return "Open loop, " + kind }

// openServices are the services of the open loop.
func openServices() []service {
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	return []service{
		{name: bareServiceName, fresh: barePay, replay: true},
		{name: byHandFirst, fresh: byHandInMemory},
		{name: oursFirst, fresh: ours},
		{name: byHandReplay, fresh: byHandInMemory, replay: true},
		{name: oursReplay, fresh: ours, replay: true},
	}
}

// openLoop measures latencies at a fixed arrival rate.
func openLoop(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Latency at a fixed arrival rate",
		Text: []string{
			"Requests over loopback HTTP, records in memory. Requests are due at fixed times, whether or not the service keeps up, " +
				"and a latency begins when its request was due: a stall counts for every request that it delays (no coordinated omission). " +
				"Each service is a process of its own with a collector of its own. The client has one processor for itself, where one thread sends and receives and never sleeps, and the services have the others, one at a time. " +
				fmt.Sprintf("At the rate, the guarded service uses %.0f %% of its processors, and the others get the same rate. ", 100*openShare) +
				"A request costs more there than in a closed loop, where a thread that has read one request finds the next.",
			fmt.Sprintf("Each arm runs for one slice at a time, in random order, for %d times as many rounds as elsewhere. The latencies of all rounds are pooled before the quantile is taken, ", openRounds) +
				fmt.Sprintf("without the first %.0f %% of each run. Brackets are a bootstrap of whole rounds. The A/A control is another process of the first arm. ", 100*openWarm) +
				fmt.Sprintf("A round is left out if the machine stalled, which a real-time thread on each processor notices when it is woken more than %v late, ", mostLate) +
				fmt.Sprintf("or if other programs used more than %.0f %% of a processor or a process began. The rule does not know the arm, and each table says how many rounds it has left out.", 100*mostOthers),
		},
	}
	all := openServices()
	bare, floorOfFirst, first, floorOfReplay, replay := all[0], all[1], all[2], all[3], all[4]
	for _, services := range [][]service{{bare, floorOfFirst, first}, {bare, floorOfReplay, replay}} {
		name := openComparison(services[len(services)-1].name)
		services = chosen(services, func(v service) string { return v.name }, s.only)
		if len(services) == 0 {
			continue
		}
		o, err := startOpenArms(ctx, services)
		if err == nil {
			err = o.compare(ctx, s, &section, name)
		}
		o.stop()
		if err != nil {
			return section, err
		}
	}
	return section, nil
}

// openArms are services that run in turn, each in a process of its own.
type openArms struct {
	arms           []openArm
	processors     []int
	server, client *unix.CPUSet // the processors of each; nil: all
}

type openArm struct {
	name  string
	child *child
	keys  func(n int) func(i int, into []byte)
}

// startOpenArms starts the services, and the first one again as the control. Call stop also
// after an error.
func startOpenArms(ctx context.Context, services []service) (*openArms, error) {
	o := &openArms{}
	if err := o.divide(); err != nil {
		return o, err
	}
	for i, service := range append(services, services[0]) {
		child, err := startChild(ctx, service.name, o.server)
		if err != nil {
			return o, err
		}
		arm := openArm{service.name, child, service.keys()}
		if i == len(services) {
			arm.name = harness.ControlArm
		}
		o.arms = append(o.arms, arm)
		if _, err := child.pacer.Send(0, 1, http.StatusCreated, nil, arm.keys(1)); err != nil { // replays have a record
			return o, err
		}
	}
	return o, nil
}

// divide gives the client the first processor and the services the others.
func (o *openArms) divide() error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return err
	}
	for processor := range 8 * int(unsafe.Sizeof(allowed)) {
		if allowed.IsSet(processor) {
			o.processors = append(o.processors, processor)
		}
	}
	if len(o.processors) == 1 {
		return nil
	}
	o.client, o.server = new(unix.CPUSet), new(unix.CPUSet)
	o.client.Set(o.processors[0])
	for _, processor := range o.processors[1:] {
		o.server.Set(processor)
	}
	return nil
}

func (o *openArms) stop() {
	for _, arm := range o.arms {
		arm.child.stop()
	}
}

// run runs an arm for a time at a rate.
func (o *openArms) run(arm openArm, every, during time.Duration) (cost harness.Cost, err error) {
	n := max(int(during/every), 1)
	before, err := arm.child.usage()
	if err != nil {
		return cost, err
	}
	took, err := arm.child.pacer.Send(every, n, http.StatusCreated, o.client, arm.keys(n))
	if err != nil {
		return cost, fmt.Errorf("%s: %w", arm.name, err)
	}
	after, err := arm.child.usage()
	took = took[int(openWarm*float64(n)):]
	times := float64(n)
	return harness.Cost{
		Time: float64(every), CPU: float64(after.CPU-before.CPU) / times,
		Bytes: float64(after.Bytes-before.Bytes) / times, Allocs: float64(after.Allocs-before.Allocs) / times,
		Collections: float64(after.Collections - before.Collections),
		P50:         harness.Quantile(took, 0.5), P99: harness.Quantile(took, 0.99), Latencies: harness.HistogramOf(took),
	}, err
}

// interval returns the time between requests with which the arm uses openShare of its
// processors. At a lower rate a request costs more, because threads are woken: so the cost
// is measured at the rate that the cost before has given, as the median of some runs.
func (o *openArms) interval(arm openArm, during time.Duration) (time.Duration, error) {
	every := 100 * time.Microsecond
	for range 3 {
		var costs []float64
		for range 5 {
			cost, err := o.run(arm, every, during)
			if err != nil {
				return 0, err
			}
			costs = append(costs, cost.CPU)
		}
		services := max(len(o.processors)-1, 1) // processors
		every = max(time.Duration(harness.Median(costs)/(openShare*float64(services))), time.Microsecond)
	}
	return every, nil
}

// compare compares the arms at a rate that the last but one gives: the last is the control.
func (o *openArms) compare(ctx context.Context, s *suite, section *report.Section, name string) error {
	// The watcher has threads of its own, and the client's collector would compete.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * len(o.processors)))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	every, err := o.interval(o.arms[len(o.arms)-2], s.slice)
	if err != nil {
		return err
	}
	children := make([]int, len(o.arms))
	for i, arm := range o.arms {
		children[i] = arm.child.command.Process.Pid
	}
	watcher := watch(o.processors, children)
	defer watcher.stop()
	kept, all := make(map[string][]harness.Cost), make(map[string][]harness.Cost)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // an order, not a secret
	runtime.GC()
	watcher.disturbed() // from here on
	for range openRounds * s.rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		round := make(map[string]harness.Cost)
		for _, i := range random.Perm(len(o.arms)) {
			if round[o.arms[i].name], err = o.run(o.arms[i], every, s.slice); err != nil {
				return err
			}
		}
		quiet := !watcher.disturbed()
		for arm, cost := range round {
			if all[arm] = append(all[arm], cost); quiet {
				kept[arm] = append(kept[arm], cost)
			}
		}
	}
	o.report(s, section, name, every, kept, all)
	return nil
}

// report adds the table of the rounds that were kept, or of all if too few were.
func (o *openArms) report(s *suite, section *report.Section, name string, every time.Duration, kept, all map[string][]harness.Cost) {
	base := o.arms[0].name
	left := fmt.Sprintf("%d of %d rounds left out", len(all[base])-len(kept[base]), len(all[base]))
	if len(kept[base]) < max(len(all[base])/10, 1) {
		kept, left = all, left+" would be too many: these are all"
	}
	c := harness.NewComparison(base, kept)
	s.results.comparisons[name] = c
	table := report.Table{
		Caption: fmt.Sprintf("%.0f a second: %s; %s; A/A control of p50 %s, of p99 %s", 1e9/float64(every), name, left,
			report.Interval(c.PooledRatio(0.5, harness.ControlArm, base)), report.Interval(c.PooledRatio(0.99, harness.ControlArm, base))),
		Head: []string{"arm", "p50", "p99", "p99.9", "CPU", "bytes", "collections a second", "p50 x bare", "p99 x bare"},
	}
	for _, arm := range o.arms[:len(o.arms)-1] {
		pool, cost, collections := c.Pooled(arm.name), c.Median(arm.name), 0.0
		for _, each := range kept[arm.name] {
			collections += each.Collections / float64(len(kept[arm.name]))
		}
		row := []string{arm.name}
		for _, q := range []float64{0.5, 0.99, 0.999} {
			row = append(row, report.Duration(pool.Quantile(q)))
		}
		row = append(row, report.Duration(cost.CPU), report.Number(cost.Bytes), report.Number(collections/s.slice.Seconds()))
		for _, q := range []float64{0.5, 0.99} {
			ratio := ""
			if arm.name != base {
				ratio = report.Interval(c.PooledRatio(q, arm.name, base))
			}
			row = append(row, ratio)
		}
		table.Rows = append(table.Rows, row)
	}
	section.Tables = append(section.Tables, table)
}
