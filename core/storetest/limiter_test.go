package storetest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of the counts of scopes.
const (
	placesForEver          bug = "places do not end"
	placesEndTogether      bug = "all places end early"
	keepIgnored            bug = "renewing has no effect"
	keepTakesAPlace        bug = "renewing takes a place"
	keepEndsAny            bug = "giving back ends another place"
	givesNoPlaceBack       bug = "a place is never given back"
	repetitionRefused      bug = "a repeated call is refused"
	repetitionCounts       bug = "a repeated call counts"
	placeGivenBackUncounts bug = "a place that is given back counts no more"
	windowForEver          bug = "a window does not end"
	refusalsCount          bug = "refused keys count"
	oneScope               bug = "all scopes are one"
	admitsNotAtomically    bug = "the decision and the count are two steps"
	countsAreRecords       bug = "counts are listed"
	admitsLate             bug = "a key is admitted after the end of its context"
	keepsLate              bug = "a place is given back after the end of its context"
)

// limitModel is the model with counts, under one lock.
type limitModel struct {
	*model
	bug    bug
	mutex  sync.Mutex
	counts map[string]*scopecount.Count
	began  time.Time
}

func newLimitModel(b bug) storage.Store {
	return &limitModel{model: newModel(none).(*model), bug: b, counts: map[string]*scopecount.Count{}, began: time.Now()}
}

func (m *limitModel) count(scope string) *scopecount.Count {
	if m.bug == oneScope {
		scope = ""
	}
	if m.counts[scope] == nil {
		m.counts[scope] = new(scopecount.Count)
	}
	return m.counts[scope]
}

func (m *limitModel) now() int64 { return time.Since(m.began).Microseconds() }

func (m *limitModel) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (a storage.Admission, err error) {
	if ctx.Err() != nil && m.bug != admitsLate {
		return a, ctx.Err()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	count := m.count(p.Scope)
	if m.bug == admitsNotAtomically {
		seen := *count
		m.mutex.Unlock()
		<-time.After(time.Microsecond)
		m.mutex.Lock()
		a, _ = seen.Admit(m.now(), p, ttl, limit)
		*count = seen
		return a, ctx.Err()
	}
	switch m.bug {
	case placesForEver:
		ttl = time.Hour
	case placesEndTogether:
		ttl = min(ttl, defaultUnit)
	case windowForEver:
		limit.Window = time.Hour
	case repetitionRefused:
		if count.Keep(m.now(), p, ttl) {
			return storage.Admission{Reached: storage.ReachedInFlight}, nil
		}
	case repetitionCounts:
		p.Token = storage.NewToken()
	case countsAreRecords:
		c := storage.Claim{Key: key(7), LockTTL: time.Hour, Retain: time.Hour}
		m.records[c.Key] = &entry{Lease: storage.Lease{Claim: c}, expires: time.Now().Add(time.Hour), Record: storage.Record{State: storage.InProgress}}
	default:
	}
	a, _ = count.Admit(m.now(), p, ttl, limit)
	if a.Reached == storage.ReachedInFlight && m.bug == refusalsCount {
		count.Admit(m.now(), p, ttl, storage.ScopeLimit{NewKeys: limit.NewKeys, Window: limit.Window})
	}
	return a, ctx.Err()
}

func (m *limitModel) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	if ctx.Err() != nil && m.bug != keepsLate {
		return ctx.Err()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	count := m.count(p.Scope)
	switch {
	case m.bug == keepIgnored && ttl > 0, m.bug == givesNoPlaceBack && ttl == 0:
	case m.bug == keepTakesAPlace && ttl > 0:
		count.Admit(m.now(), p, ttl, storage.ScopeLimit{InFlight: storage.MaxInFlight})
	case m.bug == keepEndsAny && ttl == 0, m.bug == placeGivenBackUncounts && ttl == 0:
		*count = scopecount.Count{}
	default:
		count.Keep(m.now(), p, ttl)
	}
	return ctx.Err()
}

// limiterBugs are the bugs that each case must find.
var limiterBugs = map[string][]bug{
	"keys in flight":           {givesNoPlaceBack},
	"places of dead holders":   {placesForEver, placesEndTogether},
	"a renewed place":          {keepIgnored},
	"a place that is gone":     {keepTakesAPlace, keepEndsAny},
	"the same token again":     {repetitionRefused, repetitionCounts},
	"new keys of a window":     {placeGivenBackUncounts},
	"the next window":          {windowForEver},
	"a clock that is set back": {windowForEver},
	"refused keys":             {refusalsCount},
	"independent scopes":       {oneScope},
	"concurrent keys":          {admitsNotAtomically},
	"records and counts":       {countsAreRecords},
	"an ended context":         {admitsLate, keepsLate},
}

func TestLimitModelPasses(t *testing.T) {
	t.Parallel()
	RunLimiter(t, Config{New: func(testing.TB) storage.Store { return newLimitModel(none) }, Wrap: synctest.Test})
}

// On a busy machine a place may end before its renewal arrives, and the store then forgets the scope.
func TestLimitSuiteIsPatient(t *testing.T) {
	t.Parallel()
	RunLimiter(t, Config{New: func(testing.TB) storage.Store { return lateLimiter{newLimitModel(none).(*limitModel)} }, Wrap: synctest.Test})
}

type lateLimiter struct{ *limitModel }

func (l lateLimiter) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	pause(ctx, 2*defaultUnit)
	if count := l.count(p.Scope); count.End() <= l.now() {
		*count = scopecount.Count{}
	}
	return l.limitModel.Keep(ctx, p, ttl)
}

// A store without the interface, and a wrapper of one, fail the suite.
func TestLimitSuiteNeedsALimiter(t *testing.T) {
	t.Parallel()
	for _, store := range []storage.Store{newModel(none), wrapsNoLimiter{newLimitModel(none).(*limitModel)}} {
		if !fails(t, limiterCases[0], Config{New: func(testing.TB) storage.Store { return store }}.open) {
			t.Errorf("%T passes", store)
		}
	}
}

type wrapsNoLimiter struct{ *limitModel }

func (wrapsNoLimiter) Limits() bool { return false }

func (wrapsNoLimiter) Admit(ctx context.Context, _ storage.Place, _ time.Duration, _ storage.ScopeLimit) (storage.Admission, error) {
	return storage.Admission{}, cmp.Or(ctx.Err(), errors.ErrUnsupported)
}
