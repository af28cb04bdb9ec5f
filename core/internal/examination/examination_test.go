package examination_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

var errBroken = errors.New("broken")

func want(t *testing.T, f storage.Finding, grade storage.Grade, text string) {
	t.Helper()
	if f.Check != "check" || f.Grade != grade || !strings.Contains(f.Seen+" "+f.Advice, text) || (f.Advice == "") != (grade == storage.Good) {
		t.Errorf("the finding is %+v, want %s with %q", f, grade, text)
	}
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	takes := func(usual, first, last time.Duration) storage.Finding {
		calls := 0
		return examination.RoundTrips(t.Context(), "check", func(context.Context) error {
			calls++
			<-time.After(map[int]time.Duration{1: first, 5: last}[calls] + usual)
			return nil
		})
	}
	synctest.Test(t, func(t *testing.T) {
		want(t, takes(time.Millisecond, time.Second, 0), storage.Good, "1ms in the middle, 1ms at most, of 20") // the first opens a connection
		want(t, takes(time.Millisecond, 0, time.Second), storage.Look, "1.001s at most")
		want(t, takes(126*time.Millisecond, 0, 0), storage.Mend, "StoreTimeout")
	})
	want(t, examination.RoundTrips(t.Context(), "check", func(context.Context) error { return errBroken }), storage.Skipped, "broken")
}

func TestClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		differs := func(by time.Duration) storage.Finding {
			return examination.Clocks(t.Context(), "check", func(context.Context) (time.Time, error) {
				<-time.After(time.Second)
				return time.Now().Add(by), nil
			})
		}
		want(t, differs(0), storage.Good, "500ms from this one, give or take 500ms")
		want(t, differs(4*time.Second), storage.Look, "4.5s")
		want(t, differs(-4*time.Second), storage.Look, "NTP")
	})
	want(t, examination.Clocks(t.Context(), "check", func(context.Context) (time.Time, error) { return time.Time{}, errBroken }), storage.Skipped, "broken")
}

// faulty is a store in which one method fails, or loses its effect.
type faulty struct {
	*memstore.Store
	method string
	err    error
	claims int
}

func (f *faulty) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	f.claims++
	switch {
	case f.method == "claim":
		return storage.Lease{}, nil, f.err
	case f.method == "replay" && f.claims > 1:
		return storage.Lease{}, nil, f.err
	}
	return f.Store.Acquire(ctx, c)
}

func (f *faulty) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if f.method == "extend" {
		return f.err
	}
	return f.Store.Extend(ctx, l, ttl)
}

func (f *faulty) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if f.method == "complete" {
		return f.err
	}
	return f.Store.Complete(ctx, l, res)
}

func (f *faulty) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if f.method == "forget" {
		return false, f.err
	}
	return f.Store.Forget(ctx, key, confirmation)
}

func TestCanary(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	want(t, examination.Canary(t.Context(), "check", store), storage.Good, "replayed")
	for _, method := range []string{"claim", "extend", "complete", "replay", "forget"} {
		broken := &faulty{Store: store, method: method, err: errBroken}
		want(t, examination.Canary(t.Context(), "check", broken), storage.Mend, method+": broken")
		if method != "forget" && store.Len() != 0 {
			t.Errorf("a canary that failed to %s has left %d records", method, store.Len())
		}
	}
	want(t, examination.Canary(t.Context(), "check", &faulty{Store: store, method: "replay"}), storage.Mend, "two servers")
	want(t, examination.Canary(t.Context(), "check", &faulty{Store: store, method: "forget"}), storage.Mend, "the record was not found")
}

func TestRunSkipsWithoutAServer(t *testing.T) {
	t.Parallel()
	step := examination.One("check", func(_ context.Context, check string) storage.Finding {
		return examination.Good(check, "seen")
	})
	server := examination.Server{
		Reach: func(context.Context) error { return errBroken }, Trip: func(context.Context) error { return nil },
		Clock: func(context.Context) (time.Time, error) { return time.Now(), nil },
	}
	const all = 5 // the connection, the check, the clock, the round trip and the canary
	findings := examination.Run(t.Context(), server, memstore.New(), step)
	if len(findings) != all || findings[0].Grade != storage.Mend || findings[0].Seen != "broken" {
		t.Fatalf("the findings are %+v, want the connection's and %d more", findings, all-1)
	}
	want(t, findings[1], storage.Skipped, "does not respond")
	server.Reach = server.Trip
	findings = examination.Run(t.Context(), server, memstore.New(), step)
	if len(findings) != all {
		t.Fatalf("the findings are %+v, want the connection's and %d more", findings, all-1)
	}
	want(t, findings[1], storage.Good, "seen")
	for _, f := range findings {
		testkit.Equal(t, f.Grade, storage.Good, "the finding is %+v", f)
	}
}

// A server that hangs leaves time for the examination of another one.
func TestRunOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		hanging := examination.Server{Reach: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		testkit.Equal(t, examination.Run(ctx, hanging, memstore.New())[0].Grade, storage.Mend, "the grade of the connection")
		testkit.Must(t, ctx.Err())
	})
}

func TestNested(t *testing.T) {
	t.Parallel()
	var checks []string
	for _, f := range examination.Nested(t.Context(), "below", memstore.New()) {
		checks = append(checks, f.Check)
	}
	testkit.EqualSlices(t, checks, []string{"below: records", "below: memory", "below: canary"}, "the checks")
	if f := examination.Nested(t.Context(), "check", struct{ storage.Store }{memstore.New()}); len(f) != 1 {
		t.Errorf("the findings are %+v, want one", f)
	} else {
		want(t, f[0], storage.Skipped, "no Examine")
	}
}
