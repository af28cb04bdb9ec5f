package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// points are the points of a completion at which a process is killed, in their order. The
// stock is reserved before the first one, and the order is placed before the last two.
var points = []string{
	"before the step's begin", "after the step's begin",
	"before the charge", "after the charge",
	"before the step's result", "after the step's result",
	"before the response", "after the response",
}

// stoppingAt opens a backend that says so when it reaches the point, and goes no further.
// Without a point it is the program's own.
func stoppingAt(point string) opener {
	return func(ctx context.Context, s settings) (*backend, error) {
		b, err := open(ctx, s)
		if err != nil || point == "" {
			return b, err
		}
		here := stop(point).at
		b.records = stoppingStore{b.records, here}
		charge := b.charge
		b.charge = func(ctx context.Context, key, token string, amount int64) (string, error) {
			here("before the charge")
			id, err := charge(ctx, key, token, amount)
			here("after the charge")
			return id, err
		}
		return b, nil
	}
}

// stop is a point of a process at which it waits for its end.
type stop string

func (s stop) at(point string) {
	if string(s) == point {
		fmt.Println("stopped")
		select {}
	}
}

// stoppingStore stops before or after the writes of a completion, and before the response of
// another operation.
type stoppingStore struct {
	storage.Store
	at func(point string)
}

func (s stoppingStore) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	name := " the step's begin"
	switch {
	case l.Steps == "": // a renewal
		name = ""
	case strings.Contains(l.Steps, `"result":`):
		name = " the step's result"
	}
	s.at("before" + name)
	defer s.at("after" + name)
	return s.Store.Extend(ctx, l, ttl)
}

func (s stoppingStore) Complete(ctx context.Context, l storage.Lease, result storage.Result) error {
	if l.Steps == "" { // not a completion
		s.at("before another response")
		return s.Store.Complete(ctx, l, result)
	}
	s.at("before the response")
	defer s.at("after the response")
	return s.Store.Complete(ctx, l, result)
}

// purchase has the requests of a checkout in one protocol.
type purchase struct{ create, update, cancel, complete, show func(id string) request }

var purchases = map[string]purchase{
	"ACP": {
		create:   func(string) request { return acpPost("", "create", acpCart) },
		update:   func(id string) request { return acpPost("/"+id, "update", acpCart) },
		cancel:   func(id string) request { return acpPost("/"+id+"/cancel", "cancel", "") },
		complete: func(id string) request { return acpPost("/"+id+"/complete", "complete", acpPay) },
		show:     func(id string) request { return acpGet("/" + id) },
	},
	"UCP": {
		create:   func(string) request { return ucpRequest(http.MethodPost, "", ucpKey("1"), ucpLines) },
		update:   func(id string) request { return ucpRequest(http.MethodPut, "/"+id, ucpKey("1"), ucpLines) },
		cancel:   func(id string) request { return ucpRequest(http.MethodPost, "/"+id+"/cancel", ucpKey("1"), "") },
		complete: func(id string) request { return ucpRequest(http.MethodPost, "/"+id+"/complete", ucpKey("1"), ucpPay) },
		show:     func(id string) request { return ucpRequest(http.MethodGet, "/"+id, "", "") },
	},
}

// killedEach runs a test for each protocol on each router, with a database file of its own.
func killedEach(t *testing.T, test func(m *merchant, router, file string, p purchase)) {
	t.Helper()
	for protocol, p := range purchases {
		for _, router := range []string{"chi", "gin"} {
			t.Run(protocol+" on "+router, func(t *testing.T) {
				t.Parallel()
				folder, err := os.MkdirTemp(os.Getenv("ONCEKEY_TEST_DATA"), "merchant-") //nolint:usetesting // in a folder that is chosen
				testkit.Must(t, err)
				file := filepath.Join(folder, "merchant.db")
				b, err := open(t.Context(), settings{store: "sqlite", file: file})
				testkit.Must(t, err)
				t.Cleanup(func() {
					if err := b.close(); err != nil {
						t.Error(err)
					}
					if err := os.RemoveAll(folder); err != nil {
						t.Error(err)
					}
				})
				test(&merchant{T: t, b: b}, router, file, p)
			})
		}
	}
}

// bought sends the completion until it gets 200, and expects one purchase and equal responses.
func (p *process) bought(in purchase, id string) {
	p.Helper()
	done := p.retry(p.Context(), in.complete(id))
	if done.status != http.StatusOK || done.member("status") != "completed" {
		p.Fatalf("the retry got %d %s, want the order", done.status, done.body)
	}
	p.keeps(done, in.complete(id))
	testkit.Equal(p, p.send(in.show(id)).body, done.body, "the session")
	p.expectEffects(effects{charges: 1, charged: 3000, orders: 1, mugs: 2})
}

// keeps expects the response again, as a replay.
func (p *process) keeps(done answer, r request) {
	p.Helper()
	if again := p.retry(p.Context(), r); again.status != done.status || again.body != done.body || !again.replayed() {
		p.Errorf("the next retry of %s got %d %s %v, want a replay of %d %s", r.path, again.status, again.body, again.header, done.status, done.body)
	}
}

// The process is killed at each point of a completion, and the agent's retry at the next
// process gets the order. There is one charge.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killedEach(t, func(m *merchant, router, file string, in purchase) {
				first := m.launch(router, file, point)
				id := first.retry(m.Context(), in.create("")).id()
				first.killedAt(in.complete(id))
				m.launch(router, file, "").bought(in, id)
			})
		})
	}
}

// One request is killed at every point, one after another.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	killedEach(t, func(m *merchant, router, file string, in purchase) {
		id := ""
		for _, point := range points {
			next := m.launch(router, file, point)
			if id == "" {
				id = next.retry(m.Context(), in.create("")).id()
			}
			next.killedAt(in.complete(id))
		}
		m.launch(router, file, "").bought(in, id)
	})
}

// The process is killed when a session was made, changed or canceled, before its response is
// stored. The retry gets the response, and there is one session.
func TestKilledInOtherOperations(t *testing.T) {
	t.Parallel()
	killedEach(t, func(m *merchant, router, file string, in purchase) {
		id := ""
		for _, operation := range []func(string) request{in.create, in.update, in.cancel} {
			m.launch(router, file, "before another response").killedAt(operation(id))
			next := m.launch(router, file, "")
			done := next.retry(m.Context(), operation(id))
			next.keeps(done, operation(id))
			next.program.Kill()
			if id == "" {
				id = done.id()
			}
		}
		sessions := 0
		if err := m.b.db.QueryRowContext(m.Context(), `SELECT count(*) FROM sessions`).Scan(&sessions); err != nil || sessions != 1 {
			m.Errorf("there are %d sessions, %v", sessions, err)
		}
	})
}
