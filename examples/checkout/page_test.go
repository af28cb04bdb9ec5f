package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/internal/testkit"
)

// page is a tab of the browser with the program's page.
type page struct {
	*browsertest.Tab
	program *running
}

// openBrowser opens a tab for the program. A payment without a response, or with 409, is no error here.
func openBrowser(t *testing.T, p *running) *page {
	t.Helper()
	isPayment := func(e *log.Entry) bool {
		target, err := url.Parse(e.URL)
		return err == nil && e.Source == log.EntrySourceNetwork && strings.HasSuffix(target.Path, "/payments")
	}
	return &page{browsertest.Open(t, p.url+"/", isPayment), p}
}

// load opens a new shop.
func (p *page) load(withKey bool) {
	p.Helper()
	p.Do(chromedp.Navigate(p.program.url + "/"))
	p.Await(`!document.getElementById("pay").disabled`)
	if !withKey {
		p.Do(chromedp.Click(`#with-key`))
		p.Await(`document.getElementById("key").textContent === "no key is sent"`)
	}
}

// settled waits until at least that many requests have their last response.
func (p *page) settled(requests int) {
	p.Helper()
	p.Await(fmt.Sprintf(`document.body.dataset.busy === "false" && document.querySelectorAll("#log li").length >= %d`, requests))
}

// wantCharges compares the number of charges at the bank, in the ledger on the page, and in the verdict.
func (p *page) wantCharges(want int, headline string) {
	p.Helper()
	p.Await(fmt.Sprintf(`document.getElementById("charges").textContent === "%d"`, want))
	p.Await(fmt.Sprintf(`document.getElementById("headline").textContent === %q`, headline))
	testkit.Equal(p, browsertest.Ask[int](p.Tab, `document.querySelectorAll("#ledger li").length`), want, "charges in the page's ledger")
	path := "/shops/" + browsertest.Ask[string](p.Tab, `document.body.dataset.shop`) + "/ledger"
	if _, body, _ := p.program.do(p.TB, http.MethodGet, path, nil); !strings.HasPrefix(body, fmt.Sprintf(`{"total":%d,`, want)) {
		p.Errorf("the bank's ledger is %s, want %d charges", body, want)
	}
}

// wantLife checks for steps of the key's life, in this order.
func (p *page) wantLife(want ...string) {
	p.Helper()
	life := browsertest.Ask[string](p.Tab, `[...document.querySelectorAll("#life li")].map((step) => step.dataset.state).join(" ")`)
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
