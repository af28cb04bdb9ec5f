package examples_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// fakeProvider charges once for a key, as payment providers do, and always without one.
type fakeProvider struct {
	mu       sync.Mutex
	charges  int
	payments map[string]int
}

func newFakeProvider() *fakeProvider { return &fakeProvider{payments: map[string]int{}} }

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	payment, known := p.payments[key]
	if !known || key == "" {
		p.charges++
		payment = p.charges
		p.payments[key] = payment
	}
	fmt.Fprintf(w, "payment %d\n", payment)
}

func (p *fakeProvider) Charges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges
}

// checkoutAPI has the handlers of docs/testing.md.
type checkoutAPI struct{ client *http.Client }

// charge asks the provider for a payment.
func (c checkoutAPI) charge(ctx context.Context, key string) (receipt []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pay.example/charges", strings.NewReader("amount=42"))
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	reply, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	return io.ReadAll(reply.Body)
}

func (c checkoutAPI) payNaively(w http.ResponseWriter, r *http.Request) {
	receipt, err := c.charge(r.Context(), "")
	if err != nil {
		http.Error(w, "the provider failed", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusCreated)
	w.Write(receipt)
}

func (c checkoutAPI) pay(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	receipt, err := c.charge(ctx, core.DeriveKey(ctx, "charge"))
	if err != nil {
		failure.MarkUncertain(ctx, "the provider failed")
		http.Error(w, "the provider failed", http.StatusBadGateway)
		return
	}
	failure.MarkExecuted(ctx)
	w.WriteHeader(http.StatusCreated)
	w.Write(receipt)
}

func checkoutRoutes(engine *core.Engine, pay http.HandlerFunc) http.Handler {
	idem := idemchi.New(engine)
	r := chi.NewRouter()
	r.With(idem.Policy(policy.TTLHours(48), policy.LockTTL(time.Minute))).Post("/payments", pay)
	return r
}

func routes(engine *core.Engine, client *http.Client) http.Handler {
	return checkoutRoutes(engine, checkoutAPI{client}.pay)
}

//nolint:paralleltest // a snippet
func TestPayIsSafeToRetry(t *testing.T) {
	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		provider := newFakeProvider()
		client := &http.Client{Transport: w.Transport(provider)}
		return handlertest.Service{
			Routes:  func(engine *core.Engine) http.Handler { return routes(engine, client) },
			Request: handlertest.Request{Path: "/payments", Body: `{"amount":42}`},
			Effects: provider.Charges,
		}
	})
}

// The matrices of the documentation are those of its handlers.
func TestMatricesOfHandlers(t *testing.T) {
	t.Parallel()
	shown := readPage(t, "../docs/testing.md").blocks("text")
	for i, handler := range []func(checkoutAPI) http.HandlerFunc{
		func(c checkoutAPI) http.HandlerFunc { return c.payNaively },
		func(c checkoutAPI) http.HandlerFunc { return c.pay },
	} {
		report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
			provider := newFakeProvider()
			c := checkoutAPI{&http.Client{Transport: w.Transport(provider)}}
			return handlertest.Service{
				Routes:  func(engine *core.Engine) http.Handler { return checkoutRoutes(engine, handler(c)) },
				Request: handlertest.Request{Path: "/payments", Body: `{"amount":42}`},
				Effects: provider.Charges,
			}
		})
		testkit.Equal(t, report.Err() == nil, i == 1, "the error of handler %d is %v", i+1, report.Err())
		wantShown(t, shown, report.String())
		if report.Err() != nil {
			wantShown(t, shown, report.Err().Error()+"\n")
		}
	}
}

// lineNumber is of a file that changes more often than the documentation.
var lineNumber = regexp.MustCompile(`[a-z_]+\.go:\d+`)

// wantShown wants a text as one of the blocks of the documentation, which may leave out lines.
func wantShown(t *testing.T, blocks []string, text string) {
	t.Helper()
	text = lineNumber.ReplaceAllString(strings.ReplaceAll(text, "\t", "    "), "pay.go:58")
	if !slices.ContainsFunc(blocks, func(block string) bool { return testkit.Shown(block).MatchString(text) }) {
		t.Errorf("docs/testing.md does not show\n%s", text)
	}
}

// rowsOf is a driver of a database in memory.
type rowsOf struct{ rows map[string]bool }

func (d *rowsOf) Connect(context.Context) (driver.Conn, error) { return memoryConn{d}, nil }
func (d *rowsOf) Driver() driver.Driver                        { return nil }

type memoryConn struct{ database *rowsOf }

func (c memoryConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c memoryConn) Close() error                        { return nil }
func (c memoryConn) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }

func (c memoryConn) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	c.database.rows[args[0].Value.(string)] = true
	return driver.RowsAffected(1), nil
}

// Other clients of the kit: a database, and a call that is neither.
func TestOtherCalls(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		database := &rowsOf{map[string]bool{}}
		pay := func(engine *core.Engine, db *sql.DB) http.Handler {
			return checkoutRoutes(engine, func(rw http.ResponseWriter, r *http.Request) {
				ctx := r.Context()
				_, err := db.ExecContext(ctx, "INSERT INTO charges (operation) VALUES ($1) ON CONFLICT DO NOTHING", core.DeriveKey(ctx, "charge"))
				if err == nil {
					failure.MarkExecuted(ctx)
					err = w.Call(ctx, "publish", func(context.Context) error { return nil })
				}
				if err != nil {
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
			})
		}
		routes := func(engine *core.Engine) http.Handler {
			db := sql.OpenDB(w.Connector(database)) // each process has its own pool
			w.Cleanup(func() { db.Close() })
			return pay(engine, db)
		}
		return handlertest.Service{
			Routes: routes, Request: handlertest.Request{Path: "/payments"},
			Effects: func() int { return len(database.rows) },
		}
	})
}
