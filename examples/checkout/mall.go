package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// maxShops bounds the tabs that are open at a time.
	maxShops = 32
	// writeDeadline is for a browser that has stopped reading its stream.
	writeDeadline = 10 * time.Second
)

// mall holds the shops. A shop opens and closes with a page's event stream, so a closed
// page leaves no data behind.
type mall struct {
	pace    pace
	closing <-chan struct{} // closed at the end of the program

	mu    sync.Mutex
	shops map[string]*shop
}

func newMall(ctx context.Context, pace pace) *mall {
	return &mall{pace: pace, closing: ctx.Done(), shops: make(map[string]*shop)}
}

// open returns a new shop, or nil if the limit is reached.
func (m *mall) open() (*shop, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.shops) >= maxShops {
		return nil, nil //nolint:nilnil // no shop is a result and no error
	}
	s, err := newShop(rand.Text(), m.pace)
	if err == nil {
		m.shops[s.id] = s
	}
	return s, err
}

func (m *mall) close(s *shop) {
	m.mu.Lock()
	delete(m.shops, s.id)
	m.mu.Unlock()
	s.close()
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

// stream opens a shop and sends its notices as Server-Sent Events. It ends when the page
// closes, when the page does not read, and when the program ends.
func (m *mall) stream(w http.ResponseWriter, r *http.Request) {
	s, err := m.open()
	switch {
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, message{err.Error()})
		return
	case s == nil:
		writeJSON(w, http.StatusServiceUnavailable, message{"there are " + strconv.Itoa(maxShops) + " tabs open: close a tab"})
		return
	}
	defer m.close(s)

	out := http.NewResponseController(w)
	out.SetReadDeadline(time.Time{}) //nolint:errcheck // the server's own deadline is for requests that end
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s.tell(notice{What: "opened", Shop: s.id, Lease: m.pace.lockTTL.Milliseconds()})
	for {
		select {
		case n := <-s.notices:
			if send(w, out, n) != nil {
				return
			}
		case <-s.overflown:
			return
		case <-r.Context().Done():
			return
		case <-m.closing:
			return
		}
	}
}

func send(w http.ResponseWriter, out *http.ResponseController, n notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := out.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
		return err
	}
	if _, err := w.Write([]byte("data: " + string(text) + "\n\n")); err != nil {
		return err
	}
	return out.Flush()
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
