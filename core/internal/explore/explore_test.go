package explore

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// breach counts the schedules that break a rule.
type breach struct {
	count int
	seeds []uint64 // those that were found first, at most maxSeeds
}

// lowest is the lowest seed: the shards take the seeds in order.
func (b breach) lowest() uint64 { return slices.Min(b.seeds) }

// maxSeeds is how many seeds of one rule a search prints.
const maxSeeds = 50

// breaches collects the broken rules of all shards.
type breaches struct {
	mu     sync.Mutex
	byRule map[Rule]breach
}

func (f *breaches) add(seed uint64, found []Violation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[Rule]bool{}
	for _, v := range found {
		if seen[v.Rule] || ignored(v.Rule) {
			continue
		}
		seen[v.Rule] = true
		old := f.byRule[v.Rule]
		if old.count++; len(old.seeds) < maxSeeds {
			old.seeds = append(old.seeds, seed)
		}
		f.byRule[v.Rule] = old
	}
}

// ignored reports whether ONCEKEY_IGNORE names the rule.
func ignored(rule Rule) bool {
	return slices.Contains(strings.Split(os.Getenv("ONCEKEY_IGNORE"), ","), string(rule))
}

func number64(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestExplore runs ONCEKEY_SCHEDULES schedules (20,000; 500 with -short or the race
// detector) from the seed ONCEKEY_FROM on, so that a long search can run in parts. With
// ONCEKEY_SEED it runs that seed alone. It fails for each broken rule, and prints the
// rule's smallest schedule. With ONCEKEY_FIRST it ends at the first broken schedule, and
// prints only the seed and rule. The file named by ONCEKEY_FIRST holds the number of
// schedules begun, in case the process dies.
func TestExplore(t *testing.T) {
	t.Parallel()
	if os.Getenv("ONCEKEY_SEED") != "" {
		showSeed(t, number64(t, "ONCEKEY_SEED", 0))
		return
	}
	schedules := uint64(20_000)
	if testing.Short() || testkit.RaceDetector {
		schedules = 500
	}
	search := &search{breaches: breaches{byRule: map[Rule]breach{}}, progress: os.Getenv("ONCEKEY_FIRST")}
	from := number64(t, "ONCEKEY_FROM", 0)
	search.next.Store(from)
	search.end.Store(from + number64(t, "ONCEKEY_SCHEDULES", schedules))
	start := time.Now()
	t.Run("all", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
				t.Parallel()
				search.run(t)
			})
		}
	})
	took, done := time.Since(start), search.end.Load()-from
	t.Logf("%d schedules in %v, %.0f a second", done, took.Round(time.Millisecond), float64(done)/took.Seconds())
	if search.progress != "" {
		search.reportFirst(t)
		return
	}
	search.report(t)
}

// search is the state that the shards share.
type search struct {
	breaches

	next, end atomic.Uint64 // seeds
	progress  string        // a file; if set, the search ends at the first broken schedule
}

// run takes one seed after another, in order, so that the first broken schedule is
// the same in each search.
func (s *search) run(t *testing.T) {
	for {
		seed := s.next.Add(1) - 1
		if seed >= s.end.Load() {
			return
		}
		if s.progress != "" {
			testkit.Must(t, os.WriteFile(s.progress, strconv.AppendUint(nil, seed+1, 10), 0o600))
		}
		violations := judged(t, Draw(seed))
		if len(violations) == 0 {
			continue
		}
		s.add(seed, violations)
		for end := s.end.Load(); s.progress != "" && seed < end; end = s.end.Load() {
			s.end.CompareAndSwap(end, seed)
		}
	}
}

// reportFirst prints the first broken schedule in one line.
func (s *search) reportFirst(t *testing.T) {
	t.Helper()
	var rules []string
	for rule, b := range s.byRule {
		if b.lowest() == s.end.Load() {
			rules = append(rules, string(rule))
		}
	}
	if len(rules) > 0 {
		slices.Sort(rules)
		t.Errorf("first: %d %s", s.end.Load(), strings.Join(rules, ", "))
	}
}

// patience bounds the time of one schedule, which normally takes milliseconds.
const patience = 5 * time.Minute

