// Package inspectorpage tests the pages of adapters/inspector in a browser. The tests are in
// this module because of their dependencies, which users of the library must not get.
package inspectorpage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	stepDeadline = 2 * time.Minute
	testDeadline = 10 * time.Minute
)

// missing skips the test, or fails it if the check must run every test.
func missing(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("ONCEKEY_REQUIRE_SERVERS") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}

func browser(t *testing.T) (path string) {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "no chromium, chromium-browser or google-chrome found: install one (Debian: apt-get install chromium)")
	return ""
}

// axe returns the program of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("../../../build/axe-core/axe-*.min.js") // the pattern is valid
	if len(found) == 0 {
		missing(t, "axe-core is not there: run sh tools/install-axe.sh, which needs npm")
	}
	program, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(program)
}

// tab is a tab of the browser, with the errors that it has seen.
type tab struct {
	*testing.T
	context context.Context
	url     string // of the page, with a slash

	mu    sync.Mutex
	wrong []string
}

// openTab starts a browser that ends with the test, and can reach this machine only.
func openTab(t *testing.T, page string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	limited, giveUp := context.WithTimeout(context.WithoutCancel(t.Context()), testDeadline)
	allocator, killBrowser := chromedp.NewExecAllocator(limited, options...)
	opened, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(func() { closeTab(); killBrowser(); giveUp() })
	b := &tab{T: t, context: opened, url: page}
	if err := chromedp.Do(opened); err != nil { // the browser lives as long as the context that starts it
		t.Fatal(err)
	}
	if err := chromedp.Listen(opened, b.watch); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, browserlog.Enable, cdp.Empty{})
		return err
	}))
	return b
}

// watch records requests to other hosts, and what the browser complains about.
func (b *tab) watch(happened any) {
	switch e := happened.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.url) && !strings.HasPrefix(e.Request.URL, "data:") {
			b.note("a request to " + e.Request.URL)
		}
	case *browserlog.EventEntryAdded:
		if e.Entry.Level == browserlog.EntryLevelError && !strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
			b.note(fmt.Sprintf("the log's %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		b.note("an exception: " + e.ExceptionDetails.Text)
	}
}

func (b *tab) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, text)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context, stepDeadline)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// ask returns the value of an expression, which may be a promise.
func ask[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context, stepDeadline)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// await waits for a text on the page. A navigation meanwhile is no error.
func (b *tab) await(text string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.context, stepDeadline)
	defer cancel()
	expression := fmt.Sprintf(`document.readyState === "complete" && document.body.innerText.includes(%q)`, text)
	for again := time.NewTicker(20 * time.Millisecond); ; {
		if there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && there {
			again.Stop()
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			b.Fatalf("the page never says %q:\n%s", text, ask[string](b, `document.body.innerText`))
		}
	}
}

func (b *tab) open(path string) { b.Helper(); b.do(chromedp.Navigate(b.url + path)) }

// look sets the window's width and the colours that the reader prefers.
func (b *tab) look(width int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, 844), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// A person finds a record by its key, reads it, and settles it: with the keyboard and
// without a script.
func TestFindReadSettle(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := openTab(t, s.url)
	b.look(1280, "light")
	b.open("")
	b.do(chromedp.SendKeys(`[name=key]`, "order-42"), chromedp.SendKeys(`[name=scope]`, "alice"), chromedp.SendKeys(`[name=target]`, "POST /payments\r"))
	b.await("It is not known whether it happened")
	if here := ask[string](b, `location.href`); here != s.url+"records/"+s.abandoned {
		t.Errorf("the record's address is %s, want %srecords/%s", here, s.url, s.abandoned)
	}
	b.await("409 outcome_unknown, until ")

	b.do(chromedp.Click(`.verdict a`), chromedp.SendKeys(`[name=why]`, "INC-2291"), chromedp.SendKeys(`[name=confirm]`, "12345678\r"))
	b.await("Type the first 8 digits of this record")
	if why := ask[string](b, `document.querySelector("[name=why]").value`); why != "INC-2291" {
		t.Errorf("the form has lost the reason, and shows %q", why)
	}
	b.do(chromedp.SendKeys(`[name=confirm]`, s.abandoned[:8]+"\r"))
	b.await("Settled as happened")
	b.await("409 not_replayable")
	if w := s.pay("order-42", ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "not_replayable") {
		t.Errorf("the retry gets %d %s", w.Code, w.Body)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		if !strings.Contains(wrong, "422") { // of the form with the wrong digits
			t.Error(wrong)
		}
	}
}

// axe finds nothing to mend on any page, in light and dark, in a wide and a narrow window.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	program := axe(t)
	s := newShop(t)
	b := openTab(t, s.url)
	pages := []string{"", "records/" + s.abandoned, "records/" + s.completed, "records/" + strings.Repeat("0", 64), "?state=expired", "explain", "running", "routes", "doctor"}
	for _, as := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {390, "dark"}, {1280, "dark"}, {390, "light"}} {
		b.look(as.width, as.scheme)
		for i, path := range pages {
			if as.width == 1280 != (as.scheme == "light") && i > 2 {
				continue // layout and colours are independent: the largest pages are tried in all four ways
			}
			b.open(path)
			b.judge(program, fmt.Sprintf("%s at %d in %s", path, as.width, as.scheme), as.width)
		}
		b.open("explain")
		b.do(chromedp.SendKeys(`[name=key]`, "k1"), chromedp.SendKeys(`[name=scope]`, "alice"), chromedp.SendKeys(`[name=target]`, "POST /payments"),
			chromedp.SendKeys(`[name=body]`, `{"amount":1}`), chromedp.Click(`form .main`))
		b.await("key_reused")
		b.judge(program, fmt.Sprintf("an explanation at %d in %s", as.width, as.scheme), as.width)
	}
}

// judge reports the violations that axe finds, and a page that is wider than the window.
func (b *tab) judge(program, page string, width int64) {
	b.Helper()
	ask[bool](b, program+"; true")
	found := ask[string](b, `axe.run().then((result) => result.violations.map((v) =>
		v.id + ": " + v.help + "\n" + v.nodes.map((n) => "  " + n.html.slice(0, 200) + " " + n.failureSummary).join("\n")).join("\n"))`)
	if found != "" {
		b.Errorf("%s:\n%s", page, found)
	}
	if wide := ask[int64](b, `document.documentElement.scrollWidth`); wide > width {
		b.Errorf("%s is %d pixels wide", page, wide)
	}
}

// address is the page's address.
func address(server *httptest.Server, prefix string) string {
	parsed, err := url.Parse(server.URL)
	if err != nil {
		panic(err)
	}
	return parsed.JoinPath(prefix).String() + "/"
}
