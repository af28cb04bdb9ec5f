package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func TestWrongFlagsAreNamed(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, flag, value, right string }{
		{"-router echo", "-router", `"echo"`, "chi or gin"},
		{"-store oracle", "-store", `"oracle"`, "memory, mysql, postgres, redis, sqlite or tiered"},
		{"-addr localhost", "-addr", `"localhost"`, "127.0.0.1:8080"},
		{"-addr localhost:http", "-addr", `"localhost:http"`, "a port from 0 to 65535"},
		{"-addr :65536", "-addr", `":65536"`, "a port from 0 to 65535"},
		{"-lock-ttl 30", "-lock-ttl", `"30"`, "such as 30s"},
		{"-lock-ttl 1ms", "-lock-ttl", `"1ms"`, "from 100ms to 1h"},
		{"-lock-ttl 72h", "-lock-ttl", `"72h"`, "from 100ms to 1h"},
		{"-store-timeout 0s", "-store-timeout", `"0s"`, "from 10ms to 1h"},
		{"-redis localhost:6379", "-redis", `"localhost:6379"`, "redis://127.0.0.1:6379/0"},
		{"-postgres localhost:5432", "-postgres", `"localhost:5432"`, "postgres://127.0.0.1:5432/postgres"},
		{"-mysql x", "-mysql", "", "-h lists the flags"},
		{"chi", "", `"chi"`, "everything is a flag"},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		message := stderr.String()
		if code != 2 || stdout.Len() > 0 || strings.Count(message, "\n") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want code 2 and one line on stderr", test.args, code, &stdout, message)
		}
		for _, part := range []string{test.flag, test.value, test.right} {
			if !strings.Contains(message, part) {
				t.Errorf("%s: %q does not name %s", test.args, message, part)
			}
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("code %d, stderr %q, want neither", code, &stderr)
	}
	for _, name := range []string{"-addr", "-router", "-store", "-redis", "-postgres", "-file", "-dsn", "-lock-ttl", "-store-timeout", "-ledger"} {
		if !strings.Contains(stdout.String(), "  "+name+" ") {
			t.Errorf("%s is not listed in\n%s", name, &stdout)
		}
	}
}

func TestWhatCannotBeOpenedIsNamed(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	missing := filepath.Join(t.TempDir(), "no such folder", "ledger")
	for args, want := range map[string]string{
		"-addr\n" + taken.Listener.Addr().String():                                 taken.Listener.Addr().String(),
		"-ledger\n" + missing:                                                      missing,
		"-store\npostgres\n-postgres\npostgres://127.0.0.1:1/shop?sslmode=disable": "postgres: ",
		"-store\nsqlite\n-file\n" + missing:                                        "sqlite: ",
		"-store\nmysql\n-dsn\nroot@tcp(127.0.0.1:1)/shop":                          "127.0.0.1:1",
		"-store\ntiered\n-postgres\npostgres://127.0.0.1:1/shop?sslmode=disable":   "127.0.0.1:1",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Split(args, "\n"), &stdout, &stderr)
		if code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want code 1 and %s on stderr", args, code, &stdout, &stderr, want)
		}
	}
}

// Case 9: a signal ends the program after its running requests.
func TestSignalEndsInOrder(t *testing.T) {
	t.Parallel()
	for router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, "-router", router, "-addr", "127.0.0.1:0")
			answered := make(chan int, 1)
			go func() {
				response, _ := send(t, p.url, pay("k", "tok_slow:300ms", 201))
				answered <- response.StatusCode
			}()
			awaitAttempt(t, p.url)
			p.signal()
			if code := <-p.exited; code != 0 {
				t.Errorf("exit code %d, want 0; stderr:\n%s", code, &p.stderr)
			}
			<-p.quiet
			if status := <-answered; status != http.StatusCreated {
				t.Errorf("the request in flight got %d, want 201", status)
			}
		})
	}
}

// program is a running run.
type program struct {
	url    string
	signal context.CancelFunc
	exited chan int
	quiet  chan struct{} // closed at the end of stdout
	stderr bytes.Buffer  // read it only after exited
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	p := &program{signal: cancel, exited: make(chan int, 1), quiet: make(chan struct{})}
	stdout, output := io.Pipe()
	go func() {
		p.exited <- run(ctx, args, output, &p.stderr)
		output.Close()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)\n$`).FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("the first line is %q (%v)", line, err)
	}
	go func() {
		if rest, _ := io.ReadAll(stdout); len(rest) > 0 {
			t.Errorf("more than one line on stdout: %q", rest)
		}
		close(p.quiet)
	}()
	p.url = match[1]
	return p
}

// awaitAttempt returns when a handler runs.
func awaitAttempt(t *testing.T, url string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range 12_000 {
		if readLedger(t, url).Attempts > 0 {
			return
		}
		<-ticker.C
	}
	t.Fatal("no handler runs after a minute")
}

// The slowest card takes longer than the lease and ends within MaxRun. The client's
// disconnect does not end its handler.
func TestSlowestCardIsCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := core.New(memstore.New(), core.ScopeBy(userOf))
		if err != nil {
			t.Fatal(err)
		}
		books := newMemoryLedger(&journal{})
		ctx, disconnect := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, disconnect)
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(order("tok_slow:10m")))
		request.Header.Set("Authorization", "Bearer alice")
		request.Header.Set(core.KeyHeader, "k")
		recorder := httptest.NewRecorder()
		chiRouter(newShop(backend{ledger: books}), engine, times{100 * time.Millisecond, time.Second}).ServeHTTP(recorder, request)
		if recorder.Code != http.StatusCreated || len(books.entries[charges]) != 1 {
			t.Errorf("got %d and %d charges, want 201 and one charge", recorder.Code, len(books.entries[charges]))
		}
	})
}

// A cancelled handler leaves the response to the engine.
func TestSlowCardIsCutShort(t *testing.T) {
	t.Parallel()
	books := newMemoryLedger(&journal{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(order("tok_slow:10m")))
	recorder := httptest.NewRecorder()
	newShop(backend{ledger: books}).pay(recorder, request)
	if recorder.Body.Len() > 0 || len(recorder.Header()) > 0 || len(books.entries[charges]) > 0 {
		t.Errorf("wrote %v %q, and charged %v, want no response and no charge", recorder.Header(), recorder.Body, books.entries[charges])
	}
}
