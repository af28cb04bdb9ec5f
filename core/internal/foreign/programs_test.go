package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // debug mode prints every route
	gin.DefaultWriter, gin.DefaultErrorWriter = io.Discard, io.Discard
	goleak.VerifyTestMain(postgrestest.Main(m))
}

// A check runs a program, and returns its faults.
type check struct {
	name string
	run  func(*testing.T, program) error
}

// checks are what each program must do, and ofDatabases a program with a database.
var checks = []check{
	{"replay", replay},
	{"duplicates", duplicates},
	{"payload", payload},
	{"panic", panics},
	{"error", fails},
	{"MaxRun", outlives},
}

var ofDatabases = []check{{"rollback", rollback}}

func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, p := range slices.Concat(routers, generated, withDatabases) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			checks := checks
			if p.store != nil {
				checks = slices.Concat(checks, ofDatabases)
				postgrestest.Shared(t) // its server must not start in a bubble
			}
			for _, c := range checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if err := c.run(t, p); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

func succeed(context.Context) error { return nil }

var errFailed = errors.New("the provider is down")

func replay(t *testing.T, p program) error {
	c := p.start(t, succeed)
	first := c.wantSent(1, p.statusOf(), false)
	again := c.wantSent(1, p.statusOf(), true)
	c.want(first.body != "" && again.body == first.body, "the replay is %s after %s", again, first)
	c.wantEffects(1)
	return c.fault()
}

func payload(t *testing.T, p program) error {
	c := p.start(t, succeed)
	c.wantSent(1, p.statusOf(), false)
	c.wantSent(2, http.StatusUnprocessableEntity, false)
	c.wantEffects(1)
	return c.fault()
}

// duplicates sends 50 requests. The handler that runs responds after all others.
func duplicates(t *testing.T, p program) error {
	const crowd = 50
	began, proceed := make(chan struct{}, crowd), make(chan struct{})
	c := p.start(t, func(context.Context) error {
		began <- struct{}{}
		<-proceed
		return nil
	}, policy.StoreTimeout(time.Minute)) // a busy machine opens 50 connections late
	responses, statuses, running := make(chan response, crowd), map[int]int{}, 0
	for range crowd {
		go func() { responses <- c.send(1) }()
	}
	for range crowd { // each has a response, or its handler runs
		select {
		case <-began:
			running++
		case got := <-responses:
			statuses[got.status]++
		}
	}
	close(proceed)
	for range running {
		statuses[(<-responses).status]++
	}
	c.want(statuses[http.StatusConflict] == crowd-1 && statuses[p.statusOf()] == 1, "got %v", statuses)
	c.wantEffects(1)
	return c.fault()
}

// panics: the client gets no empty success, and a retry runs.
func panics(t *testing.T, p program) error {
	broken := true
	c := p.start(t, func(context.Context) error {
		if broken {
			panic("boom")
		}
		return nil
	})
	got := c.send(1)
	c.want(got.status == p.failedOf() && !p.aborts || got.lost && p.aborts, "got %s", got)
	c.wantEffects(1)
	broken = false
	c.wantSent(1, p.statusOf(), false)
	c.wantEffects(2)
	return c.fault()
}

// fails: an error of the handler releases the key.
func fails(t *testing.T, p program) error {
	fault := errFailed
	c := p.start(t, func(context.Context) error { return fault })
	c.wantSent(1, p.failedOf(), false)
	fault = nil
	c.wantSent(1, p.statusOf(), false)
	c.wantSent(1, p.statusOf(), true)
	c.wantEffects(2)
	return c.fault()
}

// outlives: the handler's context ends with MaxRun. No other handler runs before it has
// returned. Then the retry runs, because the first run has failed.
func outlives(t *testing.T, p program) (fault error) {
	synctest.Test(t, func(t *testing.T) {
		var c *client
		deaf, late := false, true
		c = p.start(t, func(ctx context.Context) error {
			if !late {
				return nil
			}
			late = false
			if deaf = ctx.Done() == nil; deaf {
				return errFailed
			}
			<-ctx.Done()
			if !p.remote { // else the run may have ended
				got := c.send(1)
				c.want(got.code == problem.InProgress, "a retry got %s", got)
			}
			return fmt.Errorf("too late: %w", context.Cause(ctx))
		}, policy.MaxRun(time.Minute))
		got := c.send(1)
		c.want(!got.replay && got.status != p.statusOf() || got.status == p.failedOf(), "got %s", got)
		c.want(deaf == p.deaf, "the context is deaf to the run's end: %v", deaf)
		c.wantEffects(1)
		c.wantSent(1, p.statusOf(), false)
		c.wantEffects(2)
		fault = c.fault() // leaves the bubble: an error
	})
	return fault
}

// rollback: a transactional handler that fails leaves neither row nor record.
func rollback(t *testing.T, p program) error {
	fault := errFailed
	c := p.start(t, func(context.Context) error { return fault })
	c.wantSent(1, p.failedOf(), false)
	c.wantKept(0)
	fault = nil
	c.wantSent(1, p.statusOf(), false)
	c.wantSent(1, p.statusOf(), true)
	c.wantKept(1)
	return c.fault()
}

// wantKept counts rows and records.
func (c *client) wantKept(n int) {
	rows, err := c.rows()
	c.want(err == nil && rows == n, "%d rows, %v, want %d", rows, err, n)
	inspector, err := c.engine.Inspector()
	testkit.Must(c, err)
	list, err := inspector.List(c.Context(), storage.Filter{}, storage.Page{Limit: 10})
	c.want(err == nil && len(list.Entries) == n, "%d records, %v, want %d", len(list.Entries), err, n)
}
