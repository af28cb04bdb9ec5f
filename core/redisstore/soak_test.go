package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/redistest"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/policy"
)

// TestSoak lets two processes serve first-time requests, retries and duplicates
// while their Redis, which forgets nothing that it has acknowledged, is killed,
// restarted and frozen: cases 1, 8, 11, 12, 13 and 15, for as long as
// ONCEKEY_SOAK says. Leases last, so that nothing is ever taken over. Then no
// handler runs twice, and an answer that a client was shown is the answer for
// good.
func TestSoak(t *testing.T) {
	t.Parallel()
	duration, err := time.ParseDuration(os.Getenv("ONCEKEY_SOAK"))
	if err != nil {
		t.Skip("ONCEKEY_SOAK is no duration: see make soak")
	}
	server := redistest.Start(t, redistest.Persistent()...)
	s := &soak{t: t, server: server, keys: map[string]*soakedKey{}}
	processes := []*soakedProcess{s.start(), s.start()}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 24 {
		clients.Go(func() { s.send(ctx, processes) })
	}
	s.torment(duration)
	stop()
	clients.Wait()
	for _, process := range processes {
		process.stop()
	}

	// Others take their place, who know nothing but what is stored.
	processes = []*soakedProcess{s.start(), s.start()}
	stuck := s.forgetStuck(processes[0].store)
	for name := range s.keys {
		for _, process := range processes {
			if status := s.request(process, name); status != http.StatusCreated {
				t.Errorf("%s is answered with %d in the end", name, status)
			}
		}
		if runs := s.keys[name].runs; runs != 1 {
			t.Errorf("the handler of %s ran %d times, want once", name, runs)
		}
	}
	for _, process := range processes {
		process.stop()
	}
	t.Logf("%d keys, %d requests (%d answered, %d in progress, %d unavailable), %d faults, %d keys freed by an operator",
		len(s.keys), s.requests.Load(), s.created.Load(), s.concurrent.Load(), s.unavailable.Load(), s.faults, stuck)
}

type soak struct {
	t      *testing.T
	server *redistest.Server
	faults int

	requests, created, concurrent, unavailable atomic.Int64

	mutex sync.Mutex
	keys  map[string]*soakedKey
}

// soakedKey is what has happened under a key.
type soakedKey struct {
	runs  int
	shown string // the first answer that a client got
}

type soakedProcess struct {
	store   *redisstore.Store
	handler http.Handler
	stop    func()
}

// start begins a process, with connections and an engine of its own.
func (s *soak) start() *soakedProcess {
	s.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.server.Addr(), ContextTimeoutEnabled: true})
	store := redisstore.New(rdb)
	engine, err := core.New(store, core.SharedScope, core.WithObserver(silence{}))
	must(s.t, err)
	return &soakedProcess{
		store: store,
		handler: engine.Handler(http.HandlerFunc(s.pay),
			policy.LockTTL(24*time.Hour), policy.TTLHours(48), policy.StoreTimeout(300*time.Millisecond)),
		stop: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
			defer cancel()
			must(s.t, engine.Shutdown(ctx))
			must(s.t, rdb.Close())
		},
	}
}

// pay is the handler.
func (s *soak) pay(w http.ResponseWriter, r *http.Request) {
	pauseUpTo(r.Context(), 20*time.Millisecond)
	s.mutex.Lock()
	key := s.keys[r.Header.Get(core.KeyHeader)]
	key.runs++
	s.mutex.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "payment %d", rand.Uint64())
}

// send is a client that sends requests, most of them retries and duplicates.
func (s *soak) send(ctx context.Context, processes []*soakedProcess) {
	const perKey, atATime = 40, 30
	for ctx.Err() == nil {
		name := fmt.Sprintf("key-%d", s.requests.Add(1)/perKey+rand.Int64N(atATime))
		switch status := s.request(processes[rand.IntN(len(processes))], name); status {
		case http.StatusCreated:
			s.created.Add(1)
		case http.StatusConflict:
			s.concurrent.Add(1)
		case http.StatusServiceUnavailable:
			s.unavailable.Add(1)
		default:
			s.t.Errorf("%s is answered with %d", name, status)
		}
		pauseUpTo(ctx, 20*time.Millisecond)
	}
}

// request sends one request, and checks that its answer is the one shown before.
func (s *soak) request(process *soakedProcess, name string) int {
	s.mutex.Lock()
	key := s.keys[name]
	if key == nil {
		key = &soakedKey{}
		s.keys[name] = key
	}
	s.mutex.Unlock()
	request := httptest.NewRequest(http.MethodPost, "/payments", http.NoBody)
	request.Header.Set(core.KeyHeader, name)
	recorder := httptest.NewRecorder()
	process.handler.ServeHTTP(recorder, request)
	if recorder.Code == http.StatusCreated {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		switch body := recorder.Body.String(); key.shown {
		case "":
			key.shown = body
		case body:
		default:
			s.t.Errorf("%s is answered with %q, and was answered with %q", name, body, key.shown)
		}
	}
	return recorder.Code
}

// torment does to the server what happens to servers.
func (s *soak) torment(duration time.Duration) {
	ctx := s.t.Context()
	for end := time.Now().Add(duration); time.Now().Before(end); s.faults++ {
		pauseUpTo(ctx, 2*time.Second)
		switch rand.IntN(3) {
		case 0:
			s.server.Kill()
			pauseUpTo(ctx, time.Second)
			s.server.Restart()
		case 1:
			s.server.Restart()
		default:
			s.server.Pause()
			pauseUpTo(ctx, 2*time.Second)
			s.server.Resume()
		}
	}
}

// forgetStuck frees the keys whose claim reached the server after its caller had
// given up, and the release of that claim, as an operator would who knows that
// nothing has happened under them. There are few, if any.
func (s *soak) forgetStuck(store *redisstore.Store) int {
	s.t.Helper()
	stuck := listAll(s.t, store, core.InProgress, 1000)
	for name, key := range s.keys {
		storageKey := core.StorageKey("\x00shared", http.MethodPost, "/payments", name)
		if stuck[storageKey] == nil {
			continue
		}
		if key.runs > 0 {
			s.t.Errorf("%s is in progress in the end, and its handler has run", name)
		}
		there, err := store.Forget(s.t.Context(), storageKey, core.RerunIsSafe)
		if err != nil || !there {
			s.t.Errorf("Forget returned %t and %v, want true", there, err)
		}
	}
	return len(stuck)
}

func pauseUpTo(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// silence observes nothing.
type silence struct{}

func (silence) Observe(context.Context, core.Event) {}
