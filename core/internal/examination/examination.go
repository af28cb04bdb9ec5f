// Package examination has the parts of a storage.Examiner that are the same in every
// store.
package examination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// Good makes a finding that needs no advice.
func Good(check, seen string) storage.Finding {
	return storage.Finding{Check: check, Grade: storage.Good, Seen: seen}
}

// Look makes a finding that may cost something.
func Look(check, seen, advice string) storage.Finding {
	return storage.Finding{Check: check, Grade: storage.Look, Seen: seen, Advice: advice}
}

// Mend makes a finding that breaks a promise.
func Mend(check, seen, advice string) storage.Finding {
	return storage.Finding{Check: check, Grade: storage.Mend, Seen: seen, Advice: advice}
}

// Skipped makes a finding about a check that could not be made.
func Skipped(check, seen, advice string) storage.Finding {
	return storage.Finding{Check: check, Grade: storage.Skipped, Seen: seen, Advice: advice}
}

// Step is one check.
type Step struct {
	check string
	run   func(ctx context.Context, check string) storage.Finding
}

// One is a step.
func One(check string, run func(ctx context.Context, check string) storage.Finding) Step {
	return Step{check, run}
}

// Server is what every store over a server can do.
type Server struct {
	// Reach fails where the server cannot be reached. Trip is a round trip.
	Reach, Trip func(ctx context.Context) error
	// Clock returns the server's time.
	Clock func(ctx context.Context) (time.Time, error)
}

// Run runs the steps, and those of every server. Where the server cannot be reached, it skips all of them.
func Run(ctx context.Context, s Server, store Inspectable, steps ...Step) []storage.Finding {
	const connection, reachWithin = "connection", 5 * time.Second // a server that hangs leaves time to look at another one
	steps = append(steps,
		One("clock", func(ctx context.Context, check string) storage.Finding { return Clocks(ctx, check, s.Clock) }),
		One("round trip", func(ctx context.Context, check string) storage.Finding { return RoundTrips(ctx, check, s.Trip) }),
		One("canary", func(ctx context.Context, check string) storage.Finding { return Canary(ctx, check, store) }),
	)
	reach, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := s.Reach(reach); err != nil {
		findings := []storage.Finding{Mend(connection, err.Error(), "start the server, or mend its address, its name or the password")}
		for _, step := range steps {
			findings = append(findings, Skipped(step.check, "the server does not respond", "mend the connection first"))
		}
		return findings
	}
	findings := []storage.Finding{Good(connection, "the server responds")}
	for _, step := range steps {
		findings = append(findings, step.run(ctx, step.check))
	}
	return findings
}

// Nested returns the findings of a store below another one, with its place before each
// check.
func Nested(ctx context.Context, place string, store storage.Store) []storage.Finding {
	examiner, can := store.(storage.Examiner)
	if !can {
		return []storage.Finding{Skipped(place, fmt.Sprintf("a %T", store), "this store has no Examine")}
	}
	findings := examiner.Examine(ctx)
	for i := range findings {
		findings[i].Check = place + ": " + findings[i].Check
	}
	return findings
}

const (
	// trips is the number of measured round trips. One more warms the connection up.
	trips = 20
	// tripBudget is a quarter of the policies' default StoreTimeout: a claim on a new
	// connection takes up to four round trips.
	tripBudget = 125 * time.Millisecond
	// clockBudget is a difference of clocks that an operator will notice.
	clockBudget = 2 * time.Second
)

// RoundTrips measures calls of trip.
func RoundTrips(ctx context.Context, check string, trip func(ctx context.Context) error) storage.Finding {
	var times []time.Duration
	for range trips + 1 {
		start := time.Now()
		if err := trip(ctx); err != nil {
			return Skipped(check, err.Error(), "mend the connection first")
		}
		times = append(times, time.Since(start))
	}
	times = times[1:]
	slices.Sort(times)
	middle, longest := times[trips/2], times[trips-1]
	seen := fmt.Sprintf("%s in the middle, %s at most, of %d", middle.Round(time.Microsecond), longest.Round(time.Microsecond), trips)
	switch {
	case middle > tripBudget:
		return Mend(check, seen, "bring the service nearer to the store, or raise the policies' StoreTimeout above four round trips")
	case longest > tripBudget:
		return Look(check, seen, "a claim takes up to four round trips, and the policies' StoreTimeout is 500ms unless set")
	default:
		return Good(check, seen)
	}
}

// Clocks compares the store's clock with the clock of this process.
func Clocks(ctx context.Context, check string, clock func(ctx context.Context) (time.Time, error)) storage.Finding {
	before := time.Now()
	at, err := clock(ctx)
	trip := time.Since(before)
	if err != nil {
		return Skipped(check, err.Error(), "let this user read the server's clock")
	}
	difference := at.Sub(before.Add(trip / 2))
	seen := fmt.Sprintf("the store's clock is %s from this one, give or take %s", difference.Round(time.Millisecond), (trip / 2).Round(time.Millisecond))
	if difference.Abs() > clockBudget+trip {
		return Look(check, seen, "run NTP on both machines: only the store's clock ends leases, but times in logs do not agree")
	}
	return Good(check, seen)
}

// Inspectable is a store that can be examined by a canary.
type Inspectable interface {
	storage.Store
	storage.Inspector
}

// canaryBytes is the size of the canary's response: the policies' default MaxResponseBytes.
const canaryBytes = 1 << 20

// Canary claims, renews and completes a key of its own, reads the response, and removes
// the key. The record expires within a minute, should the process end meanwhile.
func Canary(ctx context.Context, check string, store Inspectable) storage.Finding {
	token := storage.NewToken()
	claim := storage.Claim{
		Key: storage.Key("", "", "oncekey examination", token.String()), Token: token, Fingerprint: "oncekey examination",
		LockTTL: time.Minute, Retain: time.Minute, Origin: storage.Origin{Holder: "oncekey examination"},
	}
	defer func() {
		removal, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = store.Forget(removal, claim.Key, storage.RerunIsSafe) // the record expires
	}()
	if step, err := serve(ctx, store, claim); err != nil {
		return Mend(check, fmt.Sprintf("%s: %v", step, err), "grant the right that the error names, or mend its cause")
	}
	return Good(check, "a key was claimed, renewed, completed with 1 MiB, replayed and removed")
}

// serve takes the steps of a request and of its retry, and returns the one that failed.
func serve(ctx context.Context, store Inspectable, c storage.Claim) (step string, err error) {
	lease, found, err := store.Acquire(ctx, c)
	if err != nil || found != nil {
		return "claim", orOther(err, "the key had a record")
	}
	if err := store.Extend(ctx, lease, c.LockTTL); err != nil {
		return "extend", err
	}
	res := storage.Result{State: storage.Completed, Status: 200, Body: bytes.Repeat([]byte("canary "), canaryBytes/len("canary ")), Retain: c.Retain}
	if err := store.Complete(ctx, lease, res); err != nil {
		return "complete", err
	}
	again := c
	again.Token = storage.NewToken()
	_, found, err = store.Acquire(ctx, again)
	if err != nil || found == nil || !bytes.Equal(found.Body, res.Body) {
		return "replay", orOther(err, "the response was not found: do two servers answer under one address?")
	}
	there, err := store.Forget(ctx, c.Key, storage.RerunIsSafe)
	if err != nil || !there {
		return "forget", orOther(err, "the record was not found")
	}
	return "", nil
}

func orOther(err error, other string) error {
	if err == nil {
		return errors.New(other)
	}
	return err
}