// judged runs a plan. It ends the whole test if the bubble does not end in real time,
// because a goroutine then waits for a lock or never stops running.
func judged(t *testing.T, plan Plan) []Violation {
	t.Helper()
	watchdog := time.AfterFunc(patience, func() {
		panic(fmt.Sprintf("explore: seed %d does not come to an end", plan.Seed))
	})
	defer watchdog.Stop()
	return Judge(&plan, Run(t, &plan))
}

// breaks reports whether the plan breaks the rule.
func breaks(t *testing.T, plan Plan, rule Rule) bool {
	t.Helper()
	return slices.ContainsFunc(judged(t, plan), func(v Violation) bool { return v.Rule == rule })
}

// report prints the smallest schedule for each rule.
func (f *breaches) report(t *testing.T) {
	t.Helper()
	rules := make([]Rule, 0, len(f.byRule))
	for rule := range f.byRule {
		rules = append(rules, rule)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(f.byRule[a].lowest(), f.byRule[b].lowest()) })
	for _, rule := range rules {
		first := f.byRule[rule]
		t.Errorf("%s is broken by %d schedules, %v, first by seed %d:\n%s", rule, first.count, first.seeds, first.lowest(), shrunk(t, first.lowest(), rule))
	}
}

// shrunk returns the timeline of the smallest plan that breaks the rule.
func shrunk(t *testing.T, seed uint64, rule Rule) string {
	t.Helper()
	plan := Shrink(Draw(seed), func(p Plan) bool { return breaks(t, p, rule) })
	return render(t, plan)
}

// render returns a plan's timeline, and the rules that the plan breaks.
func render(t *testing.T, plan Plan) string {
	t.Helper()
	history := Run(t, &plan)
	var b strings.Builder
	b.WriteString(Timeline(&plan, history))
	for _, v := range Judge(&plan, history) {
		fmt.Fprintf(&b, "BROKEN %s: %s\n", v.Rule, v.Text)
	}
	fmt.Fprintf(&b, "repeat the whole schedule: ONCEKEY_SEED=%d go test ./core/internal/explore -run 'TestExplore$' -v\n", plan.Seed)
	return b.String()
}

func showSeed(t *testing.T, seed uint64) {
	t.Helper()
	plan := Draw(seed)
	t.Logf("seed %d:\n%s", seed, render(t, plan))
	seen := map[Rule]bool{}
	for _, v := range judged(t, plan) {
		if !seen[v.Rule] && !ignored(v.Rule) {
			seen[v.Rule] = true
			t.Errorf("%s: %s\nthe smallest schedule:\n%s", v.Rule, v.Text, shrunk(t, seed, v.Rule))
		}
	}
}

// The judge once called these schedules wrong, each for another rule: an operator, a step on another goroutine, or a late
// call allows more than other schedules do.
func TestJudgeAllows(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{343404, 974536, 1803861, 2146358, 2633667, 2707692, 2879740, 5525191, 5681671, 8327387, 166538947, 184315499, 185662067, 186835244, 196797392} {
		plan := Draw(seed)
		for _, v := range judged(t, plan) {
			t.Errorf("seed %d: %s: %s", seed, v.Rule, v.Text)
		}
	}
}

// A seed is a schedule: two runs of a seed are equal to the byte.
func TestSeedRepeats(t *testing.T) {
	t.Parallel()
	seeds := uint64(3_000)
	if testing.Short() || testkit.RaceDetector {
		seeds = 100
	}
	for seed := range number64(t, "ONCEKEY_REPEATS", seeds) {
		plan := Draw(seed)
		first, second := Timeline(&plan, Run(t, &plan)), Timeline(&plan, Run(t, &plan))
		if first != second {
			t.Errorf("seed %d differs: %s", seed, difference(first, second))
		}
	}
}

// difference returns the first different lines and their surroundings.
func difference(first, second string) string {
	a, b := strings.Split(first, "\n"), strings.Split(second, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from, to := max(0, i-4), min(len(a), len(b), i+5)
			return fmt.Sprintf("\n%s\n--- and\n%s", strings.Join(a[from:to], "\n"), strings.Join(b[from:to], "\n"))
		}
	}
	return fmt.Sprintf("%d lines and %d", len(a), len(b))
}

// TestMain runs the garbage collector rarely, because schedules are short. It drops
// the lines that an engine logs when an Observer panics.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
