package failover

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
)

// pace is the interval at which each stream posts a new key, and repeats an earlier key.
const pace = 10 * time.Millisecond

// sample is one request of a stream.
type sample struct {
	began time.Time
	first bool // the first request of its key
	answer
}

func (s sample) ended() time.Time { return s.began.Add(s.took) }
func (s sample) succeeded() bool  { return s.is(created) || s.is(replayed) }

// stream is the steady traffic of one client of one process: new and earlier keys in turns,
// one at a time.
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

// since returns the requests that began after a moment.
func (s *stream) since(moment time.Time) []sample {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i, one := range s.samples {
		if one.began.After(moment) {
			return s.samples[i:len(s.samples):len(s.samples)]
		}
	}
	return nil
}

// flows reports whether the requests since a moment end with a streak of new keys that ran.
func (s *stream) flows(moment time.Time) bool {
	return service.Flows(s.since(moment), sample.succeeded, func(one sample) bool { return one.first })
}

// fails reports whether the latest request since a moment was refused.
func (s *stream) fails(moment time.Time) bool {
	after := s.since(moment)
	return len(after) > 0 && !after[len(after)-1].succeeded()
}

// failing returns the number of refused requests since a moment, and the time of the last
// one.
func (s *stream) failing(moment time.Time) (failures int, after time.Duration) {
	for _, one := range s.since(moment) {
		if !one.succeeded() {
			failures, after = failures+1, one.ended().Sub(moment)
		}
	}
	return failures, after
}

// slowest returns the longest duration of a request.
func (s *stream) slowest(moment time.Time) (slowest time.Duration) {
	for _, one := range s.since(moment) {
		slowest = max(slowest, one.took)
	}
	return slowest
}

// traffic is the set of streams in one test.
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

// end returns when every request has a response.
func (a *traffic) end() { a.stop(); a.group.Wait() }
