package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

// limitBug is a way to get the counts of scopes wrong.
type limitBug uint8

const (
	noLimitBug limitBug = iota
	placesForEver
	placesEndTogether
	keepIgnored
	keepTakesAPlace
	keepEndsAny
	givesNoPlaceBack
	repetitionRefused
	repetitionCounts
	placeGivenBackUncounts
	windowForEver
	refusalsCount
	oneScope
	admitsNotAtomically
	countsAreRecords
	admitsLate
	keepsLate
)

// limitModel is the model with counts, under one lock.
type limitModel struct {
	*model
	bug    limitBug
	mutex  sync.Mutex
	counts map[string]*scopecount.Count
	began  time.Time
}

func newLimitModel(b limitBug) storage.Store {
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

var limitBugs = []struct {
	name string
	bug  limitBug
	find string
}{
	{"a place is never given back", givesNoPlaceBack, "keys in flight"},
	{"places do not end", placesForEver, "places of dead holders"},
	{"all places end early", placesEndTogether, "places of dead holders"},
	{"renewing has no effect", keepIgnored, "a renewed place"},
	{"renewing takes a place", keepTakesAPlace, "a place that is gone"},
	{"giving back ends another place", keepEndsAny, "a place that is gone"},
	{"a repeated call is refused", repetitionRefused, "the same token again"},
	{"a repeated call counts", repetitionCounts, "the same token again"},
	{"a place that is given back counts no more", placeGivenBackUncounts, "new keys of a window"},
	{"a window does not end", windowForEver, "the next window"},
	{"refused keys count", refusalsCount, "refused keys"},
	{"all scopes are one", oneScope, "independent scopes"},
	{"the decision and the count are two steps", admitsNotAtomically, "concurrent keys"},
	{"counts are listed", countsAreRecords, "records and counts"},
	{"a key is admitted after the end of its context", admitsLate, "an ended context"},
	{"a place is given back after the end of its context", keepsLate, "an ended context"},
}

func TestLimitModelPasses(t *testing.T) {
	t.Parallel()
	RunLimiter(t, Config{New: func(testing.TB) storage.Store { return newLimitModel(noLimitBug) }, Wrap: synctest.Test})
}

func TestLimitSuiteFindsEveryBug(t *testing.T) {
	t.Parallel()
	for _, c := range limiterCases {
		found := slices.ContainsFunc(limitBugs, func(broken struct {
			name string
			bug  limitBug
			find string
		},
		) bool {
			return broken.find == c.name
		})
		if c.rule == "" || !found {
			t.Errorf("case %q: it needs a rule, and a bug that makes it fail", c.name)
		}
	}
	for _, test := range limitBugs {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(limiterCases, func(c testCase) bool { return c.name == test.find })
			synctest.Test(t, func(t *testing.T) {
				if !failsOver(t, limiterCases[i], func() storage.Store { return newLimitModel(test.bug) }) {
					t.Errorf("the case %q does not find it", test.find)
				}
			})
		})
	}
}

// A store without the interface, and a wrapper of one, fail the suite.
func TestLimitSuiteNeedsALimiter(t *testing.T) {
	t.Parallel()
	for _, store := range []storage.Store{newModel(none), wrapsNoLimiter{newLimitModel(noLimitBug).(*limitModel)}} {
		if !failsOver(t, limiterCases[0], func() storage.Store { return store }) {
			t.Errorf("%T passes", store)
		}
	}
}

type wrapsNoLimiter struct{ *limitModel }

func (wrapsNoLimiter) Limits() bool { return false }

func (wrapsNoLimiter) Admit(ctx context.Context, _ storage.Place, _ time.Duration, _ storage.ScopeLimit) (storage.Admission, error) {
	return storage.Admission{}, cmp.Or(ctx.Err(), errors.ErrUnsupported)
}
