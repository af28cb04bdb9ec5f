package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

// pace is how fast things happen: slow enough to watch.
type pace struct {
	bank    time.Duration // what the bank takes for a charge
	lockTTL time.Duration // how long a crash blocks a key
	restart time.Duration // how long a killed pod is away
}

var demoPace = pace{bank: 700 * time.Millisecond, lockTTL: 2 * time.Second, restart: 5 * time.Second}

const (
	maxRecords  = 1000             // keys that the store of one shop holds
	maxNotices  = 256              // that wait for a page to read them
	closingTime = 5 * time.Second  // for what the engines have left to do
	retention   = 10 * time.Minute // of an answer: longer than anybody watches
)

// shop is one tab's deployment: two pods over one store, their balancer, and a
// bank outside of it all.
type shop struct {
	id        string
	pace      pace
	opened    time.Time
	store     storage.Store
	bank      bank
	notices   chan notice
	overflown chan struct{} // closed when the page does not read its notices
	overflow  sync.Once
	visits    sync.WaitGroup // requests that are being served

	mu      sync.Mutex
	pods    [2]*pod // nil while one is away
	turn    int
	struck  int // the newest request that a fault was meant for
	closing bool
}

func newShop(id string, pace pace) (*shop, error) {
	s := &shop{
		id: id, pace: pace, opened: time.Now(),
		store:     memstore.New(memstore.MaxRecords(maxRecords), memstore.MaxBytes(4<<20)),
		notices:   make(chan notice, maxNotices),
		overflown: make(chan struct{}),
	}
	for i := range s.pods {
		p, err := newPod(s, i)
		if err != nil {
			return nil, err
		}
		s.pods[i] = p
	}
	return s, nil
}

// tell shows the page what happened. It never waits: a page that does not read
// loses its stream, and with it the shop.
func (s *shop) tell(n notice) {
	n.At = time.Since(s.opened).Milliseconds()
	select {
	case s.notices <- n:
	default:
		s.overflow.Do(func() { close(s.overflown) })
	}
}

// pick returns the pod whose turn it is among those that run, or nil.
func (s *shop) pick() *pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.pods {
		p := s.pods[s.turn]
		s.turn = (s.turn + 1) % len(s.pods)
		if p != nil {
			return p
		}
	}
	return nil
}

// restartLater takes a killed pod out and puts a new one in its place, as an
// orchestrator does.
func (s *shop) restartLater(killed *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[killed.place] = nil
	time.AfterFunc(s.pace.restart, func() { s.restart(killed.place) }) // does nothing where the shop has closed by then
}

func (s *shop) restart(place int) {
	p, err := newPod(s, place)
	if err != nil {
		s.tell(notice{What: "not_started", Pod: podNames[place], Error: err.Error()})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.pods[place] = p
	s.tell(notice{What: "started", Pod: p.name})
}

// close ends the shop in order: first the visits, none of which the bank keeps for
// long, then the engines. No visit may begin any more.
func (s *shop) close() {
	s.visits.Wait()
	s.mu.Lock()
	s.closing = true
	pods := s.pods
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closingTime)
	defer cancel()
	for _, p := range pods {
		if p != nil {
			p.engine.Shutdown(ctx) //nolint:errcheck // nobody is left who could be told
		}
	}
}

// showLedger answers what the bank has charged.
func (s *shop) showLedger(w http.ResponseWriter, _ *http.Request) {
	total, charges := s.bank.statement()
	writeJSON(w, http.StatusOK, struct {
		Total   int      `json:"total"`
		Charges []charge `json:"charges"` // the newest
	}{total, charges})
}
