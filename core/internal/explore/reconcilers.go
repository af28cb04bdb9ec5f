package explore

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Reconciler lets a pod run the engine's reconciler from From, for For.
type Reconciler struct {
	Pod         int
	From, For   time.Duration
	After       time.Duration
	Backoff     time.Duration
	FindTimeout time.Duration
	MaxAttempts uint64
	Alone       bool          // one question at a time
	Search      time.Duration // between two searches
	Takes       time.Duration // how long the FindFunc takes
	Responds    bool          // the FindFunc knows the response, or only that there was an effect
	Answers     []Answer      // one for each attempt, again from the first on
}

// Answer is how a FindFunc answers a question.
type Answer uint8

// The answers.
const (
	Truth   Answer = iota
	Again          // AskAgain
	Fails          // an error, beside a Finding
	Panics         // a panic
	Hangs          // an error when the context has ended
	Useless        // a response without a status
	numAnswers
)

// The texts of Answered facts: how a question ended.
const (
	saysResponse     = "response"
	saysHappened     = "happened"
	saysDidNotHappen = "did not happen"
	saysAgain        = "ask again"
	saysError        = "error"
)

// errProvider is the error of a FindFunc.
var errProvider = errors.New("the provider does not reply")

// reconcilerKey is the context key of a reconciler's number.
type reconcilerKey struct{}

func reconcilerOf(ctx context.Context) (n int, ok bool) {
	n, ok = ctx.Value(reconcilerKey{}).(int)
	return n, ok
}

// questionID is the first identity of questions. Each claim of a reconciler is one. The
// reconciler of number n has the identities from questionID + n*maxQuestions on.
const questionID, maxQuestions = 10_000, 10_000

// question is a reconciler and the key that it asks about.
type question struct{ reconciler, key int }

// reconcile runs a reconciler.
func (w *world) reconcile(p *pod, n int) {
	r := &w.plan.Reconcilers[n]
	sleep(r.From + time.Duration(w.hash(p.ID, n, 13)%1_000_000) - w.since())
	if p.isDead() {
		return
	}
	ctx := context.WithValue(context.WithValue(context.Background(), reconcilerKey{}, n), requestKey{}, -1)
	ctx, cancel := context.WithCancel(ctx) // a deadline would end the question's context in the same instant
	defer cancel()
	defer time.AfterFunc(r.For, cancel).Stop()
	options := core.ReconcileOptions{
		After: r.After, Every: 1, Backoff: r.Backoff, MaxBackoff: r.maxBackoff(), // the searches themselves take long: see List
		MaxAttempts: r.MaxAttempts, FindTimeout: r.FindTimeout,
	}
	if r.Alone {
		options.Concurrency = 1
	}
	err := p.engine.Reconcile(ctx, func(ctx context.Context, lost core.Lost) (core.Finding, error) {
		return p.find(ctx, n, &lost)
	}, options)
	w.add(Fact{Pod: p.ID, Request: -1, Kind: Rested, N: n, Err: err, Source: -1})
}

func (r *Reconciler) maxBackoff() time.Duration { return 3 * r.Backoff }

// find is the FindFunc. It tells the truth, or knows nothing.
func (p *pod) find(ctx context.Context, n int, lost *core.Lost) (core.Finding, error) {
	w, r := p.world, &p.world.plan.Reconcilers[n]
	key := w.numbers[lost.Record]
	f := Fact{Pod: p.ID, Request: w.questionOf(question{n, key}), Key: key, N: n, Source: -1}
	asked := f
	asked.Kind, asked.Attempt = Asked, lost.Attempt
	w.add(asked)
	f.Kind = Answered
	answer := r.Answers[int(lost.Attempt)%len(r.Answers)]
	takes := r.Takes
	if answer == Hangs {
		takes = 2*r.FindTimeout + 2*w.plan.Policy.LockTTL
	}
	ended := wait(ctx, takes)
	sleep(time.Duration(w.hash(f.Request, 14) % uint64(jitter))) // the end of a context wakes other goroutines, too
	p.hold(f.Request, 4_000_000)
	found, err := core.AskAgain, ended
	switch f.Text = saysError; {
	case ended != nil:
	case answer == Panics:
		defer panic(errProvider) // after the fact
	case answer == Fails:
		found, err = core.Happened, errProvider
	case answer == Useless:
		found = core.Responded(policy.Response{})
	case answer == Again:
		f.Text = saysAgain
	default:
		found, f.Text, f.Source = w.truth(key, lost.Step, r.Responds)
	}
	w.add(f)
	return found, err
}

