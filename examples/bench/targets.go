package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// target is an aim for one measurement.
type target struct {
	what     string
	atMost   bool // else: at least
	bound    float64
	measured measure
	// why says in a sentence what stands in the way. It is printed only while the target is
	// not reached.
	why string
}

// measure takes a figure from the results. It returns false for one that was not measured.
type measure func(results) (harness.Estimate, bool)

// of is a figure of some arms of a comparison. A name that is empty is no arm.
func of(comparison string, figure func(*harness.Comparison) harness.Estimate, arms ...string) measure {
	arms = slices.DeleteFunc(arms, func(arm string) bool { return arm == "" })
	return func(r results) (harness.Estimate, bool) {
		c := r.find(comparison, arms...)
		if c == nil {
			return harness.Estimate{}, false
		}
		return figure(c), true
	}
}

// overhead is an arm's time above its bare arm, in units of a peer's time above the peer's.
func overhead(comparison, arm, bare, peer, peerBare string) measure {
	return of(comparison, func(c *harness.Comparison) harness.Estimate { return c.Overhead(arm, bare, peer, peerBare) }, arm, bare, peer, peerBare)
}

// pooled is a quantile of an arm's latencies in all rounds, in units of another arm's.
func pooled(comparison string, q float64, arm, to string) measure {
	return of(comparison, func(c *harness.Comparison) harness.Estimate { return c.PooledRatio(q, arm, to) }, arm, to)
}

// speed is an arm's operations per second in units of another arm's.
func speed(comparison, arm, to string) measure {
	return of(comparison, func(c *harness.Comparison) harness.Estimate { return c.Ratio(to, arm) }, arm, to)
}

// Reasons of targets. Keep them to facts that a measurement has shown.
const (
	aboveTheFloor = "six parts alone take 3.9 floors: the store's calls 1.6 to 1.7, the fingerprint with its sketch 1.3, the memory of the run 0.4, the digest, the capture and the record's name 0.2 each " +
		"(`go test ./core -run '^$' -bench BenchmarkPartsOfAFirst`). The run's lease, its two events and the clocks come on top."
	hashesTwice   = "two hashes take 27 % of a replay, the record's lookup 20 %, memory 15 % and the event 9 % (`make profile`). The floor has only the hashes and json.Valid."
	sharesProcess = "client, service and collector share the processors here, and by hand pays for its records too: compare with its row."
	guardsTime    = "a guard by hand with json.Valid and neither token nor clock, the least that a fingerprint needs, reached 0.80 to 0.89 with first-time requests and 0.93 to 0.97 with replays. In a quiet run a request cost bare 20 µs of processor time, client included, by hand 3.4 more and with the guard 10; a replay cost 1.4 and 2.5 more, of which 1.5 in process, and 0.3 for the header's field that is written and read."
	byHandPooled  = "a guard by hand that checks JSON, with values as large as oncekey's, reached 0.76 to 0.89: in Redis a script that compares and sets takes 3.2 µs, ours 3.4, and SET 0.5. The guard's own time comes on top: see *In process*."
	replayPooled  = "a guard by hand that checks JSON, with values as large as oncekey's, reached 1.35 to 1.52. A replay fingerprints its request before its one round trip, which carries a claim, and reads a record with header, sketch and origin."
	byHandMerged  = "a guard by hand that checks JSON, with values as large as oncekey's, reached 0.69 to 0.83: in Redis a script that compares and sets takes 3.2 µs, ours 3.4, and SET 0.5, and merged commands cost little else."
	replayMerged  = "a guard by hand that checks JSON, with values as large as oncekey's, reached 1.13 to 1.21."
)

