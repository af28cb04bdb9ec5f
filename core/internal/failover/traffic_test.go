package failover

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	// pace is how often each stream posts a new key, and an earlier one again.
	pace = 10 * time.Millisecond
	// streak is how many new keys in a row must run before a stream counts as healed.
	streak = 20
)

// sample is one request of a stream.
type sample struct {
	began time.Time
	first bool // of its key
	answer
}

func (s sample) ended() time.Time { return s.began.Add(s.took) }
func (s sample) succeeded() bool  { return s.is(created) || s.is(replayed) }

// stream is the steady traffic of one client of one process: new keys and
// earlier ones in turns, never two at a time.
type stream struct {
	process *process
	keys    func() string

	mutex   sync.Mutex
	samples []sample
}

func (s *stream) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var known []string
	for turn := 0; ctx.Err() == nil; turn++ {
		if key := s.keys(); s.post(key, true).is(created) {
			known = append(known, key)
		}
		if len(known) > 0 {
			s.post(known[turn%len(known)], false)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (s *stream) post(key string, first bool) answer {
	began := time.Now()
	got := s.process.post(key)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.samples = append(s.samples, sample{began, first, got})
	return got
}

// since returns the requests that had no answer yet at that time, and the later
// ones.
func (s *stream) since(moment time.Time) []sample {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, one := range s.samples {
		if one.ended().After(moment) {
			return s.samples[i:len(s.samples):len(s.samples)]
		}
	}
	return nil
}

// healed reports whether new keys run again, after some have not, and how long
// after the kill the first of them was answered.
func (s *stream) healed(kill time.Time) (after time.Duration, healed bool) {
	row := 0
	failed := false
	for _, one := range s.since(kill) {
		switch {
		case !one.succeeded():
			failed, row, after = true, 0, 0
		case failed && one.first:
			if row++; row == 1 {
				after = one.ended().Sub(kill)
			}
		}
	}
	return after, row >= streak
}

// slowest returns the longest that any request took, and failures how many were
// not answered with the handler's own answer.
func (s *stream) slowest(since time.Time) (slowest time.Duration, failures int) {
	for _, one := range s.since(since) {
		slowest = max(slowest, one.took)
		if !one.succeeded() {
			failures++
		}
	}
	return slowest, failures
}

// silence returns the longest time without a success.
func (s *stream) silence(since time.Time) (longest time.Duration) {
	last := since
	for _, one := range s.since(since) {
		if one.succeeded() {
			longest, last = max(longest, one.ended().Sub(last)), one.ended()
		}
	}
	return longest
}

// traffic is the streams that run in one test.
type traffic struct {
	ctx   context.Context
	group sync.WaitGroup
	stop  context.CancelFunc
}

// newTraffic returns streams that end with the test at the latest.
func newTraffic(t *testing.T) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	all := &traffic{ctx: ctx, stop: cancel}
	t.Cleanup(all.end)
	return all
}

func (a *traffic) start(p *process, keys func() string) *stream {
	s := &stream{process: p, keys: keys}
	a.group.Go(func() { s.run(a.ctx) })
	return s
}

// end returns when every request has been answered.
func (a *traffic) end() { a.stop(); a.group.Wait() }
