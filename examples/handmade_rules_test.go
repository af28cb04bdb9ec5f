package examples_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// play is one event: two pods behind one kind of guard, and the handler of a payment.
type play struct {
	t      *testing.T
	cache  *cache // of the guards by hand, and the list of pods that are cut off
	pods   [2]http.Handler
	stores [2]*testkit.Faulty      // of oncekey's engines, or nil
	before func(pod int) (ok bool) // the handler's work before the charge; not ok: it responds with 500
	after  func(pod int)           // and behind it

	mu        sync.Mutex
	charges   int
	responses []string
}

func (p *play) handler(pod int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.before != nil && !p.before(pod) {
			failure.MarkRetryable(r.Context()) // nothing has happened; without a guard of oncekey it has no effect
			http.Error(w, "the provider cannot be reached", http.StatusInternalServerError)
			return
		}
		p.mu.Lock()
		p.charges++
		p.mu.Unlock()
		if p.after != nil {
			p.after(pod)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, r.Header.Get("User"))
	})
}

// request sends a payment, and again each 10 seconds while the response is 409, for two minutes at most.
func (p *play) request(pod int, user, body string) {
	p.t.Helper()
	var w *httptest.ResponseRecorder
	for range 12 {
		r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/payments", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("User", user)
		w = httptest.NewRecorder()
		p.pods[pod].ServeHTTP(w, r)
		if w.Code != http.StatusConflict {
			break
		}
		<-time.After(10 * time.Second)
	}
	said := fmt.Sprint(w.Code)
	if w.Code == http.StatusCreated && w.Body.String() != user {
		said += " of " + w.Body.String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.responses = append(p.responses, said)
}

// atOnce sends equal requests to pods at the same time.
func (p *play) atOnce(pods ...int) {
	p.before = func(int) bool { <-time.After(time.Second); return true }
	var clients sync.WaitGroup
	for _, pod := range pods {
		clients.Go(func() { p.request(pod, "alice", `{"amount":1}`) })
	}
	clients.Wait()
	slices.Sort(p.responses)
}

// cut cuts a pod off from the store, or ends that.
func (p *play) cut(pod int, off bool) {
	var err error
	if off {
		err = errCutOff
	}
	p.cache.cut(pod, err)
	if store := p.stores[pod]; store != nil {
		store.Fail(err, testkit.Acquire, testkit.Extend, testkit.Complete, testkit.Release)
	}
}

// events are the rows of docs/comparison.md.
var events = []struct {
	name string
	play func(p *play)
}{
	{"two equal requests at once, at one pod", func(p *play) { p.atOnce(0, 0) }},
	{"two equal requests at once, at two pods", func(p *play) { p.atOnce(0, 1) }},
	{"the handler takes 45 seconds, and the client retries after 31", func(p *play) {
		p.before = func(int) bool { <-time.After(45 * time.Second); return true }
		var first sync.WaitGroup
		first.Go(func() { p.request(0, "alice", `{"amount":1}`) })
		<-time.After(31 * time.Second)
		p.request(1, "alice", `{"amount":1}`)
		first.Wait()
	}},
	{"the pod dies after the charge", func(p *play) {
		dead := make(chan struct{})
		p.after = func(pod int) {
			if pod == 0 {
				p.cut(0, true)
				<-dead
			}
		}
		var first sync.WaitGroup
		first.Go(func() { p.request(0, "alice", `{"amount":1}`) })
		<-time.After(time.Minute)
		p.request(1, "alice", `{"amount":1}`)
		said := p.responses // the first client got none
		p.cut(0, false)
		close(dead)
		first.Wait()
		p.responses = said
	}},
	{"the store fails while the response is saved", func(p *play) {
		p.after = func(pod int) {
			p.cut(pod, true)
			time.AfterFunc(2*time.Second, func() { p.cut(pod, false) })
		}
		p.request(0, "alice", `{"amount":1}`)
		<-time.After(5 * time.Second)
		p.after = nil
		p.request(1, "alice", `{"amount":1}`)
	}},
	{"the handler responds with 500 before the charge, and the client retries", func(p *play) {
		tries := 0
		p.before = func(int) bool { tries++; return tries > 1 }
		p.request(0, "alice", `{"amount":1}`)
		p.request(1, "alice", `{"amount":1}`)
	}},
	{"another payload under the same key", func(p *play) {
		p.request(0, "alice", `{"amount":1}`)
		p.request(0, "alice", `{"amount":9900}`)
	}},
	{"another user sends the same key", func(p *play) {
		p.request(0, "alice", `{"amount":1}`)
		p.request(0, "bob", `{"amount":1}`)
	}},
}

// guards are the columns. Both forms by hand have a lock or none, and oncekey has its
// defaults, but for the key of a process that died.
var guards = []func(p *play) func(){
	func(p *play) func() { return byHand(p, 0) },
	func(p *play) func() { return byHand(p, 30*time.Second) },
	func(p *play) (end func()) {
		store, user := memstore.New(), func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }
		var engines [2]*core.Engine
		for pod := range p.pods {
			quiet := core.WithObserver(event.Log(slog.New(slog.DiscardHandler)))
			p.stores[pod] = &testkit.Faulty{Store: store}
			engine, err := core.New(p.stores[pod], core.ScopeBy(user), quiet)
			testkit.Must(p.t, err)
			engines[pod] = engine
			p.pods[pod] = engine.Handler(p.handler(pod), policy.OnAbandoned(policy.Refuse))
		}
		return func() {
			for _, engine := range engines {
				if err := engine.Shutdown(p.t.Context()); err != nil {
					p.t.Error(err)
				}
			}
		}
	},
}

func byHand(p *play, lock time.Duration) (end func()) {
	for pod := range p.pods {
		p.pods[pod] = handmade{p.cache, pod, lock}.wrap(p.handler(pod))
	}
	return func() {}
}

// The table of docs/comparison.md has the responses and the charges of each guard.
func TestYourOwnTwoHundredLines(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll(readPage(t, "../docs/comparison.md").text, "**", "")
	for _, of := range events {
		t.Run(of.name, func(t *testing.T) {
			row := "| " + of.name + " |"
			for _, guard := range guards {
				synctest.Test(t, func(t *testing.T) {
					p := &play{t: t, cache: &cache{values: map[string]cached{}, cutOff: map[int]error{}}}
					end := guard(p)
					of.play(p)
					end()
					row += fmt.Sprintf(" %s; charged %d |", strings.Join(p.responses, ", "), p.charges) // leaves the bubble: a text
				})
			}
			if !strings.Contains(page, "\n"+row+"\n") {
				t.Errorf("docs/comparison.md does not have the row\n%s", row)
			}
		})
	}
}