// truth is the outcome of a key's operation. It is not known while a handler of the key
// runs in any process.
func (w *world) truth(key int, step string, responds bool) (found core.Finding, text string, source int) {
	source, happened := w.effectUnder(keyName(key))
	happened = happened || w.stepEnded(key, stepNumber(step))
	switch {
	case w.handles(key):
		return core.AskAgain, saysAgain, -1
	case !happened:
		return core.DidNotHappen, saysDidNotHappen, -1
	case !responds || source < 0:
		return core.Happened, saysHappened, source
	}
	header := http.Header{}
	header.Set(sourceHeader, strconv.Itoa(source))
	return core.Responded(policy.Response{Status: http.StatusCreated, Header: header, Body: []byte(recovered)}), saysResponse, source
}

// stepEnded reports whether the function of a key's step has run to its end in any run.
func (w *world) stepEnded(key, step int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.facts, func(f *Fact) bool { return f.Kind == Stepped && f.Key == key && f.N%10 == step })
}

// handles reports whether a handler of the key, or its step, runs in a process that was not killed.
func (w *world) handles(key int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := map[[2]int]bool{} // by request and step
	for _, f := range w.facts {
		if f.Key != key || w.isDead(f.Pod) {
			continue
		}
		switch f.Kind {
		case Started:
			open[[2]int{f.Request, -1}] = true
		case Stopped:
			delete(open, [2]int{f.Request, -1})
		case Entered:
			open[[2]int{f.Request, f.N}] = true
		case Stepped:
			delete(open, [2]int{f.Request, f.N % 10})
		case Ran:
			if f.Text == stepFails {
				delete(open, [2]int{f.Request, f.N})
			}
		default:
		}
	}
	return len(open) > 0
}

// inquire begins a question with a claim. A claim that is tried again is the same one.
func (w *world) inquire(p *pod, n int, c storage.Claim) caller {
	q := question{n, w.numbers[c.Key]}
	w.mu.Lock()
	known, tried := w.tokens[c.Token]
	id := questionID + n*maxQuestions + w.questions[n]
	if !tried {
		w.questions[n]++
		w.asking[q] = id
	}
	w.mu.Unlock()
	if tried {
		return known
	}
	w.add(Fact{Pod: p.ID, Request: id, Kind: Inquired, Key: q.key, N: n, Source: -1})
	return caller{request: id}
}

// questionOf is the last question of a reconciler about a key.
func (w *world) questionOf(q question) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asking[q]
}

// List implements storage.Inspector for reconcilers. A page has one key, so that the engine's
// shuffle changes nothing. The first page comes late, which is the time between two searches.
func (l *link) List(ctx context.Context, filter storage.Filter, page storage.Page) (listing storage.Listing, err error) {
	n, _ := reconcilerOf(ctx)
	at, _ := strconv.Atoi(page.Cursor)
	before := time.Duration(0)
	if at == 0 {
		before = l.world.plan.Reconcilers[n].Search
	}
	err = l.look(ctx, question{n, -1}, before, func() {
		key := l.world.storageKey(at)
		if r := l.world.store.lookup(key); r != nil && filter.Matches(r, l.world.store.now()) {
			listing.Entries = []storage.Entry{{Key: key, Record: r}}
		}
	})
	if at < l.world.lastKey() {
		listing.Next = strconv.Itoa(at + 1)
	}
	return listing, err
}

// lookFor is Lookup for a reconciler.
func (l *link) lookFor(ctx context.Context, n int, key string) (record *storage.Record, err error) {
	err = l.look(ctx, question{n, l.world.numbers[key]}, 0, func() { record = l.world.store.lookup(key) })
	return record, err
}

// look makes a reconciler's call that changes nothing.
func (l *link) look(ctx context.Context, q question, before time.Duration, do func()) error {
	who := caller{request: -1000 - 100*q.reconciler - q.key}
	j := journey{link: l, op: numOps, who: who, n: l.world.count(who, Acquire)}
	j.hold(2)
	err := j.pass(ctx, before+j.delay(0))
	if err == nil {
		do()
		err = j.pass(ctx, j.delay(1))
	}
	if err != nil {
		sleep(j.delay(3))
	}
	return err
}

// lastKey is the highest key of the plan.
func (w *world) lastKey() (last int) {
	for _, r := range w.plan.Requests {
		last = max(last, r.Key)
	}
	return last
}
