package availability

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

const (
	// pace is the interval of the pairs: 100 requests a second at each service. Pairs are
	// sent at their time, whether or not earlier ones have their responses.
	pace = 10 * time.Millisecond
	// repeats is how often a pair is a retry of an earlier key: each fourth one.
	repeats = 4
	// crowd bounds the pairs that wait for their responses.
	crowd = 2000
)

// answer is the part of a response on which a client acts.
type answer struct {
	status int
	code   string // of the guard's problem; empty: a response of the service itself
	ended  time.Time
}

func (a answer) succeeded() bool { return a.status == http.StatusCreated }

// refused reports whether the guard has refused the request.
func (a answer) refused() bool { return a.code != "" }

// post sends one request with an idempotency key.
type post func(ctx context.Context, key string) answer

// pair is a request to the guarded service, and its twin to the other one.
type pair struct {
	key           string
	first         bool // the first request of its key
	began         time.Time
	guarded, bare answer
}

// load is the steady traffic of one measurement.
type load struct {
	guarded, bare post
	stop          context.CancelFunc
	group         sync.WaitGroup

	mutex sync.Mutex
	pairs []pair // those with both responses, in the order of the later one
}

// start sends pairs until end, or the end of the test.
func start(t *testing.T, guarded, bare post) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &load{guarded: guarded, bare: bare, stop: stop}
	l.group.Go(func() { l.run(ctx) })
	t.Cleanup(l.end)
	return l
}

// end returns when each request has its response.
func (l *load) end() { l.stop(); l.group.Wait() }

func (l *load) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	places := make(chan struct{}, crowd)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		key, first := fmt.Sprint("key-", n), true
		if known, is := l.known(n); is && n%repeats == 0 {
			key, first = known, false
		}
		places <- struct{}{} // each request ends by its deadline
		l.group.Go(func() {
			l.send(context.WithoutCancel(ctx), key, first)
			<-places
		})
	}
}

// known returns the key of an earlier request that has its responses.
func (l *load) known(n int) (string, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.pairs) == 0 {
		return "", false
	}
	return l.pairs[n%len(l.pairs)].key, true
}

func (l *load) send(ctx context.Context, key string, first bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	one := pair{key: key, first: first, began: time.Now()}
	var both sync.WaitGroup
	both.Go(func() { one.guarded = l.guarded(ctx, key); one.guarded.ended = time.Now() })
	both.Go(func() { one.bare = l.bare(ctx, key); one.bare.ended = time.Now() })
	both.Wait()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pairs = append(l.pairs, one)
}

// since returns the pairs that began after a moment, in the order of their begins.
func (l *load) since(moment time.Time) []pair {
	return l.which(func(p pair) bool { return p.began.After(moment) })
}

// endedSince returns the pairs that began or ended after a moment.
func (l *load) endedSince(moment time.Time) []pair {
	return l.which(func(p pair) bool { return p.guarded.ended.After(moment) || p.bare.ended.After(moment) })
}

func (l *load) which(is func(pair) bool) []pair {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var found []pair
	for _, one := range l.pairs {
		if is(one) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b pair) int { return a.began.Compare(b.began) })
	return found
}

// of is the choice of a service's responses.
type of func(pair) answer

func ofGuarded(p pair) answer { return p.guarded }
func ofBare(p pair) answer    { return p.bare }

// flows reports whether a service serves: the last new keys since a moment were all served.
func (l *load) flows(moment time.Time, which of) bool {
	return service.Flows(l.since(moment), func(one pair) bool { return which(one).succeeded() }, func(one pair) bool { return one.first })
}

// fails reports whether a service has failed a new key since a moment.
func (l *load) fails(moment time.Time, which of) bool {
	return slices.ContainsFunc(l.since(moment), func(one pair) bool { return one.first && !which(one).succeeded() })
}

// awaitFlow waits until both services serve new keys that begin from now on.
func (l *load) awaitFlow(t *testing.T) {
	t.Helper()
	now := time.Now()
	testkit.Await(t, "for both services to serve", func() bool { return l.flows(now, ofGuarded) && l.flows(now, ofBare) })
}

// awaitOutage waits until both services have failed since a moment.
func (l *load) awaitOutage(t *testing.T, moment time.Time) {
	t.Helper()
	testkit.Await(t, "for the outage", func() bool { return l.fails(moment, ofGuarded) && l.fails(moment, ofBare) })
}

// insist repeats each new key that the guard's service did not serve, until it serves it, as
// clients do.
func (l *load) insist(t *testing.T) {
	t.Helper()
	var left []string
	for _, one := range l.since(time.Time{}) {
		if one.first && !one.guarded.succeeded() {
			left = append(left, one.key)
		}
	}
	const clients = 8
	testkit.Concurrently(clients, func(n int) {
		for i := n; i < len(left); i += clients {
			l.insistOn(t, left[i])
		}
	})
}

func (l *load) insistOn(t *testing.T, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var last answer
	if !testkit.Poll(patience, func() bool { last = l.guarded(ctx, key); return last.succeeded() }) {
		t.Errorf("%s is still refused after %v: %d %s", key, patience, last.status, strings.TrimSpace(last.code))
	}
}
