package explore

import (
	"slices"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// store is the simulated store: the contract of storage.Store in as few lines as
// possible. Link simulates the faults of the network.
type store struct {
	mu      sync.Mutex
	start   time.Time
	plan    *Plan
	records map[string]*record
	lives   map[string]int
	scopes  map[string]*scope
}

// record is the store's record of a key.
type record struct {
	lease   storage.Lease
	result  storage.Result // State is InProgress until the run ends; after a Release it is Released, or zero without steps
	ends    time.Time      // end of the lease
	expires time.Time
	gone    time.Time // end of the tombstone; expires if there is none
	holder  int       // the request that holds, or held, the lease
	created time.Time // the attempt's claim
}

// verdict is the result of a call at the store.
type verdict struct {
	lease  storage.Lease
	record *storage.Record
	err    error
	life   int
	source int // the request whose lease was taken over, or whose record was returned
	word   string
	age    time.Duration // of the lease, by its holder

	admission storage.Admission
}

// now is the store's clock.
func (s *store) now() time.Time {
	now := time.Now()
	at := now.Sub(s.start)
	return now.Add(s.plan.jumped(Skip, at) + s.plan.jumped(Suspension, at))
}

// find returns the key's record, and deletes one that is over. An expired record that
// must be remembered becomes a tombstone.
func (s *store) find(key string, now time.Time) *record {
	r := s.records[key]
	switch {
	case r == nil || now.Before(r.expires):
	case !now.Before(r.gone), s.plan.sabotage == keepsNoTombstones:
		delete(s.records, key)
		s.lives[key]++
		return nil
	case r.result.State != storage.Expired:
		r.result = storage.Result{State: storage.Expired, Status: r.result.Status}
		if s.plan.sabotage == losesStatus {
			r.result.Status = 0
		}
		r.lease.Steps, r.lease.Origin = "", storage.Origin{}
	}
	return r
}

func (s *store) acquire(c storage.Claim, caller int) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(c.Key, now)
	v := verdict{lease: storage.Lease{Claim: c, Attempt: 1}, life: s.lives[c.Key], source: -1, word: "lease"}
	switch {
	case r == nil, s.plan.sabotage == grantsAlways, s.plan.sabotage == rerunsByHand && r.result.Status == storage.StatusByHand:
	case r.result.State == 0, r.result.State == storage.Released && c.Repeats(r.lease.Fingerprint, r.lease.Digest):
		v.lease.Attempt, v.lease.Steps = r.lease.Attempt+1, r.lease.Steps
	case r.result.State == storage.InProgress && r.lease.Token == c.Token:
		v.lease.Attempt, v.lease.TookOver, v.lease.Steps, v.word = r.lease.Attempt, r.lease.TookOver, r.lease.Steps, "lease again"
	case r.result.State == storage.InProgress && !now.Before(r.ends) && c.TakeOver && c.Repeats(r.lease.Fingerprint, r.lease.Digest):
		v.lease.Attempt, v.lease.TookOver, v.lease.Steps, v.source, v.word = r.lease.Attempt+1, true, r.lease.Steps, r.holder, "lease taken over"
	default:
		v.lease, v.record, v.source = storage.Lease{}, r.show(now), r.holder
		s.spoil(v.record, c)
		v.word = v.record.State.String()
		if v.record.Abandoned() {
			v.word = "abandoned"
		}
		return v
	}
	s.hold(v.lease, c.LockTTL, now, caller)
	return v
}

// show returns the record as a caller sees it.
func (r *record) show(now time.Time) *storage.Record {
	shown := &storage.Record{
		State: r.result.State, Fingerprint: r.lease.Fingerprint, Digest: r.lease.Digest, Attempt: r.lease.Attempt,
		Status: r.result.Status, Header: r.result.Header, Body: r.result.Body, Sketch: r.result.Sketch,
		Created: r.created, Origin: r.lease.Origin,
	}
	if !r.isOver() {
		shown.LeaseLeft, shown.Steps = r.ends.Sub(now), r.lease.Steps
	}
	return shown
}

// isOver reports whether the record has an outcome, or is a tombstone.
func (r *record) isOver() bool {
	return r.result.State >= storage.Completed && r.result.State <= storage.Expired
}

