package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// quickPace is for tests in real time.
var quickPace = pace{bank: 200 * time.Millisecond, lockTTL: time.Second, restart: time.Second}

// steadyPace is for tests without a crash: a stalled machine cannot outlast the lease.
var steadyPace = pace{bank: 200 * time.Millisecond, lockTTL: time.Minute, restart: time.Minute}

const patience = time.Minute // of a busy machine

// running is the running program.
type running struct {
	url    string
	signal context.CancelFunc
	ended  chan error
}

func startProgram(t *testing.T, pace pace) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &running{signal: cancel, ended: make(chan error, 1)}
	stdout, output := io.Pipe()
	go func() {
		p.ended <- serve(ctx, "127.0.0.1:0", output, pace)
		output.Close()
	}()
	t.Cleanup(func() { p.end(t) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)\n$`).FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("the first line is %q (%v)", line, err)
	}
	p.url = match[1]
	return p
}

// end ends the program like a signal. It may be called again.
func (p *running) end(t *testing.T) {
	t.Helper()
	p.signal()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the program ended with %v", err)
		}
		p.ended <- nil
	case <-time.After(patience):
		t.Errorf("the program still runs %v after the signal", patience)
	}
}

func (p *running) do(t testing.TB, method, path string, header http.Header) (status int, body string, responded http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sent io.Reader
	if method == http.MethodPost {
		sent = strings.NewReader(`{"order":"1001","amount":3200}`)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.url+path, sent)
	testkit.Must(t, err)
	for name := range header {
		request.Header.Set(name, header.Get(name))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return 0, "", nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(text), response.Header
}

// open opens a shop as a page does.
func (p *running) open(t *testing.T) (shop string) {
	t.Helper()
	status, body, _ := p.do(t, http.MethodPost, "/shops", nil)
	var opened struct {
		Shop string `json:"shop"`
	}
	if err := json.Unmarshal([]byte(body), &opened); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s (%v), want 201 and a shop", status, body, err)
	}
	return opened.Shop
}

// awaitNotices asks until there are that many notices of a name, and returns the last.
func (p *running) awaitNotices(t *testing.T, shop, what string, count int) (last notice) {
	t.Helper()
	testkit.Await(t, fmt.Sprintf("for %d notices %q", count, what), func() bool {
		_, body, _ := p.do(t, http.MethodGet, "/shops/"+shop+"/notices?after=0", nil)
		var told struct{ Notices []notice }
		if err := json.Unmarshal([]byte(body), &told); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		seen := 0
		for _, n := range told.Notices {
			if n.What == what {
				seen, last = seen+1, n
			}
		}
		return seen >= count
	})
	return last
}

// A page has a shop of its own, which closes with the page.
func TestShopsAreApart(t *testing.T) {
	t.Parallel()
	p := startProgram(t, steadyPace)
	one, other := p.open(t), p.open(t)
	key := http.Header{"Idempotency-Key": {"k"}}
	for _, shop := range []string{one, other} {
		if status, body, header := p.do(t, http.MethodPost, "/shops/"+shop+"/payments", key); status != http.StatusCreated || header.Get("X-Idempotent-Replay") != "" {
			t.Errorf("the first payment in a shop got %d %s, want 201 and no replay", status, body)
		}
		if _, body, _ := p.do(t, http.MethodGet, "/shops/"+shop+"/ledger", nil); !strings.HasPrefix(body, `{"total":1,`) {
			t.Errorf("the ledger is %s, want one charge", body)
		}
	}
	if n := p.awaitNotices(t, one, "charged", 1); n.Charge == nil || n.Charge.Amount != 3200 {
		t.Errorf("the page got %+v, want the charge", n)
	}
	for range 2 { // a browser may repeat the request
		if status, body, _ := p.do(t, http.MethodDelete, "/shops/"+one, nil); status != http.StatusNoContent {
			t.Errorf("closing the shop: %d %s, want 204", status, body)
		}
	}
	for shop, want := range map[string]int{one: http.StatusNotFound, other: http.StatusOK} {
		if status, body, _ := p.do(t, http.MethodGet, "/shops/"+shop+"/notices?after=0", nil); status != want {
			t.Errorf("the notices: %d %s, want %d", status, body, want)
		}
	}
	if status, body, _ := p.do(t, http.MethodGet, "/shops/"+other+"/notices?after=-1", nil); status != http.StatusBadRequest {
		t.Errorf("after -1: %d %s, want 400", status, body)
	}
}

func TestTooManyPages(t *testing.T) {
	t.Parallel()
	p := startProgram(t, steadyPace)
	for range maxShops {
		p.open(t)
	}
	if status, body, _ := p.do(t, http.MethodPost, "/shops", nil); status != http.StatusServiceUnavailable || !strings.Contains(body, "32 pages are open") {
		t.Errorf("page %d got %d %s, want 503 and the limit", maxShops+1, status, body)
	}
}

// Case 9: at the end of the program running payments get their responses.
func TestProgramEndsInOrder(t *testing.T) {
	t.Parallel()
	p := startProgram(t, steadyPace)
	shop := p.open(t)
	paid := make(chan int, 2)
	for _, header := range []http.Header{{"Idempotency-Key": {"k"}}, nil} {
		go func() {
			status, _, _ := p.do(t, http.MethodPost, "/shops/"+shop+"/payments", header)
			paid <- status
		}()
	}
	p.awaitNotices(t, shop, "arrived", 2)
	p.end(t)
	for range 2 {
		testkit.Equal(t, <-paid, http.StatusCreated, "the status of a payment under way")
	}
}

func TestAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	addr := taken.Listener.Addr().String()
	if err := serve(t.Context(), addr, io.Discard, quickPace); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("%v, want an error that names %s", err, addr)
	}
}

// The page is complete, loads no resource of another origin, and no other site can pay.
func TestPageKeepsToItself(t *testing.T) {
	t.Parallel()
	p := startProgram(t, quickPace)
	for path, part := range map[string]string{"/": "<title>", "/style.css": "--accent", "/app.js": "import", "/draw.js": "export", "/log.js": "export", "/words.js": "export", "/view.js": "export", "/pod.go": "package main"} {
		status, body, header := p.do(t, http.MethodGet, path, nil)
		if status != http.StatusOK || !strings.Contains(body, part) || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none';") {
			t.Errorf("%s: %d, %v, want 200 with %q and a Content-Security-Policy", path, status, header, part)
		}
		if address := regexp.MustCompile(`(?:src|href|url\(|fetch\()\s*[=(]?\s*["'\x60]?(https?:)?//`).FindString(strings.ReplaceAll(body, `<a href="https:`, "")); address != "" {
			t.Errorf("%s loads something from elsewhere: %s", path, address)
		}
	}
	foreign := http.Header{"Origin": {"https://example.com"}, "Sec-Fetch-Site": {"cross-site"}}
	if status, _, _ := p.do(t, http.MethodPost, "/shops/x/payments", foreign); status != http.StatusForbidden {
		t.Errorf("a payment from another site got %d, want 403", status)
	}
}
