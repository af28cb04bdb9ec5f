package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// stepDeadline is for one step in the browser, and testDeadline for them all.
	stepDeadline = 2 * time.Minute
	testDeadline = 10 * time.Minute
)

// browser finds Chromium. Without Chromium it skips the test, or fails it if the check must
// run every test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no chromium, chromium-browser or google-chrome found: install one (Debian: apt-get install chromium)"
	if os.Getenv("ONCEKEY_REQUIRE_SERVERS") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// page is one tab of the browser, with its errors.
type page struct {
	*testing.T
	program *program
	tab     context.Context

	mu    sync.Mutex
	wrong []string
}

// openBrowser starts a browser that ends with the test. The browser can resolve no host but
// the program's.
func openBrowser(t *testing.T, p *program) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	limited, giveUp := context.WithTimeout(context.WithoutCancel(t.Context()), testDeadline)
	allocator, killBrowser := chromedp.NewExecAllocator(limited, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closeTab()
		killBrowser() // and waits for the browser's end
		giveUp()
	})
	opened := &page{T: t, program: p, tab: tab}
	if err := chromedp.Do(tab); err != nil { // not within a step: the browser lives as long as the context that starts it
		t.Fatal(err)
	}
	if err := chromedp.Listen(tab, opened.watch); err != nil {
		t.Fatal(err)
	}
	opened.do(chromedp.EmulateViewport(1280, 720))
	opened.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	}))
	return opened
}

// watch records requests to other hosts, and errors on the console. A payment without a
// response, or with 409, is no error here.
func (p *page) watch(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if sent := e.Request.URL; !strings.HasPrefix(sent, p.program.url+"/") && !strings.HasPrefix(sent, "data:") {
			p.note("a request to " + sent)
		}
	case *log.EventEntryAdded:
		target, err := url.Parse(e.Entry.URL)
		isPayment := err == nil && e.Entry.Source == log.EntrySourceNetwork && strings.HasSuffix(target.Path, "/payments")
		if e.Entry.Level == log.EntryLevelError && !isPayment {
			p.note(fmt.Sprintf("the log's %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		p.note("an exception: " + e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.note(fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	}
}

func (p *page) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, what)
}

func (p *page) wantNothingWrong() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wrong) > 0 {
		p.Errorf("in the browser:\n%s", strings.Join(p.wrong, "\n"))
	}
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, stepDeadline)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// ask returns the value of an expression.
func ask[T any](p *page, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, stepDeadline)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true.
func (p *page) await(expression string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.tab, stepDeadline)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
		p.Fatalf("not in time: %s (%v); the page says: %s", expression, err, ask[string](p, `document.body.innerText`))
	}
}

// load opens a new shop.
func (p *page) load(withKey bool) {
	p.Helper()
	p.do(chromedp.Navigate(p.program.url + "/"))
	p.await(`!document.getElementById("pay").disabled`)
	if !withKey {
		p.do(chromedp.Click(`#with-key`))
		p.await(`document.getElementById("key").textContent === "no key is sent"`)
	}
}

// settled waits until at least that many requests have their last response.
func (p *page) settled(requests int) {
	p.Helper()
	p.await(fmt.Sprintf(`document.body.dataset.busy === "false" && document.querySelectorAll("#log li").length >= %d`, requests))
}

// wantCharges compares the number of charges at the bank, in the ledger on the page, and in the verdict.
func (p *page) wantCharges(want int, headline string) {
	p.Helper()
	p.await(fmt.Sprintf(`document.getElementById("charges").textContent === "%d"`, want))
	p.await(fmt.Sprintf(`document.getElementById("headline").textContent === %q`, headline))
	if shown := ask[int](p, `document.querySelectorAll("#ledger li").length`); shown != want {
		p.Errorf("the page's ledger has %d charges, want %d", shown, want)
	}
	path := "/shops/" + ask[string](p, `document.body.dataset.shop`) + "/ledger"
	if _, body, _ := p.program.do(p.T, http.MethodGet, path, nil); !strings.HasPrefix(body, fmt.Sprintf(`{"total":%d,`, want)) {
		p.Errorf("the bank's ledger is %s, want %d charges", body, want)
	}
}

// wantLife checks for steps of the key's life, in this order.
func (p *page) wantLife(want ...string) {
	p.Helper()
	life := ask[string](p, `[...document.querySelectorAll("#life li")].map((step) => step.dataset.state).join(" ")`)
	rest := strings.Fields(life)
	for _, step := range want {
		found := false
		for len(rest) > 0 && !found {
			found = rest[0] == step
			rest = rest[1:]
		}
		if !found {
			p.Errorf("the key's life is %q, want %v in it", life, want)
			return
		}
	}
}