// targets returns all targets, in the order of the table.
func targets() []target {
	const (
		first, replay           = "net/http: first", "net/http: replay"
		outerFirst, outerReplay = "net/http" + outerSuffix + ": first", "net/http" + outerSuffix + ": replay"
		tutorial                = "tutorial with fingerprint"
	)
	process := func(arm, bare, peer, peerBare string) measure {
		return overhead(processComparison, arm, bare, peer, peerBare)
	}
	all := []target{
		{"in process, first : floor", true, 4.2, process(first, bareArm, floorArm, ""), aboveTheFloor},
		{"in process with outer headers, first : floor", true, 4.8, process(outerFirst, bareOuterArm, floorArm, ""), aboveTheFloor},
		{"in process, replay : floor", true, 1.2, process(replay, bareArm, floorArm, ""), hashesTwice},
		{"in process with outer headers, replay : floor", true, 1.2, process(outerReplay, bareOuterArm, floorArm, ""), hashesTwice},
		{"in process, " + tutorial + " : first", false, 1.5, process(tutorial+": first", bareArm, first, bareArm), aboveTheFloor},
		{"in process with outer headers, " + tutorial + " : first", false, 1.3, process(tutorial+outerSuffix+": first", bareOuterArm, outerFirst, bareOuterArm), aboveTheFloor},
		{"in process, " + tutorial + " : replay", false, 8.0, process(tutorial+": replay", bareArm, replay, bareArm), hashesTwice},
		{"in process with outer headers, " + tutorial + " : replay", false, 7.5, process(tutorial+outerSuffix+": replay", bareOuterArm, outerReplay, bareOuterArm), hashesTwice},
	}
	for _, connections := range []int{16, 64} {
		name := fmt.Sprintf(inMemoryName, connections)
		all = append(all,
			target{fmt.Sprintf("loopback, memory, %d connections, first : bare", connections), false, 0.75, speed(name, oursFirst, bareServiceName), guardsTime},
			target{fmt.Sprintf("loopback, memory, %d connections, replay : bare", connections), false, 0.90, speed(name, oursReplay, bareServiceName), guardsTime})
	}
	all = append(all,
		target{"open loop, p99 of first : bare", true, 1.5, pooled(openComparison(oursFirst), 0.99, oursFirst, bareServiceName), sharesProcess},
		target{"open loop, p99 of replay : bare", true, 1.25, pooled(openComparison(oursReplay), 0.99, oursReplay, bareServiceName), sharesProcess})
	for _, on := range []struct {
		where, name, whyFirst, whyReplay string
		first, replay                    float64
	}{
		{"Redis, 16 connections", fmt.Sprintf(onRedisName, 16), byHandPooled, replayPooled, 0.84, 1.35},
		{"Redis, auto-pipelining, 256 connections", fmt.Sprintf(pipelinedName, 256), byHandMerged, replayMerged, 0.8, 1.1},
	} {
		all = append(all,
			target{on.where + ", first : tutorial", false, on.first, speed(on.name, oursFirst, tutorialFirst), on.whyFirst},
			target{on.where + ", replay : tutorial", false, on.replay, speed(on.name, oursReplay, tutorialReplay), on.whyReplay})
	}
	return slices.Concat(all, guardedTargets(), sqlTargets())
}

// judge returns the table of all targets. A target is reached when the median reaches it.
func judge(all []target, found results) report.Section {
	table := report.Table{Head: []string{"what", "target", "measured", ""}}
	section := report.Section{Title: "Targets", Text: []string{
		"*Floor* counts the time above the arm's own bare handler, and so does *tutorial : first* in process, for both. Other ratios " +
			"are of operations per second, or of the figure that the line names. Targets of one package are measured beside its code: " +
			"`make microbench` runs BenchmarkAgainstBareStatements (pgstore beside INSERT and SELECT), BenchmarkFootprint (its bytes of WAL and on disk), " +
			"BenchmarkRatios (fingerprint beside encoding/json) and BenchmarkMillion (memstore beside a map). Tests hold the round trips.",
	}}
	var reasons []string
	missed := map[string][]string{} // the targets by their reason, which some share
	for _, t := range all {
		row := []string{t.what, t.want(), "not measured", ""}
		if measured, ok := t.measured(found); ok {
			row[2], row[3] = report.Interval(measured), "reached"
			if !t.reached(measured) {
				row[3] = "**not reached**"
				if t.why != "" && missed[t.why] == nil {
					reasons = append(reasons, t.why)
				}
				missed[t.why] = append(missed[t.why], t.what)
			}
		}
		table.Rows = append(table.Rows, row)
	}
	for _, why := range reasons {
		section.Notes = append(section.Notes, strings.Join(missed[why], "; ")+": "+why)
	}
	section.Tables = []report.Table{table}
	return section
}

func (t target) reached(measured harness.Estimate) bool {
	if t.atMost {
		return measured.Median <= t.bound
	}
	return measured.Median >= t.bound
}

func (t target) want() string {
	sign := ">= "
	if t.atMost {
		sign = "<= "
	}
	return sign + report.Number(t.bound)
}
