package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/internal/testkit"

	"github.com/chromedp/chromedp"
)

const (
	screenshotFile = "screenshot.png"
	maxScreenshot  = 200 << 10
)

func (p *page) clickTwice() {
	p.Helper()
	for range 2 {
		p.Do(chromedp.Click(`#pay`))
	}
}

func (p *page) pressScenario(name string) {
	p.Helper()
	p.Do(chromedp.Click(fmt.Sprintf(`[data-scenario=%s]`, name)))
}

// The steps run one after another in one tab of one browser. Each step has a shop of its
// own.
func TestPage(t *testing.T) {
	t.Parallel()
	p := openBrowser(t, startProgram(t, quickPace))
	steps := []struct {
		name string
		test func(*page)
	}{
		{"clicked twice with a key", func(p *page) {
			p.load(true)
			p.clickTwice()
			p.settled(2)
			p.wantCharges(1, "Charged once")
			p.wantLife("first-time", "charged", "completed", "replay")
		}},
		{"clicked twice without a key", func(p *page) {
			p.load(false)
			p.clickTwice()
			p.settled(2)
			p.wantCharges(2, "Charged twice")
			p.wantLife("no-key", "charged")
		}},
		{"double click", func(p *page) {
			p.load(true)
			p.pressScenario("double-click")
			p.settled(2)
			p.wantCharges(1, "Charged once")
			p.wantLife("first-time", "charged", "completed", "replay")
		}},
		{"response lost", func(p *page) {
			p.load(true)
			p.pressScenario("drop-response")
			p.settled(2)
			p.wantCharges(1, "Charged once")
			p.wantLife("first-time", "completed", "no-response", "retried", "replay")
		}},
		{"pod killed before the charge", func(p *page) {
			p.load(true)
			p.pressScenario("kill-before-charge")
			p.settled(2)
			p.wantCharges(1, "Charged once")
			p.wantLife("first-time", "killed", "no-response", "retried", "expired", "taken-over", "charged", "completed")
			if row := browsertest.Ask[string](p.Tab, `document.querySelector("#ledger li").textContent`); !strings.Contains(row, "attempt 2") {
				p.Errorf("the ledger says %q, want attempt 2", row)
			}
		}},
		{"pod killed after the charge", func(p *page) {
			p.load(true)
			p.pressScenario("kill-after-charge")
			p.settled(2)
			p.wantCharges(1, "Charged once")
			p.wantLife("charged", "killed", "taken-over", "recognised", "completed")
		}},
		{"pod killed after the charge, without a key", func(p *page) {
			p.load(false)
			p.pressScenario("kill-after-charge")
			p.settled(2)
			p.wantCharges(2, "Charged twice")
		}},
		{"changed amount", changedAmount},
		{"twenty clicks", twentyClicks},
		{"exchange of a row", exchangeOfARow},
		{"key and hint", keyAndHint},
		{"contrast", contrast},
		{"keyboard alone", keyboardAlone},
		{"start over", func(p *page) {
			p.load(true)
			p.Do(chromedp.Click(`#pay`))
			p.settled(1)
			before := browsertest.Ask[string](p.Tab, `document.body.dataset.shop`)
			p.Do(chromedp.Click(`#reset`))
			p.Await(fmt.Sprintf(`document.body.dataset.shop !== %q`, before))
			p.wantCharges(0, "Nothing is charged yet")
		}},
		{"nothing is wider than the window", func(p *page) {
			for _, width := range []int64{320, 390, 768, 1280} {
				p.Do(chromedp.EmulateViewport(width, 844))
				p.load(true)
				p.Do(chromedp.Click(`#pay`))
				p.settled(1)
				p.Do(chromedp.Click(`#log summary`))
				if wide := browsertest.Ask[int64](p.Tab, `document.documentElement.scrollWidth`); wide > width {
					p.Errorf("the page is %d pixels wide in a window of %d", wide, width)
				}
			}
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.test(&page{p.As(t), p.program})
		})
	}
	if wrong := p.Wrong(); len(wrong) > 0 {
		t.Errorf("in the browser:\n%s", strings.Join(wrong, "\n"))
	}
}

// keyboardAlone pays without a mouse, and reaches every control.
func keyboardAlone(p *page) {
	p.load(true)
	focused := func() string {
		return browsertest.Ask[string](p.Tab, `(document.activeElement.id || document.activeElement.dataset.scenario || "")`)
	}
	var order []string
	for range 10 {
		p.Do(chromedp.KeyEvent("\t"))
		order = append(order, focused())
		if outline := browsertest.Ask[string](p.Tab, `getComputedStyle(document.activeElement.closest("label") ?? document.activeElement).outlineStyle`); outline != "solid" {
			p.Errorf("%s has the focus, and an outline of style %s", focused(), outline)
		}
	}
	want := "with-key copy-key pay double-click drop-response kill-before-charge kill-after-charge change-amount new-order reset"
	testkit.Equal(p, strings.Join(order, " "), want, "the tab key goes to")

	p.load(true)
	p.Do(chromedp.KeyEvent("\t\t\t"))
	p.Do(chromedp.KeyEvent("\r"))
	p.settled(1)
	p.wantCharges(1, "Charged once")
	p.Do(chromedp.KeyEvent("\r")) // the focus has not moved
	p.settled(2)
	p.wantCharges(1, "Charged once")

	p.load(true)
	p.Do(chromedp.KeyEvent("\t"), chromedp.KeyEvent(" "))
	p.Await(`document.getElementById("key").textContent === "no key is sent"`)
}

// The README shows the current page: UPDATE_SCREENSHOT=1 takes a new picture.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	if os.Getenv("UPDATE_SCREENSHOT") != "" {
		takeScreenshot(t)
	}
	picture, err := os.ReadFile(screenshotFile)
	if err != nil {
		t.Fatalf("%v: UPDATE_SCREENSHOT=1 takes the picture", err)
	}
	if kind := http.DetectContentType(picture); kind != "image/png" || len(picture) > maxScreenshot {
		t.Errorf("%s is %s of %d bytes, want image/png of at most %d", screenshotFile, kind, len(picture), maxScreenshot)
	}
}

func takeScreenshot(t *testing.T) {
	t.Helper()
	p := openBrowser(t, startProgram(t, demoPace))
	p.Do(chromedp.EmulateViewport(1280, 750))
	p.load(true)
	browsertest.Ask[bool](p.Tab, `(document.querySelector("[data-scenario=kill-before-charge]").click(), true)`) // leaves no focus and no hover
	p.settled(2)
	p.wantCharges(1, "Charged once")
	p.Do(chromedp.Blur(`[data-scenario=kill-before-charge]`))
	picture := browsertest.Get(p.Tab, chromedp.CaptureScreenshot())
	testkit.Must(t, os.WriteFile(screenshotFile, picture, 0o644))
}
