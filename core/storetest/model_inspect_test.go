package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Inspector = (*model)(nil)

func (m *model) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	if err := m.inspect(ctx); err != nil {
		return nil, err
	}
	defer m.mutex.Unlock()
	e := m.lookUp(key)
	if e == nil || e.State == 0 && m.bug != lookUpOfReleased || e.State == storage.Expired && m.bug == lookUpWithoutTombstones {
		return nil, nil //nolint:nilnil // there is no record
	}
	if e.State == storage.Expired && m.bug == lookUpOfExpired {
		e = m.records[key]
	}
	r := e.Record
	if r.State == storage.InProgress && m.bug != lookUpKeepsTime {
		r.LeaseLeft = time.Until(e.leaseEnd)
	}
	switch m.bug {
	case lookUpWithoutSince:
		r.LeaseLeft = max(r.LeaseLeft, 0)
	case lookUpWithoutBody:
		r.Body = nil
	case lookUpWithoutSketch:
		r.Sketch = nil
	case lookUpWithoutDigest:
		r.Digest = storage.Digest{}
	case lookUpWithoutSteps:
		r.Steps = ""
	case lookUpWithoutOrigin:
		r.Origin = storage.Origin{}
	case lookUpWithoutTimes:
		r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{}
	default:
	}
	return &r, nil
}

func (m *model) List(ctx context.Context, filter storage.Filter, page storage.Page) (l storage.Listing, err error) {
	if err := m.inspect(ctx); err != nil {
		return l, err
	}
	defer m.mutex.Unlock()
	if err := errors.Join(filter.Validate(), page.Validate()); err != nil && m.bug != listOfAnyLength {
		return l, err
	}
	began, keys := time.Now(), slices.Sorted(maps.Keys(m.records))
	for i, key := range keys {
		e := m.lookUp(key)
		if e != nil && e.State == storage.Expired && m.bug == listOfExpired {
			e = m.records[key]
		}
		if e == nil || e.State == 0 || e.State == storage.Released && m.bug == releasedUnlisted || e.State == storage.Expired && m.bug == listWithoutTombstones || m.before(page.Cursor, i, key) {
			continue
		}
		if len(l.Entries) == page.Limit && m.bug != listOfAnyLength || m.spent(page, l.LookedAt, began) {
			return m.counted(m.cut(l)), nil
		}
		l.LookedAt++
		if l.Next = key; m.bug == listByNumber {
			l.Next = number(i)
		}
		r := e.Record
		r.LeaseLeft = time.Until(e.leaseEnd)
		if m.isFilteredOut(filter, &r) {
			continue
		}
		if m.bug != listWithAnswers {
			r.Header, r.Body = nil, nil
		}
		if m.bug != listWithSteps {
			r.Steps = ""
		}
		switch m.bug {
		case listWithoutLeaseLeft:
			r.LeaseLeft = max(r.LeaseLeft, 0)
		case listWithoutDigest:
			r.Digest = storage.Digest{}
		case listWithoutOrigins:
			r.Origin = storage.Origin{}
		case listWithoutTimes:
			r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{}
		default:
		}
		l.Entries = append(l.Entries, storage.Entry{Key: key, Record: &r})
	}
	l.Next = ""
	return m.counted(l), nil
}

// before reports whether the cursor has passed the i-th key.
func (m *model) before(cursor string, i int, key string) bool {
	if m.bug == listByNumber {
		return number(i) <= cursor
	}
	return key <= cursor
}

func number(i int) string { return fmt.Sprintf("%06d", i) }

func (m *model) cut(l storage.Listing) storage.Listing {
	if n := len(l.Entries); n > 0 && (m.bug == listLosesRecords || m.bug == listSkipsOfOne && n == 1) {
		l.Entries = l.Entries[:n-1]
	}
	return l
}

func (m *model) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if err := m.inspect(ctx); err != nil {
		return false, err
	}
	defer m.mutex.Unlock()
	if confirmation != storage.RerunIsSafe && m.bug != forgetWithoutConfirmation {
		return false, errors.New("pass storage.RerunIsSafe")
	}
	e := m.lookUp(key)
	released, buried := e != nil && e.State == 0, e != nil && e.State == storage.Expired
	if m.bug != forgetDoesNothing && !(released && m.bug == forgetIgnoresReleased) && !(m.bug == releasedNotForgotten && e != nil && e.State == storage.Released) && !(buried && m.bug == forgetIgnoresTombstones) {
		delete(m.records, key)
	}
	return e != nil && !released && !(buried && m.bug == forgetOfTombstoneUntold), nil
}

// inspect locks the model.
func (m *model) inspect(ctx context.Context) error {
	if err := ctx.Err(); err != nil && m.bug != inspectsAfterTheEnd {
		return err
	}
	m.mutex.Lock()
	return nil
}
