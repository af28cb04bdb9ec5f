package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/internal/testkit"

	"github.com/chromedp/chromedp"
)

// text returns the visible text of an element.
func (p *page) text(selector string) string {
	p.Helper()
	return browsertest.Ask[string](p.Tab, fmt.Sprintf(`document.querySelector(%q).innerText`, selector))
}

func (p *page) wantText(selector string, parts ...string) {
	p.Helper()
	text := p.text(selector)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.Errorf("%s says %q, want %q in it", selector, text, part)
		}
	}
}

// clickTimes clicks faster than a request takes.
func (p *page) clickTimes(times int) {
	p.Helper()
	browsertest.Ask[bool](p.Tab, fmt.Sprintf(`(() => { for (let i = 0; i < %d; i++) document.getElementById("pay").click(); return true; })()`, times))
}

// Case 7: a key belongs to one payload.
func changedAmount(p *page) {
	p.load(true)
	p.pressScenario("change-amount")
	p.settled(2)
	p.wantCharges(1, "Charged once")
	p.wantLife("first-time", "charged", "completed", "reused")
	p.wantText("#log li", "422 another payload", "Differs: amount")
	p.wantText("#drawing", "422")

	p.load(false)
	p.pressScenario("change-amount")
	p.settled(2)
	p.wantCharges(2, "Charged twice")
	p.wantText("#explanation", "€ 42.00 for an order of € 32.00")
}

// Equal steps, equal rows and equal labels are folded, and the first steps stay.
func twentyClicks(p *page) {
	p.Do(chromedp.EmulateViewport(390, 844))
	p.load(true)
	p.clickTimes(20)
	p.settled(20)
	p.wantCharges(1, "Charged once")
	p.wantLife("first-time", "charged", "completed", "replay")
	p.wantText("#life", "replay × 19")
	p.wantText("#explanation", "19 later requests")
	overlaps := browsertest.Ask[[]string](p.Tab, `(() => {
		const labels = [...document.querySelectorAll("#drawing .response")].map((label) => [label.textContent, label.getBoundingClientRect()]);
		return labels.flatMap(([one, a], i) => labels.slice(i + 1)
			.filter(([, b]) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
			.map(([other]) => one + " and " + other));
	})()`)
	if len(overlaps) > 0 {
		p.Errorf("labels overlap: %v", overlaps)
	}
	if browsertest.Ask[bool](p.Tab, `document.querySelectorAll("#legend li").length === 0`) {
		p.Error("bars without words have no legend")
	}

	const shown = `[...document.querySelectorAll("#log li")].filter((row) => row.checkVisibility()).length`
	testkit.Equal(p, browsertest.Ask[int](p.Tab, shown), 5, "rows that are shown")
	p.wantText("#log-more", "more")
	p.Do(chromedp.Click(`#log-more`))
	if rows := browsertest.Ask[int](p.Tab, shown); rows < 20 {
		p.Errorf("%d rows are shown after a click, want all", rows)
	}
	if hidden := browsertest.Ask[[]string](p.Tab, `[...document.querySelectorAll("main *")].filter((e) => /auto|scroll/.test(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight && e.tabIndex < 0).map((e) => e.id)`); len(hidden) > 0 {
		p.Errorf("%v scroll, and the keyboard cannot reach them", hidden)
	}
	p.Do(chromedp.EmulateViewport(1280, 720))
}

