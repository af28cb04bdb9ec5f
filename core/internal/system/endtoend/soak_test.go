package endtoend

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/soak"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

const (
	soakWorkers    = 8
	soakLease      = time.Second
	auditedRetries = 2000
)

// TestSoakCrashes moves money and charges cards for the time in ONCEKEY_SOAK, while
// processes, servers and connections are killed and frozen at random (cases 3, 4, 7, 13,
// 17, 18, 19). Each client retries until a final response. At the end each key has at
// most one effect, and each response matches its effect.
func TestSoakCrashes(t *testing.T) {
	t.Parallel()
	soak.Duration(t, 0)
	for _, store := range []string{"postgres", "tiered"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			s := newCrashes(t, store)
			s.run()
			s.audit()
		})
	}
}

// crashes is a pair of processes that are killed and restarted, and the clients' responses.
type crashes struct {
	*fixture
	server    *postgrestest.Server
	processes [2]atomic.Pointer[instance]

	mu   sync.Mutex
	told map[request]answer // the final answers
}

func newCrashes(t *testing.T, store string) *crashes {
	t.Helper()
	s := &crashes{server: postgrestest.Start(t, postgrestest.Durable()...), told: make(map[request]answer)}
	if store == "tiered" {
		s.fixture = newTieredFixture(t, soakLease, s.server.DSN())
	} else {
		s.fixture = newFixtureAt(t, soakLease, s.server.DSN())
	}
	s.storeTimeout = shortStoreTimeout
	s.replace(0)
	s.replace(1)
	// Enough money for all transfers of a long soak.
	s.database.execute(`UPDATE payments_accounts SET balance = 1000000`)
	return s
}

func (s *crashes) replace(slot int) {
	s.t.Helper()
	s.processes[slot].Store(s.start([]string{"chi", "gin"}[slot]))
}

func (s *crashes) run() {
	s.t.Helper()
	done := make(chan struct{})
	var workers sync.WaitGroup
	defer workers.Wait() // all servers run again, and all clients get their responses
	defer close(done)
	for worker := range soakWorkers {
		workers.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-done:
					return
				default:
					s.insist(randomRequest(fmt.Sprintf("%d-%d", worker, round)))
				}
			}
		})
	}
	faults := 0
	soak.For(s.t, 0, func(int) {
		s.harm()
		<-time.After(rand.N(700 * time.Millisecond))
		faults++
	})
	s.t.Logf("%d faults", faults)
}

func randomRequest(key string) request {
	if rand.N(3) == 0 {
		return payment("tok_ok").withKey(key)
	}
	move := transfer(key)
	names := []string{"alice", "bob", "carol"}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	move.body = fmt.Sprintf(`{"from":%q,"to":%q,"amount":%d}`, names[0], names[1], 1+rand.N(5))
	return move
}

// harm makes one fault of processes or servers, and undoes a lasting fault.
func (s *crashes) harm() {
	s.t.Helper()
	slot := rand.N(len(s.processes))
	process := s.processes[slot].Load()
	switch fault := rand.N(20); {
	case fault < 8:
		process.Kill()
		s.replace(slot)
	case fault < 11:
		process.Pause()
		<-time.After(rand.N(2 * soakLease))
		process.Resume()
	case fault < 16:
		_, _ = s.database.db.ExecContext(s.t.Context(), `
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 3`) // the query may end its own connection
	case fault < 17:
		s.server.Kill()
		s.server.Restart()
	case fault < 18:
		s.server.Pause()
		<-time.After(rand.N(2 * soakLease))
		s.server.Resume()
	case s.redis == nil:
	case fault < 19:
		s.redis.Kill()
		<-time.After(rand.N(soakLease))
		s.redis.Restart()
	default:
		s.flush()
	}
}

// insist repeats a request at both processes at the same time until each has sent a final
// response. Both responses must be equal.
func (s *crashes) insist(r request) {
	var answers [2]answer
	testkit.Concurrently(len(answers), func(slot int) { answers[slot] = s.finalAnswer(slot, r) })
	first, second := answers[0], answers[1]
	switch {
	case first.is(created) && second.is(created):
		s.t.Errorf("%+v: both processes claim to have run the handler", r)
	case first.is(created) && isLost(r, second):
		first = second // the stored response
	case second.is(created) && isLost(r, first):
	case first.status != second.status || first.body != second.body:
		s.t.Errorf("%+v: one process sent %v, the other %v", r, first, second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[r] = first
}

// finalAnswer returns a response after which a client stops.
func (s *crashes) finalAnswer(slot int, r request) answer {
	var last answer
	answered := testkit.Poll(patience, func() bool {
		last = s.processes[slot].Load().send(r)
		return last.err == nil && last.status < http.StatusInternalServerError && last.shape().code != "in_progress"
	})
	if !answered {
		s.t.Errorf("%+v: no final response within %v, the last is %v", r, patience, last)
	}
	return last
}

// isLost reports whether the payment was made and its process died before the response was
// stored. The client may still have got the response, because a response that cannot be
// stored at once is sent. This never happens to a transfer.
func isLost(r request, a answer) bool {
	return r.path == "/payments" && a.status == http.StatusOK
}

// audit compares the clients' responses with the effects, and retries a part of the
// requests.
func (s *crashes) audit() {
	s.t.Helper()
	s.t.Logf("%d keys", len(s.told))
	effects := make(map[string]int) // by path and key
	for _, name := range s.database.texts(`
SELECT '/transfers' || request_key FROM payments_transfers UNION ALL SELECT '/payments' || (entry::json->>'key') FROM payments_ledger`) {
		effects[name]++
	}
	retries := 0
	for r, told := range s.told {
		if told.status != http.StatusCreated && !isLost(r, told) {
			s.t.Errorf("%+v: the response is %v", r, told)
		}
		testkit.Equal(s.t, effects[r.path+r.key], 1, "effects of %+v, whose response is %v", r, told)
		if retries++; retries < auditedRetries { // the order is random
			again := s.finalAnswer(retries%2, r) // a busy machine sometimes responds 503
			if again.status != told.status || again.body != told.body || !again.shape().replayed {
				s.t.Errorf("%+v: the response is %v, and then %v", r, told, again)
			}
		}
	}
	testkit.Equal(s.t, len(effects), len(s.told), "keys with effects")
	if wrong := ask[int](s.database, `
SELECT count(*) FROM payments_accounts a WHERE balance <> 1000000
	+ (SELECT coalesce(sum(amount), 0) FROM payments_transfers WHERE payee = a.name)
	- (SELECT coalesce(sum(amount), 0) FROM payments_transfers WHERE payer = a.name)`); wrong > 0 {
		s.t.Errorf("%d accounts have a wrong balance", wrong)
	}
}
