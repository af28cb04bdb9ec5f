package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	// openShare is the part of all processor time that the guarded service uses.
	openShare = 0.6
	// openConnections is more than are busy at once at this rate, except in a stall.
	openConnections = 64
)

func openComparison(kind string) string { return "Open loop, " + kind }

// openLoop measures latencies at a fixed arrival rate.
func openLoop(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Latency at a fixed arrival rate",
		Text: []string{
			"Requests over loopback HTTP, records in memory, all processors. Requests are due at fixed times, whether or not the service keeps up, " +
				"and a latency begins when its request was due: a stall counts for every request that it delays (no coordinated omission). " +
				fmt.Sprintf("At the rate, the guarded service and its client use %.0f %% of the processors, and the others get the same rate. ", 100*openShare) +
				"That is less than this part of a closed loop's peak, where a request costs less because many are read and woken at once. " +
				"GOMAXPROCS is one above the number of processors: the goroutine that starts requests needs a turn when a request is due.",
		},
	}
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	bare, floor := service{name: bareServiceName, fresh: barePay, replay: true}, service{name: keeperName, fresh: newKeeper}
	for _, services := range [][]service{
		{bare, floor, {name: oursFirst, fresh: ours}},
		{bare, {name: oursReplay, fresh: ours, replay: true}},
	} {
		if err := s.compareAtRate(ctx, &section, services); err != nil {
			return section, err
		}
	}
	return section, nil
}

// compareAtRate compares the services at a rate that the last one decides.
func (s *suite) compareAtRate(ctx context.Context, section *report.Section, services []service) error {
	guarded := services[len(services)-1]
	plan := s.plan(runtime.GOMAXPROCS(0) + 1)
	plan.Slice *= 4 // several thousand requests, for a p99
	every, err := interval(ctx, plan, guarded)
	if err != nil {
		return err
	}
	arms, end, err := serviceArms(ctx, services, openConnections, every)
	defer end()
	if err != nil {
		return err
	}
	c, err := s.compare(ctx, section, comparison{openComparison(guarded.name), plan, arms, []column{
		p50Column, p99Column, cpuColumn, {"p99 x bare", func(c *harness.Comparison, arm string) string {
			if arm == bareServiceName {
				return ""
			}
			return report.Interval(c.RatioOf(harness.P99, arm, bareServiceName))
		}},
	}})
	if c != nil {
		last := &section.Tables[len(section.Tables)-1]
		last.Caption = fmt.Sprintf("%.0f a second: %s", 1e9/float64(every), last.Caption)
	}
	return err
}

// interval returns the time between requests with which the service uses openShare of the
// processors. The processor time of a request is measured near the closed loop's peak: at
// a low rate, idle threads that are woken cost more than the requests.
func interval(ctx context.Context, plan harness.Plan, guarded service) (time.Duration, error) {
	plan.Rounds = min(plan.Rounds, 10)
	closed, err := costOf(ctx, plan, guarded, 0)
	if err != nil {
		return 0, err
	}
	paced, err := costOf(ctx, plan, guarded, time.Duration(closed.Time/openShare))
	processors := float64(runtime.GOMAXPROCS(0))
	return time.Duration(paced.CPU / (openShare * processors)), err
}

// costOf measures one service. See service.arm for every.
func costOf(ctx context.Context, plan harness.Plan, one service, every time.Duration) (harness.Cost, error) {
	arms, end, err := serviceArms(ctx, []service{one}, openConnections, every)
	defer end()
	if err != nil {
		return harness.Cost{}, err
	}
	c, err := harness.Compare(ctx, plan, arms)
	if err != nil {
		return harness.Cost{}, err
	}
	return c.Median(one.name), nil
}
