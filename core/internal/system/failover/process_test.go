package failover

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const (
	path   = "/payments"
	client = "alice"
	// storeTimeout is long: even on a busy machine only a failure takes that long.
	storeTimeout = 5 * time.Second
)

func storageKey(key string) string { return storage.Key(client, http.MethodPost, path, key) }

// ledger counts the handler runs of all processes.
type ledger struct {
	mutex sync.Mutex
	runs  map[string][]uint64 // by key, the attempt number of each run
}

func newLedger() *ledger { return &ledger{runs: make(map[string][]uint64)} }

func (l *ledger) add(key string, attempt uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.runs[key] = append(l.runs[key], attempt)
}

// of returns the attempt number of each run of a key.
func (l *ledger) of(key string) []uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.runs[key]
}

// repeated returns the keys that ran more than once, and the number of all keys.
func (l *ledger) repeated() (repeated []string, total int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for key, runs := range l.runs {
		if len(runs) > 1 {
			repeated = append(repeated, key)
		}
	}
	return repeated, len(l.runs)
}

// process is an engine with a handler, in place of a process.
type process struct {
	engine  *core.Engine
	handler http.Handler
	// finish lets the handler of a key that begins with "slow" end.
	finish chan struct{}
}

const slow = "slow"

// start returns a process that keeps its records in store.
func (l *ledger) start(t *testing.T, store storage.Store) *process {
	t.Helper()
	return l.startWith(t, store, policy.StoreTimeout(storeTimeout))
}

func (l *ledger) startWith(t *testing.T, store storage.Store, opts ...policy.Option) *process {
	t.Helper()
	engine := service.Engine(t, store, core.ScopeBy(func(*http.Request) (string, error) { return client, nil }))
	p := &process{engine: engine, finish: make(chan struct{}, 1)}
	p.handler = engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := core.KeyFrom(r.Context())
		lease, _ := core.LeaseFrom(r.Context())
		l.add(key, lease.Attempt)
		if strings.HasPrefix(key, slow) {
			<-p.finish
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "paid %s", key)
	}), opts...)
	return p
}

// answer is the response that a client got.
type answer struct {
	status   int
	replayed bool
	body     string
	took     time.Duration
}

var (
	created     = answer{status: http.StatusCreated}
	replayed    = answer{status: http.StatusCreated, replayed: true}
	inProgress  = answer{status: http.StatusConflict}
	unavailable = answer{status: http.StatusServiceUnavailable}
)

func (a answer) is(want answer) bool { return a.status == want.status && a.replayed == want.replayed }

// expect fails the test if the response is different. Its name is for the message.
func (a answer) expect(t *testing.T, name string, want answer) {
	t.Helper()
	if !a.is(want) {
		t.Errorf("%s is %+v, want %+v", name, a, want)
	}
}

func (p *process) post(key string) answer {
	began := time.Now()
	recorder := testkit.Serve(p.handler, testkit.Post(context.Background(), path, key, `{"amount":4200}`))
	return answer{
		status: recorder.Code, replayed: recorder.Header().Get("X-Idempotent-Replay") == "true",
		body: recorder.Body.String(), took: time.Since(began),
	}
}

// expect posts a key and fails the test if the response is different.
func (p *process) expect(t *testing.T, key string, want answer) {
	t.Helper()
	p.post(key).expect(t, "the response to "+key, want)
}

// insist posts a key until the store is available, like a client that honours Retry-After,
// and returns the first other response.
func (p *process) insist(t *testing.T, key string) answer {
	t.Helper()
	var got answer
	testkit.Await(t, "for the store", func() bool {
		got = p.post(key)
		return !got.is(unavailable)
	})
	return got
}

// begin posts a slow key, and returns when its handler runs. The channel delivers the
// response after p.finish has released the handler.
func (p *process) begin(t *testing.T, l *ledger, key string) <-chan answer {
	t.Helper()
	before := len(l.of(key))
	answers := make(chan answer, 1)
	go func() { answers <- p.post(key) }()
	testkit.Await(t, "for the handler to run", func() bool { return len(l.of(key)) > before })
	return answers
}

// expectRuns compares the attempts with which a key ran.
func (l *ledger) expectRuns(t *testing.T, key string, want ...uint64) {
	t.Helper()
	testkit.Equal(t, fmt.Sprint(l.of(key)), fmt.Sprint(want), "the attempts of %s", key)
}
