package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// shop is a service with an inspector page.
type shop struct {
	mux     *http.ServeMux
	page    http.Handler // without its prefix
	engine  *core.Engine
	proceed chan struct{} // ends the slow handlers
}

// openShopAtTwo starts a service at ten past two of a fixed day, inside a synctest bubble. What it stores must be read there:
// it expires two days later, and the clock outside has any date.
func openShopAtTwo(t *testing.T) *shop {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, time.November, 22, 2, 10, 0, 0, time.UTC))) //nolint:forbidigo // the bubble's clock
	return openShop(t)
}

// openShop starts a service.
func openShop(t *testing.T) *shop { return openShopThat(t, 100) }

// openShopThat starts a service that remembers so many events.
func openShopThat(t *testing.T, remembers int) *shop {
	t.Helper()
	events := inspector.Remember(event.Log(slog.New(slog.DiscardHandler)), remembers)
	engine, err := core.New(memstore.New(), core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }),
		core.WithObserver(events), core.WithInstance("pod-7f9c"))
	testkit.Must(t, err)
	page, err := inspector.New(engine, authorize, inspector.Remembered(events), inspector.Derived("charge"))
	testkit.Must(t, err)
	s := &shop{mux: http.NewServeMux(), page: page, engine: engine, proceed: make(chan struct{})}
	s.mux.Handle("POST /payments", engine.Handler(http.HandlerFunc(s.pay), policy.TTLHours(48), policy.OnAbandoned(policy.Refuse)))
	s.mux.Handle("/ops/idempotency/", http.StripPrefix("/ops/idempotency", page))
	return s
}

// authorize accepts the token of the tests. Without one the operator may only read.
func authorize(r *http.Request) (inspector.Operator, error) {
	if name, password, _ := r.BasicAuth(); name == "ops" && password == "secret" {
		return inspector.Operator{Name: name, May: inspector.Read}, nil
	}
	switch r.Header.Get("Authorization") {
	case "Bearer secret":
		return inspector.Operator{Name: "m.ortiz", May: inspector.Read | inspector.Reveal | inspector.Settle}, nil
	case "Bearer read":
		return inspector.Operator{Name: "guest", May: inspector.Read}, nil
	default:
		return inspector.Operator{}, errors.New("no token")
	}
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get(core.KeyHeader) {
	case "order-42":
		failure.MarkUncertain(r.Context(), "the bank timed out")
		w.WriteHeader(http.StatusGatewayTimeout)
	case "order-43":
		<-s.proceed
		w.WriteHeader(http.StatusCreated)
	case "order-44":
		http.Error(w, "card declined", http.StatusPaymentRequired)
	default:
		time.Sleep(412 * time.Millisecond) //nolint:forbidigo // the bubble's clock
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Internal", "host-17")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"pay_1","card":{"number":"4111111111111111"}}`)
	}
}

func (s *shop) post(key, body string) {
	r := testkit.Post(context.Background(), "/payments", key, body)
	r.Header.Set("Authorization", "alice")
	testkit.Serve(s.mux, r)
}

// tradingDay is a completed key, an abandoned one, one in flight and a declined one.
func (s *shop) tradingDay(t *testing.T) {
	t.Helper()
	s.post("order-41", `{"amount":4200,"currency":"EUR","sentAt":"02:10:00"}`)
	s.post("order-42", `{"amount":100}`)
	time.Sleep(2 * time.Minute) //nolint:forbidigo // the bubble's clock
	var running sync.WaitGroup
	running.Go(func() { s.post("order-43", `{"amount":100}`) })
	synctest.Wait()
	s.post("order-44", `{"amount":100}`)
	time.Sleep(2*time.Minute + 24*time.Second) //nolint:forbidigo // the bubble's clock
	s.post("order-41", `{"amount":4200,"currency":"EUR","sentAt":"02:10:00"}`)
	t.Cleanup(func() {
		close(s.proceed)
		running.Wait()
	})
}

// spoken runs the command against the shop, and returns the text of a golden file.
func (s *shop) spoken(t *testing.T, stdin string, args ...string) (text string, code int) {
	t.Helper()
	var out bytes.Buffer
	all := append([]string{"--url", "http://shop/ops/idempotency", "--token", "secret"}, args...)
	echo := io.TeeReader(strings.NewReader(stdin), &out) // as a terminal shows it
	code = run(t.Context(), all, world{echo, &out, &out, inProcess{s.mux}})
	return declaredHere.ReplaceAllString(out.String(), "(shop/main.go:31)"), code
}

// declaredHere is the place of the policy in this file.
var declaredHere = regexp.MustCompile(`\(oncekey/golden_test\.go:\d+\)`)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		testkit.Must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	testkit.Must(t, err)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// quoted is an argument as a shell reads it.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		switch words[i] = arg; {
		case strings.Contains(arg, `"`):
			words[i] = "'" + arg + "'"
		case strings.ContainsAny(arg, " {}") || arg == "":
			words[i] = `"` + arg + `"`
		}
	}
	return strings.Join(words, " ")
}

// request names a key as its client did.
var request = []string{"--scope", "alice", "POST /payments"}

func with(command string, key string, more ...string) []string {
	return append(append(append([]string{command}, request...), key), more...)
}

// The output of each command, on a service with one record in each state. docs/cli.md shows
// the same files.
func TestOutput(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args  []string
		stdin string
		code  int
	}{
		"show-abandoned":   {with("show", "order-42"), "", exitDone},
		"show-completed":   {with("show", "order-41"), "", exitDone},
		"show-body":        {with("show", "order-41", "--body"), "", exitDone},
		"show-nothing":     {with("show", "order-99"), "", exitNothing},
		"list":             {[]string{"list", "--state", "all"}, "", exitDone},
		"list-abandoned":   {[]string{"list", "--state", "abandoned", "--route", "POST /payments", "--older", "1m"}, "", exitDone},
		"list-nothing":     {[]string{"list", "--state", "unreplayable"}, "", exitNothing},
		"explain":          {with("explain", "order-41", "--body", `{"amount":9900,"currency":"EUR","sentAt":"02:14:24"}`), "", exitDone},
		"settle":           {with("settle", "order-42", "--happened", "--why", "INC-2291"), "", exitDone},
		"settle-completed": {with("settle", "order-41", "--happened", "--why", "INC-2291"), "", exitNothing},
		"settle-running":   {with("settle", "order-43", "--happened", "--why", "INC-2291"), "", exitNothing},
		"forget":           {with("forget", "order-44", "--why", "INC-2291"), "f4c66b2d\n", exitDone},
		"forget-no":        {with("forget", "order-44", "--why", "INC-2291"), "y\n", exitNothing},
		"forget-running":   {with("forget", "order-43", "--why", "INC-2291", "--yes-run-again", "00000000"), "", exitNothing},
		"hash":             {with("hash", "order-42"), "", exitDone},
		"doctor":           {[]string{"doctor"}, "", exitDone},
		"tail":             {[]string{"tail", "--once"}, "", exitDone},
		"json":             {[]string{"list", "--state", "abandoned", "-o", "json"}, "", exitDone},
		"ndjson":           {[]string{"list", "--state", "all", "-o", "ndjson"}, "", exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := openShopAtTwo(t)
				s.tradingDay(t)
				text, code := s.spoken(t, row.stdin, row.args...)
				golden(t, name, "$ oncekey "+quoted(row.args)+"\n"+text)
				testkit.Equal(t, code, row.code, "the exit code")
			})
		})
	}
}
