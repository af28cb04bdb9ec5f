package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// reconciler settles abandoned keys, see Engine.Reconcile.
type reconciler struct {
	shared  *shared
	routeOf func(pattern string) *Route
	records *Inspector
	find    FindFunc
	options ReconcileOptions
}

// run searches until ctx ends or the engine shuts down.
func (r *reconciler) run(ctx context.Context) {
	for !r.isOver(ctx) {
		r.sweep(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(r.options.Every/2 + rand.N(r.options.Every)): //nolint:gosec // processes that start together part
		}
	}
}

// isOver reports whether ctx has ended or the engine shuts down.
func (r *reconciler) isOver(ctx context.Context) bool {
	_, refusal := r.shared.ledger.Find(new([sha256.Size]byte))
	return ctx.Err() != nil || refusal == problem.ShuttingDown
}

// sweep asks about the keys that are due.
func (r *reconciler) sweep(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	places := make(chan struct{}, r.options.Concurrency)
	filter := storage.Filter{Abandoned: true, OlderThan: min(r.options.After, r.options.Backoff)}
	for page := (storage.Page{Limit: 100}); ; {
		listing, err := r.list(ctx, filter, page)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.shared.observer.Observe(ctx, &event.Event{Result: event.StoreError, Err: err})
			return
		}
		rand.Shuffle(len(listing.Entries), func(i, j int) { //nolint:gosec // other processes have the same list
			listing.Entries[i], listing.Entries[j] = listing.Entries[j], listing.Entries[i]
		})
		for _, entry := range listing.Entries {
			if entry.Origin.Program != r.shared.program || !r.options.isDue(entry.Record) { // another service may share the store
				continue
			}
			select {
			case <-ctx.Done():
				return
			case places <- struct{}{}:
			}
			asking.Go(func() {
				defer func() { <-places }()
				r.ask(ctx, entry.Key)
			})
		}
		if page.Cursor = listing.Next; page.Cursor == "" {
			return
		}
	}
}

// readTimeout bounds a page of the list, and the look-up of a record.
const readTimeout = 30 * time.Second

func (r *reconciler) list(ctx context.Context, filter storage.Filter, page storage.Page) (storage.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.records.List(ctx, filter, page)
}

// ask asks about one key, if it is still due.
func (r *reconciler) ask(ctx context.Context, key string) {
	record, err := r.lookup(ctx, key)
	if err != nil {
		r.shared.observer.Observe(ctx, &event.Event{Result: event.StoreError, Record: key, Err: err})
		return
	}
	if record == nil || !r.options.isDue(record) {
		return // another process was first
	}
	run := r.take(ctx, key, record)
	if run == nil {
		return
	}
	lost := Lost{
		Record: key, Route: record.Origin.Route, Step: run.hold.Steps().CutOff(), Attempt: record.Attempt,
		Created: record.Created, Holder: record.Origin.Holder, Trace: record.Origin.Trace,
	}
	settled := AskAgain // also after a FindFunc that ends its goroutine
	defer func() { r.settle(run, settled) }()
	found, err := r.findOut(ctx, run, lost)
	if err == nil && found.kind == responded {
		err = checkFound(run, &found.response)
	}
	if err != nil {
		run.report(event.Event{Result: event.RecoverError, Err: err})
		found = AskAgain
	}
	settled = found
}

func (r *reconciler) lookup(ctx context.Context, key string) (*storage.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.records.Lookup(ctx, key)
}

// take claims an abandoned key, as a retry of its request would. It returns nil if the key
// has another attempt by now.
func (r *reconciler) take(ctx context.Context, key string, record *storage.Record) *Run {
	s, route := r.shared, r.routeOf(record.Origin.Route)
	a := newAttempt(s, route)
	if n, err := hex.Decode(a.digest[:], []byte(key)); n != sha256.Size || err != nil {
		return nil // no key of an engine
	}
	a.name()
	a.record, a.wasRead, a.request.Pattern = key, true, record.Origin.Route
	p := &route.policy
	origin := record.Origin
	origin.Holder = ledger.Shortened(asker+s.holder, ledger.MaxOriginText)
	a.claimant = newClaimant(a.identity)
	defer a.forget()
	a.claimant.context, a.claimant.made = ctx, true
	a.claimant.claim = storage.Claim{
		Key: key, Token: storage.NewToken(), Fingerprint: record.Fingerprint, Digest: record.Digest,
		LockTTL: p.LockTTL, Retain: p.LockTTL + p.TTL, Remember: p.Remember, Origin: origin, TakeOver: true,
	}
	hold, refusal := s.ledger.BeginClaim(&a.digest)
	if hold != nil || refusal != "" {
		return nil
	}
	defer s.ledger.EndClaim(&a.claim)
	a.claim.Request, a.claim.Call, a.claim.Timeout = a.claimant, &a.call, p.StoreTimeout
	found, err := s.ledger.Make(ctx, &a.claim)
	if err != nil || found != nil {
		return nil
	}
	if lease := a.claim.Lease; !lease.TookOver || lease.Attempt != record.Attempt+1 {
		s.ledger.GiveBack(ctx, &a.claim) // it has another attempt, or none, and the next search sees which
		return nil
	}
	run, refusal := newRun(ctx, a)
	if refusal != "" {
		run.context.end(nil)
		s.ledger.GiveBack(ctx, &a.claim)
		return nil
	}
	return run
}

// findOut calls the FindFunc.
func (r *reconciler) findOut(ctx context.Context, run *Run, lost Lost) (found Finding, err error) {
	inside, cancel := context.WithTimeout(aside(run), r.options.FindTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer panicked.ToError("FindFunc", &err)
	return r.find(inside, lost)
}

// settle ends the run of a question. The store's confirmation is the event reconciled, also
// where it comes later, in the background.
func (r *reconciler) settle(run *Run, found Finding) {
	done := event.Event{Result: event.Reconciled, Reason: string(found.kind), Status: found.response.Status}
	switch found.kind {
	case responded:
		response := Response{Status: found.response.Status, Header: wire.HeaderOf(found.response.Header), Body: found.response.Body}
		run.endByAnswer(&response, done)
	case happened:
		run.endByAnswer(&Response{Status: storage.StatusByHand, Unreplayable: true}, done)
	case didNotHappen:
		run.endByAnswer(nil, done)
	default:
		if run.hold.Abandon(); run.hold.Lease.Attempt >= r.options.MaxAttempts {
			run.report(event.Event{Result: event.ReconcileGaveUp})
		}
	}
}
