package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// quickPace is for tests in real time.
var quickPace = pace{bank: 200 * time.Millisecond, lockTTL: time.Second, restart: time.Second}

const patience = time.Minute // of a busy machine

// program is a running serve.
type program struct {
	url    string
	signal context.CancelFunc
	ended  chan error
}

func startProgram(t *testing.T, pace pace) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &program{signal: cancel, ended: make(chan error, 1)}
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
func (p *program) end(t *testing.T) {
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

func (p *program) do(t *testing.T, method, path string, header http.Header) (status int, body string, responded http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var sent io.Reader
	if method == http.MethodPost {
		sent = strings.NewReader(`{"order":"1001","amount":3200}`)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.url+path, sent)
	if err != nil {
		t.Fatal(err)
	}
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

// tab is a page's event stream.
type tab struct {
	t       *testing.T
	lines   *bufio.Scanner
	shop    string
	close   context.CancelFunc
	respond *http.Response
}

func (p *program) openTab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	opened := &tab{t: t, lines: bufio.NewScanner(response.Body), close: cancel, respond: response}
	t.Cleanup(func() {
		cancel()
		response.Body.Close()
	})
	if response.StatusCode == http.StatusOK {
		opened.shop = opened.await("opened").Shop
	}
	return opened
}

// await reads until the first notice of a name.
func (o *tab) await(what string) notice {
	o.t.Helper()
	for o.lines.Scan() {
		text, isData := strings.CutPrefix(o.lines.Text(), "data: ")
		var n notice
		if isData && json.Unmarshal([]byte(text), &n) == nil && n.What == what {
			return n
		}
	}
	o.t.Fatalf("the stream ended (%v) before %q", o.lines.Err(), what)
	return notice{}
}

// A tab has a shop of its own, which ends with the tab.
func TestShopLivesAsLongAsItsTab(t *testing.T) {
	t.Parallel()
	p := startProgram(t, quickPace)
	one, other := p.openTab(t), p.openTab(t)
	key := http.Header{"Idempotency-Key": {"k"}}
	for _, shop := range []string{one.shop, other.shop} {
		if status, body, header := p.do(t, http.MethodPost, "/shops/"+shop+"/payments", key); status != http.StatusCreated || header.Get("X-Idempotent-Replay") != "" {
			t.Errorf("the first payment in a shop got %d %s, want 201 and no replay", status, body)
		}
		if _, body, _ := p.do(t, http.MethodGet, "/shops/"+shop+"/ledger", nil); !strings.HasPrefix(body, `{"total":1,`) {
			t.Errorf("the ledger is %s, want one charge", body)
		}
	}
	if n := one.await("charged"); n.Charge == nil || n.Charge.Amount != 3200 {
		t.Errorf("the tab got %+v, want the charge", n)
	}
	one.close()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		status, _, _ := p.do(t, http.MethodGet, "/shops/"+one.shop+"/ledger", nil)
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the shop is open %v after its tab was closed", patience)
		}
	}
	if status, _, _ := p.do(t, http.MethodGet, "/shops/"+other.shop+"/ledger", nil); status != http.StatusOK {
		t.Errorf("the other tab's shop responds %d, want 200", status)
	}
}

func TestTooManyTabs(t *testing.T) {
	t.Parallel()
	p := startProgram(t, quickPace)
	for range maxShops {
		p.openTab(t)
	}
	if last := p.openTab(t); last.respond.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("tab %d got %d, want 503", maxShops+1, last.respond.StatusCode)
	}
}

// Case 9: at the end of the program running payments get their responses, and the streams end.
func TestProgramEndsInOrder(t *testing.T) {
	t.Parallel()
	p := startProgram(t, quickPace)
	o := p.openTab(t)
	paid := make(chan int, 2)
	for _, header := range []http.Header{{"Idempotency-Key": {"k"}}, nil} {
		go func() {
			status, _, _ := p.do(t, http.MethodPost, "/shops/"+o.shop+"/payments", header)
			paid <- status
		}()
	}
	o.await("arrived")
	o.await("arrived")
	p.end(t)
	for range 2 {
		if status := <-paid; status != http.StatusCreated {
			t.Errorf("a payment under way got %d, want 201", status)
		}
	}
	for o.lines.Scan() {
		continue // up to the stream's end
	}
	if err := o.lines.Err(); err != nil {
		t.Errorf("the stream broke: %v", err)
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
	for path, part := range map[string]string{"/": "<title>", "/style.css": "--accent", "/app.js": "import", "/draw.js": "export"} {
		status, body, header := p.do(t, http.MethodGet, path, nil)
		if status != http.StatusOK || !strings.Contains(body, part) || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none';") {
			t.Errorf("%s: %d, %v, want 200 with %q and a Content-Security-Policy", path, status, header, part)
		}
		if address := regexp.MustCompile(`(?:src|href|url\(|fetch\()\s*[=(]?\s*["'\x60]?(https?:)?//`).FindString(body); address != "" {
			t.Errorf("%s loads something from elsewhere: %s", path, address)
		}
	}
	foreign := http.Header{"Origin": {"https://example.com"}, "Sec-Fetch-Site": {"cross-site"}}
	if status, _, _ := p.do(t, http.MethodPost, "/shops/x/payments", foreign); status != http.StatusForbidden {
		t.Errorf("a payment from another site got %d, want 403", status)
	}
}