// spoil applies the sabotage to a returned record.
func (s *store) spoil(r *storage.Record, c storage.Claim) {
	switch s.plan.sabotage {
	case altersBody:
		r.Body = append(slices.Clone(r.Body), '!')
	case altersRequest:
		r.Fingerprint += "!"
		r.Digest = storage.Digest{}
	case forgetsRequest:
		r.Fingerprint, r.Digest = c.Fingerprint, c.Digest
	case neverFinishes:
		r.State, r.LeaseLeft = storage.InProgress, time.Second
	case expiresAtOnce:
		r.State = storage.Expired
	default:
	}
}

// isHeldBy reports whether the lease holds the record. Comparing the token is not
// enough: a late claim can raise the attempt under the same token.
func (r *record) isHeldBy(l storage.Lease) bool {
	return r.lease.Token == l.Token && r.lease.Attempt == l.Attempt
}

func (s *store) hold(l storage.Lease, ttl time.Duration, now time.Time, caller int) {
	if s.plan.sabotage == leaseEndsEarly {
		ttl = 0
	}
	created := now.Add(-l.Age)
	if old := s.records[l.Key]; old != nil && old.isHeldBy(l) {
		created = old.created
	}
	s.records[l.Key] = &record{
		lease: l, created: created, ends: now.Add(ttl), expires: now.Add(l.Retain), gone: now.Add(l.Retain + l.Remember), holder: caller,
		result: storage.Result{State: storage.InProgress},
	}
}

func (s *store) complete(l storage.Lease, res storage.Result, caller int, op Op) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(l.Key, now)
	v := verdict{life: s.lives[l.Key], source: -1, word: res.State.String()}
	switch {
	case r == nil:
	case !r.isHeldBy(l):
		v.err, v.source, v.word = storage.ErrLeaseLost, r.holder, "lease lost"
		return v
	case r.result.State == storage.Expired:
		v.err, v.source, v.word = storage.ErrLeaseLost, r.holder, "expired"
		return v
	case r.isOver():
		v.word = "again"
		return v
	}
	if s.refuses(res, caller) {
		v.err, v.word = refusal(op), "refused for good"
		if s.plan.sabotage != keepsRefused {
			return v
		}
	}
	res.Header, res.Body, res.Sketch = slices.Clone(res.Header), slices.Clone(res.Body), slices.Clone(res.Sketch)
	if s.plan.sabotage == altersStatus {
		res.Status++
	}
	if res.State == storage.Unreplayable {
		res.Header, res.Body = nil, nil
	}
	l.Steps = ""
	s.records[l.Key] = &record{lease: l, result: res, expires: now.Add(res.Retain), gone: now.Add(res.Retain + res.Remember), holder: caller}
	return v
}

func (s *store) release(l storage.Lease, caller int) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(l.Key, now)
	v := verdict{life: s.lives[l.Key], source: -1, word: "released"}
	if s.plan.sabotage == losesSteps {
		l.Steps = ""
	}
	released := &record{lease: l, created: now.Add(-l.Age), expires: now.Add(l.Retain), gone: now.Add(l.Retain), holder: caller}
	if l.Steps != "" {
		released.result.State = storage.Released
	}
	switch {
	case r == nil && l.Steps == "":
		v.word = "no lease to release"
	case r != nil && (!r.isHeldBy(l) || r.isOver()):
		v.err, v.source, v.word = storage.ErrLeaseLost, r.holder, "lease lost"
	case l.Attempt == 1 && l.Steps == "":
		delete(s.records, l.Key)
	default:
		s.records[l.Key] = released
	}
	return v
}

func (s *store) extend(l storage.Lease, ttl time.Duration, caller int) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.find(l.Key, now)
	v := verdict{life: s.lives[l.Key], source: -1, word: "extended"}
	if r != nil && (!r.isHeldBy(l) || r.isOver()) {
		v.err, v.source, v.word = storage.ErrLeaseLost, r.holder, "lease lost"
		return v
	}
	if r != nil && len(r.lease.Steps) > len(l.Steps) {
		l.Steps = r.lease.Steps
	}
	if s.plan.sabotage == losesSteps {
		l.Steps = ""
	}
	if ttl == 0 && s.plan.sabotage == keepsLeases {
		ttl = l.LockTTL
	}
	s.hold(l, ttl, now, caller)
	if ttl == 0 && s.plan.sabotage == losesAbandoned {
		delete(s.records, l.Key)
	}
	return v
}
