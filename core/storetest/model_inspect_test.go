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

func (m *model) List(ctx context.Context, state storage.State, cursor string, limit int) (page []storage.Entry, next string, err error) {
	if err := m.inspect(ctx); err != nil {
		return nil, "", err
	}
	defer m.mutex.Unlock()
	if _, known := storage.ParseState(state.String()); (limit < 1 || limit > 1000 || !known) && m.bug != listOfAnyLength {
		return nil, "", errors.New("nonsense")
	}
	keys := slices.Sorted(maps.Keys(m.records))
	for i, key := range keys {
		e := m.lookUp(key)
		if e != nil && e.State == storage.Expired && m.bug == listOfExpired {
			e = m.records[key]
		}
		if e == nil || e.State == storage.Expired && m.bug == listWithoutTombstones || e.State != state && m.bug != listOfAllStates || m.before(cursor, i, key) {
			continue
		}
		if len(page) == limit && m.bug != listOfAnyLength {
			return m.cut(page), next, nil
		}
		r := e.Record
		r.LeaseLeft = time.Until(e.leaseEnd)
		if m.bug != listWithAnswers {
			r.Header, r.Body = nil, nil
		}
		if m.bug != listWithSteps {
			r.Steps = ""
		}
		switch m.bug {
		case listWithoutDigest:
			r.Digest = storage.Digest{}
		case listWithoutOrigins:
			r.Origin = storage.Origin{}
		case listWithoutTimes:
			r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{}
		default:
		}
		page = append(page, storage.Entry{Key: key, Record: &r})
		if next = key; m.bug == listByNumber {
			next = number(i)
		}
	}
	return page, "", nil
}

// before reports whether the cursor has passed the i-th key.
func (m *model) before(cursor string, i int, key string) bool {
	if m.bug == listByNumber {
		return number(i) <= cursor
	}
	return key <= cursor
}

func number(i int) string { return fmt.Sprintf("%06d", i) }

func (m *model) cut(page []storage.Entry) []storage.Entry {
	if m.bug == listLosesRecords || m.bug == listSkipsOfOne && len(page) == 1 {
		return page[:len(page)-1]
	}
	return page
}

func (m *model) Forget(ctx context.Context, key string, word storage.Word) (bool, error) {
	if err := m.inspect(ctx); err != nil {
		return false, err
	}
	defer m.mutex.Unlock()
	if word != storage.RerunIsSafe && m.bug != forgetWithoutWord {
		return false, errors.New("pass storage.RerunIsSafe")
	}
	e := m.lookUp(key)
	released, buried := e != nil && e.State == 0, e != nil && e.State == storage.Expired
	if m.bug != forgetDoesNothing && !(released && m.bug == forgetIgnoresReleased) && !(buried && m.bug == forgetIgnoresTombstones) {
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
