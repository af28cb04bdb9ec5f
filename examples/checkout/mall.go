package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// maxShops bounds the pages that are open at a time.
	maxShops = 32
	// unattended is how long a shop stays open without a sign of its page. A browser may
	// run the timers of a hidden tab only once a minute.
	unattended = 5 * time.Minute
)

// mall holds the shops. A page opens a shop, asks it for notices, and closes it. Each
// question is a short request, because a browser opens at most six HTTP/1.1 connections
// to a host: a lasting stream per tab would leave no connection to the seventh tab.
type mall struct {
	pace pace

	mu    sync.Mutex
	shops map[string]*shop // nil after the end of the program
}

func newMall(pace pace) *mall {
	return &mall{pace: pace, shops: make(map[string]*shop)}
}

// open returns a new shop, or nil if the limit is reached.
func (m *mall) open() (*shop, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shops == nil || len(m.shops) >= maxShops {
		return nil, nil //nolint:nilnil // no shop is a result and no error
	}
	s, err := newShop(rand.Text(), m.pace)
	if err == nil {
		s.unattended = time.AfterFunc(unattended, func() { m.close(s) })
		m.shops[s.id] = s
	}
	return s, err
}

// close closes the shop once.
func (m *mall) close(s *shop) {
	m.mu.Lock()
	isOpen := m.shops[s.id] == s
	delete(m.shops, s.id)
	m.mu.Unlock()
	if isOpen {
		s.unattended.Stop()
		s.close()
	}
}

// end closes all shops. No shop opens afterwards.
func (m *mall) end() {
	m.mu.Lock()
	shops := m.shops
	m.shops = nil
	m.mu.Unlock()
	for _, s := range shops {
		s.unattended.Stop()
		s.close()
	}
}

// withShop serves a request in the shop named by its path.
func (m *mall) withShop(serve func(*shop, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := m.enter(r.PathValue("shop"))
		if s == nil {
			writeJSON(w, http.StatusNotFound, message{"this shop has closed: load the page again"})
			return
		}
		defer s.visits.Done()
		serve(s, w, r)
	}
}

// enter returns the shop, or nil. The shop stays open until the visit is done.
func (m *mall) enter(id string) *shop {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shops[id]
	if s != nil {
		s.visits.Add(1)
	}
	return s
}

// openShop opens a shop for a page.
func (m *mall) openShop(w http.ResponseWriter, _ *http.Request) {
	s, err := m.open()
	switch {
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, message{err.Error()})
	case s == nil:
		writeJSON(w, http.StatusServiceUnavailable, message{strconv.Itoa(maxShops) + " pages are open: close one of them"})
	default:
		writeJSON(w, http.StatusCreated, struct {
			Shop  string `json:"shop"`
			Lease int64  `json:"lease"` // milliseconds
		}{s.id, m.pace.lockTTL.Milliseconds()})
	}
}

// closeShop closes the shop of a page that leaves. Payments under way get their responses.
func (m *mall) closeShop(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	s := m.shops[r.PathValue("shop")]
	m.mu.Unlock()
	if s != nil {
		m.close(s)
	}
	w.WriteHeader(http.StatusNoContent)
}

// message is a response other than a receipt. The engine's problems have the same member.
type message struct {
	Error string `json:"error"`
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // the responses are structs of strings and numbers
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
