package main

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// notice is one thing that happened in the shop, as sent to the page. Most notices are
// events of an engine, with the event's result in What. The other notices come from the
// balancer, the bank and the pods' links to the store:
//
//	arrived      a request reached a pod
//	responded    the response went to the browser
//	no_response  the response was dropped, or the pod was killed
//	lease        the store has given or renewed a lease, which runs until Until
//	charged      the bank charged a card
//	recognised   the bank knew the charge already, by its derived key
//	killed       a pod was killed
//	started      another pod took its place
//	not_started  the other pod could not start
type notice struct {
	What    string  `json:"what"`
	At      int64   `json:"at"`                // milliseconds since the shop opened
	Until   int64   `json:"until,omitempty"`   // likewise
	Request int     `json:"request,omitempty"` // the page's own number
	Pod     string  `json:"pod,omitempty"`
	Attempt uint64  `json:"attempt,omitempty"`
	Status  int     `json:"status,omitempty"`
	Charge  *charge `json:"charge,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// maxNotices bounds the notices that a shop keeps for its page.
const maxNotices = 256

// board keeps the newest notices of a shop. It never waits for the page.
type board struct {
	mu   sync.Mutex
	told int
	kept []notice
}

func (b *board) tell(n notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told++
	b.kept = append(b.kept, n)
	if len(b.kept) > maxNotices {
		b.kept = b.kept[1:]
	}
}

// since returns the kept notices after the given number of notices, and the number of all.
func (b *board) since(told int) (newest []notice, all int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := min(max(0, b.told-told), len(b.kept))
	return append([]notice{}, b.kept[len(b.kept)-missing:]...), b.told
}

// showNotices responds with the notices after the first ones that the page has. A page
// that missed the response can ask again.
func (s *shop) showNotices(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || after < 0 {
		writeJSON(w, http.StatusBadRequest, message{"after: want a number from 0"})
		return
	}
	s.unattended.Reset(unattended)
	newest, all := s.notices.since(after)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, struct {
		Now     int64    `json:"now"`  // milliseconds since the shop opened
		Next    int      `json:"next"` // the page's next after
		Notices []notice `json:"notices"`
	}{time.Since(s.opened).Milliseconds(), all, newest})
}
