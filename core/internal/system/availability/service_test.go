package availability

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// lease is how long a claim blocks its key when an outage has swallowed the reply. It is
// longer than the outages that the tests make, so that no lease ends in one.
const lease = 15 * time.Second

// write is the handler's effect: one write for a key in the store that has the records too.
type write func(ctx context.Context, key string) error

// pay returns the handler of both services.
func pay(effect write) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := effect(r.Context(), r.Header.Get("Idempotency-Key")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
}

// inTime gives a write as much time as a call of the guard's store has.
func inTime(effect write) write {
	return func(ctx context.Context, key string) error {
		ctx, cancel := context.WithTimeout(ctx, policy.DefaultStoreTimeout)
		defer cancel()
		return effect(ctx, key)
	}
}

// bare returns a service without a guard.
func bare(effect write) post { return direct(pay(inTime(effect))) }

// guarded returns a service with a guard. It has no work left when the test ends.
func guarded(t *testing.T, store storage.Store, effect write, opts ...policy.Option) post {
	t.Helper()
	opts = append([]policy.Option{policy.LockTTL(lease)}, opts...)
	return direct(service.Engine(t, store, core.SharedScope).Handler(pay(inTime(effect)), opts...))
}

// direct sends requests without a network.
func direct(handler http.Handler) post {
	return func(ctx context.Context, key string) answer {
		response := testkit.Serve(handler, request(ctx, "/payments", key)).Result()
		defer response.Body.Close()
		return read(response)
	}
}

func request(ctx context.Context, url, key string) *http.Request {
	return testkit.Post(ctx, url, key, `{"amount":4200}`)
}

// read returns the answer in a response.
func read(response *http.Response) answer {
	a := answer{status: response.StatusCode}
	if response.Header.Get("Content-Type") == "application/problem+json" {
		var p struct{ Code string }
		const most = 64 << 10
		if err := json.NewDecoder(io.LimitReader(response.Body, most)).Decode(&p); err == nil {
			a.code = p.Code
		}
	}
	return a
}

// ledger counts the effects that a store without transactions has confirmed.
type ledger struct {
	mutex sync.Mutex
	times map[string][]time.Time // by key, when the confirmed effects began
}

// counted wraps the effects of all runs of a guarded service.
func (l *ledger) counted(effect write) write {
	l.times = make(map[string][]time.Time)
	return func(ctx context.Context, key string) error {
		began := time.Now()
		err := effect(ctx, key)
		if err == nil {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			l.times[key] = append(l.times[key], began)
		}
		return err
	}
}

func (l *ledger) effects(*testing.T) map[string]int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	counts := make(map[string]int, len(l.times))
	for key, times := range l.times {
		counts[key] = len(times)
	}
	return counts
}

// first returns when the first effect of a key began.
func (l *ledger) first(key string) time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.times[key][0]
}
