package rules_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The decision about a request that does not hold the lease, for every record.
func TestDecide(t *testing.T) {
	t.Parallel()
	retry := rules.Asked{Repeats: true}
	for name, c := range map[string]struct {
		record storage.Record
		asked  rules.Asked
		want   string
	}{
		"completed":                {storage.Record{State: storage.Completed, Status: 200}, retry, ""},
		"failed":                   {storage.Record{State: storage.Failed, Status: 500}, retry, ""},
		"no status of HTTP":        {storage.Record{State: storage.Completed, Status: 99}, retry, problem.NotReplayable},
		"no such status either":    {storage.Record{State: storage.Failed, Status: 1000}, retry, problem.NotReplayable},
		"not kept":                 {storage.Record{State: storage.Unreplayable}, retry, problem.NotReplayable},
		"not kept, observing":      {storage.Record{State: storage.Unreplayable}, rules.Asked{Repeats: true, Observes: true}, ""},
		"expired":                  {storage.Record{State: storage.Expired, Status: 201}, retry, problem.KeyExpired},
		"expired while abandoned":  {storage.Record{State: storage.Expired}, retry, problem.OutcomeUnknown},
		"in progress":              {storage.Record{State: storage.InProgress, LeaseLeft: time.Second}, retry, problem.InProgress},
		"in progress, refusing":    {storage.Record{State: storage.InProgress, LeaseLeft: time.Second}, rules.Asked{Repeats: true, Refuses: true}, problem.InProgress},
		"abandoned, taken by one":  {storage.Record{State: storage.InProgress}, retry, problem.InProgress},
		"abandoned, refusing":      {storage.Record{State: storage.InProgress}, rules.Asked{Repeats: true, Refuses: true}, problem.OutcomeUnknown},
		"released, taken by one":   {storage.Record{State: storage.Released}, rules.Asked{Repeats: true, Refuses: true}, problem.InProgress},
		"another of a finished":    {storage.Record{State: storage.Completed}, rules.Asked{}, problem.KeyReused},
		"another of one expired":   {storage.Record{State: storage.Expired, Status: 201}, rules.Asked{}, problem.KeyReused},
		"another of one abandoned": {storage.Record{State: storage.InProgress}, rules.Asked{Refuses: true}, problem.KeyReused},
		"another of one released":  {storage.Record{State: storage.Released}, rules.Asked{}, problem.KeyReused},
	} {
		testkit.Equal(t, rules.Decide(&c.record, c.asked), c.want, "%s", name)
	}
}

// Each error of a store, as the contract of package storage has it. Stores wrap them.
func TestErrorsOfStores(t *testing.T) {
	t.Parallel()
	for err, want := range map[error][3]bool{ // a claim lasts, a write lasts, FailOpen stays closed
		storage.ErrLeaseLost:      {false, true, false},
		storage.ErrStoreFull:      {true, false, false},
		storage.ErrUnreadable:     {false, false, true},
		storage.ErrCorruptRecord:  {true, false, true},
		storage.ErrStoreForbidden: {true, true, true},
		storage.ErrNotStorable:    {true, true, true},
		rules.ErrClaimTooSlow:     {false, false, true},
		errors.New("refused"):     {false, false, false},
	} {
		wrapped := fmt.Errorf("a store: %w", err)
		testkit.Equal(t, [3]bool{rules.ClaimLasts(wrapped), rules.WriteLasts(wrapped), rules.StaysClosed(wrapped)}, want, "%v", err)
	}
}

// row is a row of the table of docs/policy.md: the words about the handler, its outcomes,
// and the fate of its key.
type row struct {
	handler  string
	opts     []policy.Option
	outcomes []failure.Outcome
	fates    []rules.Fate // of each outcome; one stands for all
}

func statuses(all ...int) (outcomes []failure.Outcome) {
	for _, status := range all {
		outcomes = append(outcomes, failure.Outcome{Status: status})
	}
	return outcomes
}

func marked(mark func(*failure.Outcome), lists ...[]failure.Outcome) (outcomes []failure.Outcome) {
	for _, list := range lists {
		for _, outcome := range list {
			mark(&outcome)
			outcomes = append(outcomes, outcome)
		}
	}
	return outcomes
}

