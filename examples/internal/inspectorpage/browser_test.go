// Package inspectorpage tests the pages of adapters/inspector in a browser. The tests are in
// this module because of their dependencies, which users of the library must not get.
package inspectorpage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
)

// axe returns the program of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("../../../build/axe-core/axe-*.min.js") // the pattern is valid
	if len(found) == 0 {
		serverproc.Missing(t, "axe-core is not there: run sh tools/install-axe.sh, which needs npm")
	}
	program, err := os.ReadFile(found[len(found)-1])
	testkit.Must(t, err)
	return string(program)
}

// tab is a tab of the browser with the inspector's pages.
type tab struct {
	*browsertest.Tab
	url string // of the first page, with a slash
}

func openTab(t *testing.T, page string) *tab {
	t.Helper()
	return &tab{browsertest.Open(t, page, func(e *log.Entry) bool { return strings.HasSuffix(e.URL, "/favicon.ico") }), page}
}

// await waits for a text on the page.
func (b *tab) await(text string) {
	b.Helper()
	b.Await(fmt.Sprintf(`document.readyState === "complete" && document.body.innerText.includes(%q)`, text))
}

func (b *tab) open(path string) { b.Helper(); b.Do(chromedp.Navigate(b.url + path)) }

// look sets the window's width and the colours that the reader prefers.
func (b *tab) look(width int64, scheme string) {
	b.Helper()
	b.Do(chromedp.EmulateViewport(width, 844))
	b.Prefer(scheme)
}

// A person finds a record by its key, reads it, and settles it: with the keyboard and
// without a script.
func TestFindReadSettle(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := openTab(t, s.url)
	b.look(1280, "light")
	b.open("")
	b.Do(chromedp.SendKeys(`[name=key]`, "order-42"), chromedp.SendKeys(`[name=scope]`, "alice"), chromedp.SendKeys(`[name=target]`, "POST /payments\r"))
	b.await("It is not known whether it happened")
	if here := browsertest.Ask[string](b.Tab, `location.href`); here != s.url+"records/"+s.abandoned {
		t.Errorf("the record's address is %s, want %srecords/%s", here, s.url, s.abandoned)
	}
	b.await("409 outcome_unknown, until ")

	b.Do(chromedp.Click(`.verdict a`), chromedp.SendKeys(`[name=why]`, "INC-2291"), chromedp.SendKeys(`[name=confirm]`, "12345678\r"))
	b.await("Type the first 8 digits of this record")
	testkit.Equal(t, browsertest.Ask[string](b.Tab, `document.querySelector("[name=why]").value`), "INC-2291", "the reason in the form")
	b.Do(chromedp.SendKeys(`[name=confirm]`, s.abandoned[:8]+"\r"))
	b.await("Settled as happened")
	b.await("409 not_replayable")
	if w := s.pay("order-42", ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "not_replayable") {
		t.Errorf("the retry gets %d %s", w.Code, w.Body)
	}
	for _, wrong := range b.Wrong() {
		if !strings.Contains(wrong, "422") { // of the form with the wrong digits
			t.Error(wrong)
		}
	}
}

// On a phone the counts come first, and the form stands behind one line. A wide window shows both.
func TestCountsComeFirstOnAPhone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	b := openTab(t, s.url)
	visible := func() bool {
		return browsertest.Ask[bool](b.Tab, `document.querySelector("[name=key]").checkVisibility()`)
	}
	place := func(selector, side string) float64 {
		return browsertest.Ask[float64](b.Tab, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().%s`, selector, side))
	}
	b.look(390, "light")
	b.open("")
	b.await("abandoned: outcome unknown")
	if counts, form := place(".counts", "bottom"), place(".finder", "top"); counts > form || counts > 600 {
		t.Errorf("the counts end at %v, and the form begins at %v", counts, form)
	}
	if height := place(".finder", "height"); visible() || height > 80 {
		t.Errorf("the form is visible: %t, and takes %v pixels, want one line", visible(), height)
	}
	b.Do(chromedp.Click(`.finder summary`))
	if !visible() {
		t.Error("the line does not open the form")
	}
	b.look(1280, "light")
	b.open("")
	b.await("abandoned: outcome unknown")
	if !visible() {
		t.Error("the form is closed in a wide window")
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
		b.Do(chromedp.SendKeys(`[name=key]`, "k1"), chromedp.SendKeys(`[name=scope]`, "alice"), chromedp.SendKeys(`[name=target]`, "POST /payments"),
			chromedp.SendKeys(`[name=body]`, `{"amount":1}`), chromedp.Click(`form .main`))
		b.await("key_reused")
		b.judge(program, fmt.Sprintf("an explanation at %d in %s", as.width, as.scheme), as.width)
	}
}

// judge reports the violations that axe finds, and a page that is wider than the window.
func (b *tab) judge(program, page string, width int64) {
	b.Helper()
	browsertest.Ask[bool](b.Tab, program+"; true")
	found := browsertest.Ask[string](b.Tab, `axe.run().then((result) => result.violations.map((v) =>
		v.id + ": " + v.help + "\n" + v.nodes.map((n) => "  " + n.html.slice(0, 200) + " " + n.failureSummary).join("\n")).join("\n"))`)
	if found != "" {
		b.Errorf("%s:\n%s", page, found)
	}
	if wide := browsertest.Ask[int64](b.Tab, `document.documentElement.scrollWidth`); wide > width {
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
