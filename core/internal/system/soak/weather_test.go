package soak

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/internal/explore"
)

// weather is the trouble of all plans: servers that become unreachable, and a machine that
// stalls.
type weather struct {
	mu     sync.Mutex
	down   []explore.Downtime
	stalls []stall
}

type stall struct {
	at   time.Time
	long time.Duration
}

// watch measures until done by how much goroutines are delayed.
func (w *weather) watch(done <-chan struct{}) {
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		now := time.Now()
		if late := now.Sub(last) - tick; late > tick {
			w.mu.Lock()
			w.stalls = append(w.stalls, stall{now, late})
			w.mu.Unlock()
		}
		last = now
	}
}

// between implements explore.Backend's Trouble.
func (w *weather) between(from, to time.Time) (trouble explore.Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.stalls) - 1; i >= 0 && w.stalls[i].at.After(from); i-- {
		trouble.Stalled = max(trouble.Stalled, w.stalls[i].long)
	}
	for _, down := range w.down {
		if down.To.After(from) && down.From.Before(to) {
			trouble.Downtimes = append(trouble.Downtimes, down)
		}
	}
	return trouble
}

// strike kills, restarts or freezes one server. Plans treat a strike without an
// end as ongoing.
func (w *weather) strike(servers []server) {
	victim := servers[rand.IntN(len(servers))]
	w.mu.Lock()
	n := len(w.down)
	w.down = append(w.down, explore.Downtime{From: time.Now(), To: time.Now().Add(time.Hour)})
	w.mu.Unlock()
	switch rand.IntN(3) {
	case 0:
		victim.Kill()
		pass(rand.N(2 * time.Second))
		victim.Restart()
	case 1:
		victim.Restart()
	default:
		victim.Pause()
		pass(rand.N(2 * time.Second))
		victim.Resume()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[n].To = time.Now()
}

// pass is the only function that waits.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
