package main

import (
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// endless is for payments that are under way when their program dies.
var endless = pace{bank: 10 * time.Minute, lockTTL: time.Minute, restart: time.Hour}

// mortal is a program that can die: its connections break at once.
type mortal struct {
	mall   *mall
	server *http.Server

	mu          sync.Mutex
	connections map[net.Conn]bool
}

func startMortal(t *testing.T, addr string) (*mortal, *running) {
	t.Helper()
	m := &mortal{mall: newMall(endless), connections: make(map[net.Conn]bool)}
	m.server = newServer(m.mall)
	m.server.ConnState = func(c net.Conn, state http.ConnState) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.connections[c] = true
		if state == http.StateClosed || state == http.StateHijacked {
			delete(m.connections, c)
		}
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	testkit.Must(t, err)
	go m.server.Serve(listener) //nolint:errcheck // http.ErrServerClosed
	t.Cleanup(m.die)
	return m, &running{url: "http://" + listener.Addr().String()}
}

// die may be called again.
func (m *mortal) die() {
	m.server.Close()
	var pods []*pod
	m.mall.mu.Lock()
	for _, s := range m.mall.shops {
		s.mu.Lock()
		pods = append(pods, s.pods[:]...)
		s.mu.Unlock()
	}
	m.mall.mu.Unlock()
	for _, p := range pods {
		if p != nil {
			p.kill() // and its handlers stop
		}
	}
	m.mall.end()
}

// shop returns the one open shop.
func (m *mortal) shop() *shop {
	m.mall.mu.Lock()
	defer m.mall.mu.Unlock()
	for _, s := range m.mall.shops {
		return s
	}
	return nil
}

const growing = `document.querySelector("#drawing .run")?.width.baseVal.value > 30`

// The steps run in one tab: the page tells when its shop is out of reach, and recovers.
func TestLostShop(t *testing.T) {
	t.Parallel()
	m, program := startMortal(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(serverproc.FreePort(t)))) // no other program takes it while the shop is closed
	p := openBrowser(t, program)
	p.load(true)

	// A page at rest holds no connection. A browser opens at most six to a host, so six
	// tabs that hold one each would block the seventh.
	testkit.Await(t, "for the page to hold no connection", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.connections) == 0
	})

	p.Do(chromedp.Click("#pay"))
	p.Await(`document.querySelector("#life li")?.dataset.state === "first-time"`)
	p.Await(growing)
	m.die()
	p.Await(`document.getElementById("headline").textContent === "The shop is closed"`)
	p.Await(`!document.querySelector("#drawing .now")`)
	p.Await(growing) // the clock stops, and does not go back
	if pods := browsertest.Ask[string](p.Tab, `[...document.querySelectorAll(".pod b")].map((b) => b.textContent).join()`); pods != "unknown,unknown" {
		t.Errorf("the pods are %q, want unknown", pods)
	}
	if browsertest.Ask[bool](p.Tab, `[...document.querySelectorAll("#pay, #reset, [data-scenario]")].some((b) => !b.disabled)`) {
		t.Error("a button of a closed shop is enabled")
	}

	again, _ := startMortal(t, program.url[len("http://"):])
	p.Await(`document.getElementById("headline").textContent === "Nothing is charged yet" && !document.getElementById("pay").disabled`)

	s := again.shop()
	s.mu.Lock()
	s.pods = [2]*pod{}
	s.mu.Unlock()
	p.Do(chromedp.Click("#pay"))
	p.Await(`document.querySelector("#log li").innerText.includes("Both pods are down")`)

	// The page is closed while the shops are filled: otherwise it opens one of them, and gives it back when it is left.
	p.Do(chromedp.Navigate("about:blank"))
	for s := again.shop(); s != nil; s = again.shop() {
		again.mall.close(s)
	}
	var others []*shop
	for other := openShop(t, again.mall); ; {
		others = append(others, other)
		if other, _ = again.mall.open(); other == nil {
			break
		}
	}
	p.Do(chromedp.Navigate(program.url + "/"))
	p.Await(`document.getElementById("explanation").textContent.startsWith("32 pages are open: close one of them.")`)
	again.mall.close(others[0])
	p.Await(`document.getElementById("headline").textContent === "Nothing is charged yet" && !document.getElementById("pay").disabled`)
}
