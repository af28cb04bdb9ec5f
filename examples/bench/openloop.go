package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	// openShare is the arrival rate over the guarded service's peak.
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
				fmt.Sprintf("The rate is %.0f %% of the guarded service's own peak, which %d connections reach that send one request after another, ",
					100*openShare, openConnections) + "and bare gets the same rate.",
		},
	}
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
	for _, guarded := range []service{{name: oursFirst, fresh: ours}, {name: oursReplay, fresh: ours, replay: true}} {
		services := []service{{name: bareServiceName, fresh: barePay, replay: true}, guarded}
		if err := s.compareAtRate(ctx, &section, services); err != nil {
			return section, err
		}
	}
	return section, nil
}

// compareAtRate compares the services at a rate that the last one's peak decides.
func (s *suite) compareAtRate(ctx context.Context, section *report.Section, services []service) error {
	guarded := services[len(services)-1]
	peak, err := s.peak(ctx, guarded)
	if err != nil {
		return err
	}
	every := time.Duration(1e9 / (openShare * peak))
	arms, end, err := serviceArms(ctx, services, openConnections, every)
	defer end()
	if err != nil {
		return err
	}
	plan := s.plan(0)
	plan.Slice *= 4 // several thousand requests, for a p99
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

// peak is the service's requests per second in a closed loop.
func (s *suite) peak(ctx context.Context, guarded service) (float64, error) {
	arms, end, err := serviceArms(ctx, []service{guarded}, openConnections, 0)
	defer end()
	if err != nil {
		return 0, err
	}
	plan := s.plan(0)
	plan.Rounds = min(plan.Rounds, 10)
	c, err := harness.Compare(ctx, plan, arms)
	if err != nil {
		return 0, err
	}
	return 1e9 / c.Median(guarded.name).Time, nil
}