// A row opens into the request and the response, as they went over the wire.
func exchangeOfARow(p *page) {
	p.load(true)
	browsertest.Ask[bool](p.Tab, `(navigator.clipboard.writeText = (text) => { document.body.dataset.copied = text; return Promise.resolve(); }, true)`)
	p.pressScenario("drop-response")
	p.settled(2)
	key := p.text("#key")
	browsertest.Ask[bool](p.Tab, `(document.querySelector("#log li[data-request='2'] summary").focus(), true)`)
	p.Do(chromedp.KeyEvent("\r"))
	p.Await(`document.querySelector("#log li[data-request='2'] details").open`)
	shop := browsertest.Ask[string](p.Tab, `document.body.dataset.shop`)
	p.wantText("#log li[data-request='2'] .sent", "POST /shops/"+shop+"/payments HTTP/1.1", "Host: 127.0.0.1:",
		"Content-Type: application/json", "Idempotency-Key: "+key, `{"order":"1001","amount":3200}`)
	p.wantText("#log li[data-request='2'] .received", "HTTP/1.1 201 Created", "X-Idempotent-Replay: true", `"number":1,`)

	p.Do(chromedp.Click("#log li[data-request='2'] .exchange p button:first-child"))
	copied := browsertest.Ask[string](p.Tab, `document.body.dataset.copied`)
	if !strings.HasPrefix(copied, "POST ") || !strings.Contains(copied, "X-Idempotent-Replay: true") {
		p.Errorf("copied %q, want both directions", copied)
	}
	p.Do(chromedp.Click("#log li[data-request='2'] .exchange p button:last-child"))
	want := `curl -i \
  -H 'Content-Type: application/json' \
  -H 'Idempotency-Key: ` + key + `' \
  -d '{"order":"1001","amount":3200}' \
  ` + p.program.url + "/shops/" + shop + "/payments"
	testkit.Equal(p, browsertest.Ask[string](p.Tab, `document.body.dataset.copied`), want, "the copied text")

	p.Do(chromedp.Click("#log li[data-request='1'] summary"))
	p.wantText("#log li[data-request='1'] .sent", "Demo-Fault: drop-response")
	p.wantText("#log li[data-request='1'] .received", "closed before a response arrived")
	if browsertest.Ask[bool](p.Tab, `document.querySelector("#log li[data-request='2'] details").open`) {
		p.Error("two rows are open")
	}
}

// The key is shown in full. The hint and the order's number fit the switch.
func keyAndHint(p *page) {
	p.load(true)
	browsertest.Ask[bool](p.Tab, `(navigator.clipboard.writeText = (text) => { document.body.dataset.copied = text; return Promise.resolve(); }, true)`)
	p.wantText("#hint", "One order is one key")
	p.Do(chromedp.Click("#copy-key"))
	if copied := browsertest.Ask[string](p.Tab, `document.body.dataset.copied`); len(copied) != 36 || copied != p.text("#key") {
		p.Errorf("copied %q, and the key is %q", copied, p.text("#key"))
	}
	if cut := browsertest.Ask[bool](p.Tab, `(({ scrollWidth, clientWidth, offsetHeight }) => scrollWidth > clientWidth || offsetHeight > 24)(document.getElementById("key"))`); cut {
		p.Error("the key does not fit on its line")
	}
	p.Do(chromedp.Click("#with-key"))
	p.wantText("#hint", "Each click pays")
	p.wantText("#order", "1001")
	for _, link := range browsertest.Ask[[]string](p.Tab, `[...document.querySelectorAll("footer a")].map((link) => link.getAttribute("href"))`) {
		if strings.HasPrefix(link, "/") {
			if status, body, _ := p.program.do(p.TB, http.MethodGet, link, nil); status != http.StatusOK {
				p.Errorf("the link %s leads to %d %s", link, status, body)
			}
		}
	}
}

// Every text has a contrast of at least 4.5 to its background, and no opacity.
func contrast(p *page) {
	for _, withKey := range []bool{true, false} {
		p.load(withKey)
		p.pressScenario("kill-before-charge")
		p.settled(2)
		p.Do(chromedp.Click("#log summary"))
		for _, scheme := range []string{"dark", "light"} {
			p.Prefer(scheme)
			for _, faint := range browsertest.Ask[[]string](p.Tab, faintTexts) {
				p.Errorf("%s: %s", scheme, faint)
			}
		}
	}
}

const faintTexts = `(() => {
	const channels = (color) => {
		const numbers = color.match(/[\d.]+/g).map(Number);
		return color.startsWith("color(") ? numbers.map((n, i) => (i < 3 ? n * 255 : n)) : numbers;
	};
	const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const background = (e) => {
		for (; e; e = e.parentElement) {
			const color = channels(getComputedStyle(e).backgroundColor);
			if ((color[3] ?? 1) === 1) return color;
		}
		return [255, 255, 255];
	};
	const faint = [];
	for (const e of document.querySelectorAll("body *")) {
		const words = [...e.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data.trim()).join("");
		if (!words || !e.checkVisibility() || e instanceof SVGElement) continue;
		const [a, b] = [channels(getComputedStyle(e).color), background(e)].map(luminance);
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) faint.push(words + ": contrast " + ratio.toFixed(2));
		for (let up = e; up; up = up.parentElement) if (getComputedStyle(up).opacity !== "1") faint.push(words + ": opacity " + getComputedStyle(up).opacity);
	}
	return faint;
})()`
