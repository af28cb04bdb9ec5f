package handlertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m, // of TestStuckHandler
		goleak.IgnoreAnyFunction("github.com/oncekey/oncekey/core/handlertest_test.waitForever"),
		goleak.IgnoreAnyFunction("github.com/oncekey/oncekey/core/handlertest.(*World).shutdown"),
		goleak.IgnoreAnyFunction("testing/synctest.testingSynctestTest"))
}

// provider is a payment provider. It charges a key once; a charge without a key always.
type provider struct {
	mu      sync.Mutex
	charges int
	known   map[string]int
}

func newProvider() *provider { return &provider{known: map[string]int{}} }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent, _ := io.ReadAll(r.Body); string(sent) != "amount=42" {
		http.Error(w, "no amount", http.StatusBadRequest)
		return
	}
	key := r.Header.Get(core.KeyHeader)
	number := p.known[key]
	if number == 0 || key == "" {
		p.charges++
		number = p.charges
		p.known[key] = number
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "payment %d\n", number)
}

func (p *provider) Charges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges
}

// bank calls the provider.
type bank struct{ client *http.Client }

func (b bank) charge(ctx context.Context, key string) (receipt string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pay.example/charges", strings.NewReader("amount=42"))
	if err != nil {
		return "", err
	}
	if key != "" {
		r.Header.Set(core.KeyHeader, key)
	}
	reply, err := b.client.Do(r)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if reply.StatusCode/100 != 2 {
		return "", errors.New(reply.Status)
	}
	return string(text), err
}

// naive is the handler of every tutorial.
func (b bank) naive(w http.ResponseWriter, r *http.Request) {
	receipt, err := b.charge(r.Context(), "")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, receipt)
}

// careful is safe to retry.
func (b bank) careful(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	receipt, err := b.charge(ctx, core.DeriveKey(ctx, "charge"))
	if err != nil {
		failure.MarkUncertain(ctx, "the provider did not respond")
		http.Error(w, "the provider did not respond", http.StatusBadGateway)
		return
	}
	failure.MarkExecuted(ctx)
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, receipt)
}

// routesOf builds the routes of a process.
type routesOf func(engine *core.Engine, handler http.HandlerFunc, options ...policy.Option) http.Handler

func nethttp(engine *core.Engine, handler http.HandlerFunc, options ...policy.Option) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /payments", engine.Handler(handler, options...))
	return mux
}

// paying is a service that pays by one of the handlers.
func paying(routes routesOf, pay func(bank, http.ResponseWriter, *http.Request), options ...policy.Option) func(*handlertest.World) handlertest.Service {
	return func(w *handlertest.World) handlertest.Service {
		p := newProvider()
		b := bank{&http.Client{Transport: w.Transport(p)}}
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				return routes(engine, func(w http.ResponseWriter, r *http.Request) { pay(b, w, r) }, options...)
			},
			Request: handlertest.Request{Path: "/payments", Body: `{"amount":42}`},
			Effects: p.Charges,
		}
	}
}
