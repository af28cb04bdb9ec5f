package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
)

// pace is the speed of a shop: slow enough to watch.
type pace struct {
	bank    time.Duration // the duration of a charge
	lockTTL time.Duration // how long a crash blocks a key
	restart time.Duration // how long a killed pod is down
}

var demoPace = pace{bank: 700 * time.Millisecond, lockTTL: 2 * time.Second, restart: 5 * time.Second}

const (
	maxRecords  = 1000             // keys in the store of one shop
	closingTime = 5 * time.Second  // for the remaining work of the engines
	retention   = 10 * time.Minute // of a response: longer than a demonstration lasts
)

// shop is one page's deployment: two pods over one store, their balancer, and an
// external bank.
type shop struct {
	id         string
	pace       pace
	opened     time.Time
	store      *memstore.Store
	bank       bank
	notices    board
	visits     sync.WaitGroup // requests that are being served
	unattended *time.Timer    // closes the shop of a page that has gone

	mu      sync.Mutex
	pods    [2]*pod // nil while a pod is down
	turn    int
	struck  int // the newest request with a fault
	closing bool
}

func newShop(id string, pace pace) (*shop, error) {
	s := &shop{
		id: id, pace: pace, opened: time.Now(),
		store: memstore.New(memstore.MaxRecords(maxRecords), memstore.MaxBytes(4<<20)),
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

// tell keeps a notice for the page.
func (s *shop) tell(n notice) {
	n.At = time.Since(s.opened).Milliseconds()
	s.notices.tell(n)
}

// pick returns the next running pod, or nil.
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

// inspect serves the operators' page of a running pod.
func (s *shop) inspect(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	var running *pod
	for _, p := range s.pods {
		if p != nil {
			running = p
			break
		}
	}
	s.mu.Unlock()
	if running == nil {
		writeJSON(w, http.StatusServiceUnavailable, message{"no pod is running: try again in a few seconds"})
		return
	}
	http.StripPrefix("/shops/"+s.id+"/inspector", running.page).ServeHTTP(w, r)
}

// restartLater removes a killed pod and starts a new one in its place, as an
// orchestrator does.
func (s *shop) restartLater(killed *pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[killed.place] = nil
	time.AfterFunc(s.pace.restart, func() { s.restart(killed.place) }) // restart has no effect after the shop has closed
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

// close ends the shop in order: first the visits, which the bank delays only briefly,
// then the engines. From now on no visit may begin.
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
			p.engine.Shutdown(ctx) //nolint:errcheck // the page is gone, so the error has no reader
		}
	}
}

// showLedger responds with the bank's charges.
func (s *shop) showLedger(w http.ResponseWriter, _ *http.Request) {
	total, charges := s.bank.statement()
	writeJSON(w, http.StatusOK, struct {
		Total   int      `json:"total"`
		Charges []charge `json:"charges"` // the newest
	}{total, charges})
}