// The table is that of docs/policy.md, in its order.
func table() []row {
	finished := statuses(200, 201, 204, 299, 302, 304)
	refused := statuses(400, 402, 403, 404, 409, 422, 499)
	again := statuses(401, 407, 408, 425, 429)
	broken := append(statuses(500, 502, 503, 599), failure.Outcome{Panicked: true}, failure.Outcome{ContextEnded: true, Err: errors.New("cut off")})
	retryable := func(o *failure.Outcome) { o.Retryable = true }
	uncertain := func(o *failure.Outcome) { o.Uncertain = true }
	executed := func(o *failure.Outcome) { o.Executed = true }
	all := [][]failure.Outcome{finished, refused, again, broken, marked(retryable, finished), marked(uncertain, broken)}
	return []row{
		{"responds with 2xx or 3xx", nil, finished, []rules.Fate{rules.Keep}},
		{"responds with 4xx, except", nil, refused, []rules.Fate{rules.Keep}},
		{"responds with 401, 407", nil, append(again, marked(retryable, finished, refused, broken)...), []rules.Fate{rules.Release}},
		{"responds with 5xx, panics, or writes nothing because its context ended |", nil, broken, []rules.Fate{rules.Release}},
		{"after `failure.MarkUncertain(ctx)`", nil, marked(uncertain, finished, refused, again, broken, marked(retryable, finished)), []rules.Fate{rules.Abandon}},
		{"where `OnAbandoned` is `Refuse`", []policy.Option{policy.OnAbandoned(policy.Refuse)}, broken, []rules.Fate{rules.Abandon}},
		{
			"a status in `Release`, `Keep` or `Uncertain`",
			[]policy.Option{policy.Release("422"), policy.Keep("503"), policy.Uncertain("502")},
			append(statuses(422, 503, 502), failure.Outcome{ContextEnded: true}),
			[]rules.Fate{rules.Release, rules.Keep, rules.Abandon, rules.Keep},
		},
		{"after `failure.MarkExecuted(ctx)`", nil, marked(executed, all...), []rules.Fate{rules.Keep}},
	}
}

// Each row of the table of docs/policy.md has a test, in its order, and says its fate.
func TestFateIsTheTableOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/policy.md")
	testkit.Must(t, err)
	_, text, _ := strings.Cut(string(page), "| the handler | the key |\n|---|---|\n")
	text, _, _ = strings.Cut(text, "\n\n")
	lines := strings.Split(text, "\n")
	says := map[rules.Fate]string{rules.Keep: "keeps", rules.Release: "released", rules.Abandon: "abandoned"}
	rows := table()
	if len(lines) != len(rows) {
		t.Fatalf("the page has %d rows, want %d", len(lines), len(rows))
	}
	for i, row := range rows {
		if !strings.Contains(lines[i], row.handler) {
			t.Errorf("row %d is %s, want %q", i+1, lines[i], row.handler)
		}
		declared, err := policy.New(row.opts...)
		testkit.Must(t, err)
		for j, outcome := range row.outcomes {
			want := row.fates[min(j, len(row.fates)-1)]
			testkit.Equal(t, rules.FateOf(declared.Classify(outcome), rules.Ending{}), want, "%s: %+v has fate", row.handler, outcome)
			if !strings.Contains(lines[i], says[want]) {
				t.Errorf("the page says %s, want %q", lines[i], says[want])
			}
		}
	}
}

// An outcome of an earlier attempt, or of a step, that is still unknown leaves the key
// abandoned where it would be released, and changes no response that is kept.
func TestUnknownOutcomesAbandon(t *testing.T) {
	t.Parallel()
	for _, end := range []rules.Ending{{TookOver: true}, {UnknownStep: true}, {TookOver: true, UnknownStep: true}} {
		for class, want := range map[failure.Class]rules.Fate{
			failure.ClassCache: rules.Keep, failure.ClassDeleteKey: rules.Abandon,
			failure.ClassRetryable: rules.Abandon, failure.ClassUncertain: rules.Abandon,
		} {
			testkit.Equal(t, rules.FateOf(class, end), want, "%v after %+v has fate", class, end)
		}
	}
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	for want, from := range map[event.Result]struct {
		fate  rules.Fate
		class failure.Class
	}{
		event.Uncertain: {rules.Abandon, failure.ClassRetryable},
		event.Retryable: {rules.Release, failure.ClassRetryable},
		event.DeleteKey: {rules.Release, failure.ClassDeleteKey},
	} {
		testkit.Equal(t, rules.EventOf(from.fate, from.class), want, "%+v", from)
	}
}
