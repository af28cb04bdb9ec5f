package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	// openShare is the part of all processor time that the guarded service uses.
	openShare = 0.6
	// openConnections is more than are busy at once at this rate, except in a stall.
	openConnections = 64
	// openSlices is the number of slices in one run of an arm, in place of as many rounds
	// divided by openRounds. The collector runs before each run of an arm. In a shorter run
	// the bare service ends before its next collection, and another arm has several: then a
	// p99 says only who had one.
	openSlices = 16
	openRounds = 4
	// rareGOGC makes collections rare, to show their part in a p99.
	rareGOGC = 1000
	rarely   = ", GOGC=1000"
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
				"GOMAXPROCS is one above the number of processors: the goroutine that starts requests needs a turn when a request is due. " +
				fmt.Sprintf("An arm runs for %d slices at a time, so that each arm has its own share of collections (GOGC=100, unless the table says another).", openSlices),
		},
	}
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	bare, floor := service{name: bareServiceName, fresh: barePay, replay: true}, service{name: keeperName, fresh: newKeeper}
	first, replay := service{name: oursFirst, fresh: ours}, service{name: oursReplay, fresh: ours, replay: true}
	for _, services := range [][]service{{bare, floor, first}, {bare, replay}} {
		guarded := services[len(services)-1]
		every, err := s.interval(ctx, guarded)
		if err == nil {
			err = s.compareAtRate(ctx, &section, guarded.name, every, services)
		}
		if err == nil && guarded.name == oursFirst {
			before := debug.SetGCPercent(rareGOGC)
			err = s.compareAtRate(ctx, &section, guarded.name+rarely, every, services)
			debug.SetGCPercent(before)
		}
		if err != nil {
			return section, err
		}
	}
	return section, nil
}

// openPlan has a processor for the goroutine that starts requests.
func (s *suite) openPlan() harness.Plan { return s.plan(runtime.GOMAXPROCS(0) + 1) }

// compareAtRate compares the services at a rate.
func (s *suite) compareAtRate(ctx context.Context, section *report.Section, kind string, every time.Duration, services []service) error {
	plan := s.openPlan()
	plan.Slice *= openSlices
	plan.Rounds = max(plan.Rounds/openRounds, 2)
	arms, end, err := serviceArms(ctx, services, openConnections, every)
	defer end()
	if err != nil {
		return err
	}
	c, err := s.compare(ctx, section, comparison{openComparison(kind), plan, arms, []column{
		p50Column, p99Column, cpuColumn, bytesColumn, {"collections a second", func(c *harness.Comparison, arm string) string {
			cost := c.Median(arm)
			return report.Number(cost.Collections / plan.Slice.Seconds())
		}}, {"p99 x bare", func(c *harness.Comparison, arm string) string {
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
// processors. At a lower rate a request costs more, because idle threads are woken: so the
// cost is measured at the rate that the cost before has given.
func (s *suite) interval(ctx context.Context, guarded service) (time.Duration, error) {
	plan := s.openPlan()
	plan.Slice *= 4
	plan.Rounds = min(plan.Rounds, 5)
	closed, err := costOf(ctx, plan, guarded, 0)
	every := closed.Time / openShare
	for range 3 {
		if err != nil {
			return 0, err
		}
		var paced harness.Cost
		paced, err = costOf(ctx, plan, guarded, time.Duration(every))
		every = paced.CPU / (openShare * float64(runtime.GOMAXPROCS(0)))
	}
	return time.Duration(every), err
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
