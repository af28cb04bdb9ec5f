package endtoend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// repeating is a proxy that by itself repeats a client's request at one server after another, until a response has a status
// below 500. haproxy with "retry-on all-retryable-errors" and nginx with "non_idempotent http_500" do the same.
type repeating struct {
	*httptest.Server
	targets []string
	sent    atomic.Int32
}

const proxyTries = 4

func newRepeating(t *testing.T, targets ...string) *repeating {
	t.Helper()
	p := &repeating{targets: targets}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *repeating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for range proxyTries {
		target := p.targets[int(p.sent.Add(1))%len(p.targets)]
		if passed := forward(w, r, target, body); passed {
			return
		}
	}
	w.WriteHeader(http.StatusBadGateway)
}

// forward passes a response on, unless the proxy repeats the request after this response.
func forward(w http.ResponseWriter, r *http.Request, target string, body []byte) (passed bool) {
	outgoing, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return false
	}
	outgoing.Header = r.Header.Clone()
	response, err := client.Do(outgoing)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return false
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the client may have disconnected
	return true
}

// Case 71: a proxy repeats a payment whose handler panics after the charge.
func TestProxyThatRepeatsChargesOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, 30*time.Second, func(t *testing.T, f *fixture) {
		first, second := f.startTwo()
		proxy := newRepeating(t, first.url, second.url)
		pay := payment("tok_crash_after_charge")
		refund := pay
		refund.path = "/refunds"
		for _, r := range []request{pay, refund} {
			proxy.sent.Store(0)
			expectStatus(t, proxy.URL+r.path, http.StatusBadGateway, r)
			if sent := proxy.sent.Load(); sent != proxyTries {
				t.Errorf("the proxy sent the request %d times, want %d", sent, proxyTries)
			}
		}
		if got := f.effects(); len(got) != 2 || got[0].Kind != "charge" || got[1].Kind != "refund" {
			t.Errorf("the ledger has %+v, want one charge and one refund", got)
		}
	})
}

// Case 71: the same for the smallest examples, in their original form, with a bug after their side effect.
func TestProxyThatRepeatsAtTheSmallExamples(t *testing.T) {
	t.Parallel()
	for _, router := range []string{"chi", "gin", "nethttp"} {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			binary := buildBroken(t, router)
			for _, ending := range []string{"panic", "500"} {
				first, second := startBroken(t, binary, redis, ending), startBroken(t, binary, redis, ending)
				proxy := newRepeating(t, first.url, second.url)
				r := request{path: "/payments", key: "key-of-" + ending, body: "amount=42"}
				expectStatus(t, proxy.URL+r.path, http.StatusBadGateway, r)
				charges := 0
				for _, program := range []*instance{first, second} {
					program.Stop() // so that its output is complete
					for _, line := range program.Output() {
						charges += strings.Count(line, chargedLine)
					}
				}
				if sent := proxy.sent.Load(); charges != 1 || sent != proxyTries {
					t.Errorf("%s: %d charges for %d requests, want 1 for %d", ending, charges, sent, proxyTries)
				}
			}
		})
	}
}

func expectStatus(t *testing.T, url string, status int, r request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.user != "" {
		outgoing.Header.Set("Authorization", "Bearer "+r.user)
		outgoing.Header.Set("Content-Type", "application/json")
	} else {
		outgoing.SetBasicAuth("alice", "secret")
		outgoing.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	outgoing.Header.Set("Idempotency-Key", r.key)
	response, err := client.Do(outgoing)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != status {
		t.Errorf("%s: the client got %d, want %d", r.path, response.StatusCode, status)
	}
}

const chargedLine = "a side effect"

// edits change an example so that it shares a Redis, prints its side effect, and fails after it.
var edits = [][2]string{
	{`"github.com/oncekey/oncekey/core/memstore"`, `"github.com/oncekey/oncekey/core/redisstore"; "github.com/redis/go-redis/v9"`},
	{`memstore.New()`, `redisstore.New(redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS")}))`},
	{"\tnumber := payments.Add(1)", "\tprintln(\"" + chargedLine + "\")\n\tnumber := payments.Add(1)"},
}

var breaks = map[string]string{
	"gin": "c.String(500, \"broken\")", "chi": "w.WriteHeader(500)", "nethttp": "w.WriteHeader(500)",
}

// buildBroken builds the example with the edits. The variable ENDING selects the program's failure.
func buildBroken(t *testing.T, router string) string {
	t.Helper()
	original, err := filepath.Abs("../../../../examples/" + router + "/main.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "failure.MarkExecuted(")
	marked, _, _ := strings.Cut(rest, "\n")
	all := append(slices.Clone(edits), [2]string{
		"failure.MarkExecuted(" + marked,
		"failure.MarkExecuted(" + marked + "\nif os.Getenv(\"ENDING\") == \"panic\" { panic(\"a bug\") }\n" + breaks[router] + "\nif number > 0 { return }\n",
	})
	source := string(text)
	for _, edit := range all {
		if strings.Count(source, edit[0]) != 1 {
			t.Fatalf("%s has %q %d times, want once", original, edit[0], strings.Count(source, edit[0]))
		}
		source = strings.Replace(source, edit[0], edit[1], 1)
	}
	folder := t.TempDir()
	edited, overlay, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, router)
	replacement, err := json.Marshal(map[string]any{"Replace": map[string]string{original: edited}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{edited: []byte(source), overlay: replacement} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	arguments := slices.Concat([]string{"build"}, buildFlags, []string{"-overlay", overlay, "-o", binary, filepath.Dir(original)})
	if err := runGo(arguments...); err != nil {
		t.Fatal(err)
	}
	return binary
}

// startBroken runs the program and returns when it listens.
func startBroken(t *testing.T, binary string, redis *redistest.Server, ending string) *instance {
	t.Helper()
	i := &instance{t: t}
	serverproc.StartOnFreePort(t, func(port int) error {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		i.url = "http://" + address
		command := exec.CommandContext(context.Background(), binary)
		command.Env = append(os.Environ(), "ADDR="+address, "REDIS="+redis.Addr(), "ENDING="+ending)
		i.Process = serverproc.Start(t, filepath.Base(binary), command)
		return i.Await(func(ctx context.Context) error {
			probe, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url, http.NoBody)
			if err != nil {
				return err
			}
			response, err := client.Do(probe)
			if err == nil {
				response.Body.Close()
			}
			return err
		})
	}, func() bool { return i.printed("address already in use") })
	return i
}
