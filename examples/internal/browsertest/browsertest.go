// Package browsertest runs tests in Chromium.
//
//	tab := browsertest.Open(t, shop.URL+"/", nil)
//	tab.Do(chromedp.Navigate(shop.URL+"/"), chromedp.Click("#pay"))
//	tab.Await(`document.getElementById("charges").textContent === "1"`)
//
// Without Chromium the test is skipped, or fails if ONCEKEY_REQUIRE_SERVERS is set.
package browsertest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// A busy machine takes long: stepDeadline bounds one call of a method, and testDeadline all of them.
const (
	stepDeadline = 2 * time.Minute
	testDeadline = 10 * time.Minute
)

// Tab is a tab of a browser. Its methods fail the test on an error.
type Tab struct {
	testing.TB
	home        string
	isExpected  func(*log.Entry) bool
	browsersTab context.Context

	mutex sync.Mutex
	wrong []string
}

// Open starts a browser that ends with the test, and can resolve no host but 127.0.0.1. Every page of the test begins with
// home. The log's errors that isExpected accepts are not among [Tab.Wrong]; nil accepts none.
func Open(t testing.TB, home string, isExpected func(*log.Entry) bool) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(stepDeadline), chromedp.Env("TMPDIR=/tmp"), // the path of its socket has a hundred bytes at most
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	limited, giveUp := context.WithTimeout(context.WithoutCancel(t.Context()), testDeadline)
	allocator, killBrowser := chromedp.NewExecAllocator(limited, options...)
	opened, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closeTab()
		killBrowser() // and waits for the browser's end
		giveUp()
	})
	tab := &Tab{TB: t, home: home, isExpected: isExpected, browsersTab: opened}
	if err := chromedp.Do(opened); err != nil { // not within a step: the browser lives as long as the context that starts it
		t.Fatal(err)
	}
	if err := chromedp.Listen(opened, tab.watch); err != nil {
		t.Fatal(err)
	}
	tab.Do(chromedp.EmulateViewport(1280, 720), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	}))
	return tab
}

// As returns the same tab for a subtest. The errors stay with the first.
func (tab *Tab) As(t testing.TB) *Tab { return &Tab{TB: t, browsersTab: tab.browsersTab} }

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	serverproc.Missing(t, "no chromium, chromium-browser or google-chrome found: install one (Debian: apt-get install chromium)")
	return ""
}

// watch records requests to other hosts, and errors.
func (tab *Tab) watch(happened any) {
	switch e := happened.(type) {
	case *network.EventRequestWillBeSent:
		if sent := e.Request.URL; !strings.HasPrefix(sent, tab.home) && !strings.HasPrefix(sent, "data:") {
			tab.note("a request to " + sent)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && (tab.isExpected == nil || !tab.isExpected(e.Entry)) {
			tab.note(fmt.Sprintf("the log's %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		tab.note("an exception: " + e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		tab.note(fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	}
}

func (tab *Tab) note(text string) {
	tab.mutex.Lock()
	defer tab.mutex.Unlock()
	tab.wrong = append(tab.wrong, text)
}

// Wrong returns the browser's errors, messages on the console, and requests to other hosts.
func (tab *Tab) Wrong() []string {
	tab.mutex.Lock()
	defer tab.mutex.Unlock()
	return slices.Clone(tab.wrong)
}

// Do performs actions one after another.
func (tab *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	tab.Helper()
	ctx, cancel := context.WithTimeout(tab.browsersTab, stepDeadline)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tab.Fatal(err)
	}
}

// Get returns the result of an action.
func Get[T any](tab *Tab, action chromedp.Action[T]) T {
	tab.Helper()
	ctx, cancel := context.WithTimeout(tab.browsersTab, stepDeadline)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		tab.Fatal(err)
	}
	return result
}

// Ask returns the value of an expression, which may be a promise.
func Ask[T any](tab *Tab, expression string) T {
	tab.Helper()
	return Get(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Await waits until an expression is true. A navigation meanwhile is no error.
func (tab *Tab) Await(expression string) {
	tab.Helper()
	ctx, cancel := context.WithTimeout(tab.browsersTab, stepDeadline)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && is {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			tab.Fatalf("not in time: %s; the page says: %s", expression, Ask[string](tab, `document.body.innerText`))
		}
	}
}

// Prefer sets the colours that the reader prefers: light or dark.
func (tab *Tab) Prefer(scheme string) {
	tab.Helper()
	tab.Do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}
