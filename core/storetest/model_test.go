package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// model is the contract in as few lines as possible, under one lock, with a
// switch for each way to get it wrong.
type model struct {
	bug     bug
	mutex   sync.Mutex
	records map[string]*entry
	found   map[string]storage.Record // by inProgressForEver
	buffer  []byte                    // by reusesWhatItGave
}

type entry struct {
	storage.Lease
	storage.Record
	leaseEnd, expires time.Time
	remember          time.Duration
	sketchBefore      []byte
}

func newModel(b bug) storage.Store {
	m := &model{bug: b, records: map[string]*entry{}, found: map[string]storage.Record{}}
	if b == worksAfterTheEnd {
		return lateModel{m}
	}
	return m
}

func (m *model) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	if err := m.ended(ctx); err != nil {
		return storage.Lease{}, nil, err
	}
	if r := m.peek(request); r != nil {
		return storage.Lease{}, r, nil
	}
	c := m.claimOf(request)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	now, e := time.Now(), m.lookUp(c.Key)
	l := storage.Lease{Claim: c, Attempt: 1}
	if r, found := m.found[c.Key]; found {
		return storage.Lease{}, &r, nil
	}
	switch {
	case e == nil:
		m.gap(acquireNotAtomic)
		l.Attempt, l.Steps = m.attemptAfter(c.Key), m.stepsOfTheOneBefore(c.Key)
		if m.bug == countsFromZero {
			l.Attempt = 0
		}
	case e.State == 0:
		l.Attempt, l.TookOver = e.Lease.Attempt+1, m.bug == releaseCountsAsTakenOver
		l.Steps = e.Lease.Steps // none
		m.gap(reclaimNotAtomic)
	case e.State == storage.Released:
		reclaimed, gets := m.reclaims(e, c)
		if !gets {
			return storage.Lease{}, &e.Record, nil
		}
		l = reclaimed
		m.gap(releasedNotAtomic)
	case e.State == storage.Expired && m.claimsTombstone(e, c):
	case e.State == storage.Completed && m.bug == reusesWhatItGave:
		r := e.Record
		m.buffer = append(m.buffer[:0], r.Body...)
		r.Body = m.buffer
		return storage.Lease{}, &r, nil
	case e.State != storage.InProgress && (e.Token != c.Token || m.bug != ownFinishedReclaimed):
		return storage.Lease{}, &e.Record, nil
	case e.Token == c.Token && m.bug != ownClaimNotFound:
		l.Attempt, l.TookOver = e.Lease.Attempt, e.TookOver && m.bug != ownTakeOverUntold
		l.Steps = m.stepsFor(e, stepsNotReturnedToOwnClaim)
		if m.bug == ownClaimNotRenewed {
			return l, nil, nil
		}
	case m.abandoned(e, c, now) && (c.TakeOver || m.bug == takeOverUnasked) &&
		(m.sameRequest(e.Lease, c) || m.bug == takeOverOfOtherRequest):
		l.Attempt, l.TookOver = e.Lease.Attempt+1, m.bug != takeOverUntold
		l.Steps = m.stepsFor(e, stepsNotReturnedToTakeOver)
		switch m.bug {
		case takeOverUncounted:
			l.Attempt = e.Lease.Attempt
		case countsToTwo:
			l.Attempt = 2
		default:
		}
		m.gap(takeOverNotAtomic)
	case m.bug == contentionIsAnError:
		return storage.Lease{}, nil, storage.ErrLeaseLost
	default:
		if r := m.given(e, now); r != nil {
			return storage.Lease{}, r, nil
		}
		r := e.Record
		r.LeaseLeft = e.leaseEnd.Sub(now)
		switch m.bug {
		case leaseLeftOfTheRecord:
			r.LeaseLeft = e.expires.Sub(now)
		case inProgressForEver:
			m.found[c.Key] = r
		case clockOfTheCaller:
			r.LeaseLeft += time.Duration(c.Token[0]) * time.Second
		case stepsNotInRecord:
			r.Steps = ""
		default:
		}
		return storage.Lease{}, &r, nil
	}
	switch {
	case e == nil && m.records[m.name(c.Key)] != nil:
		m.gap(expiredNotAtomic)
	case e != nil && e.Token == c.Token:
		m.gap(ownClaimNotAtomic)
	}
	m.hold(l, now)
	m.keepEnd(e, c)
	if m.bug == takeOverDropsSteps && e != nil && e.Token != c.Token || m.bug == ownClaimDropsSteps && e != nil && e.Token == c.Token {
		held := m.records[m.name(c.Key)]
		held.Lease.Steps, held.Record.Steps = "", ""
	}
	return l, nil, nil
}

func (m *model) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if err := m.ended(ctx); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.refusal(len(res.Body)); err != nil {
		m.refuse(l)
		return err
	}
	now, e := time.Now(), m.lookUp(l.Key)
	switch {
	case e == nil && m.bug == completeOnlyWhatIsKnown:
		return storage.ErrLeaseLost
	case e == nil:
	case e.State == storage.Expired && m.bug != tombstoneCompleted,
		m.foreign(e, l) && m.bug != completeWithoutToken:
		return storage.ErrLeaseLost
	case e.State == storage.Expired:
	case e.State == storage.Released && m.bug == releasedResultForgotten:
		return nil
	case e.isOver() && m.bug == completeNotRepeatable:
		return storage.ErrLeaseLost
	case e.isOver() && m.bug != completeOverwrites:
		return nil
	case e.leaseEnd.Before(now) && m.bug == completeOnlyInTime:
		return storage.ErrLeaseLost
	}
	m.gap(completeNotAtomic)
	if e != nil && m.bug == changesWhatItGave {
		e.Record = m.recordOf(l, res)
	}
	m.records[l.Key] = &entry{
		Lease: l, expires: now.Add(m.retain(l, res)), remember: m.remember(l, res), Record: m.recordOf(l, res),
	}
	return nil
}

func (m *model) Release(ctx context.Context, l storage.Lease) error {
	if err := m.ended(ctx); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	e := m.lookUp(l.Key)
	if l.Steps != "" && m.bug != releasedWithoutSteps && !(e == nil && m.bug == releasedLostForgotten) {
		if !m.mayRelease(e, l) {
			return storage.ErrLeaseLost
		}
		m.gap(releaseOfStepsNotAtomic)
		m.keepReleased(e, l)
		return nil
	}
	switch {
	case e == nil && m.bug == releaseNotRepeatable:
		return storage.ErrLeaseLost
	case e == nil || m.bug == releaseDoesNothing:
		return nil
	case m.bug == releaseWithoutAttempt && e.Token == l.Token:
	case m.foreign(e, l) && m.bug != releaseWithoutToken:
		return storage.ErrLeaseLost
	}
	m.gap(releaseNotAtomic)
	switch {
	case e.State == storage.Expired && m.bug == tombstoneReleased:
		delete(m.records, l.Key)
		return nil
	case e.isOver() && m.bug != releaseOfFinished,
		e.State == 0 && m.bug == releaseOfReleased,
		e.leaseEnd.Before(time.Now()) && m.bug == releaseOnlyInTime:
		return storage.ErrLeaseLost
	case l.Attempt == 1 || m.bug == releaseForgetsAttempt:
		delete(m.records, l.Key)
		return nil
	}
	expires := time.Now().Add(l.Retain)
	if m.bug == releasedKeepsExpiry {
		expires = e.expires
	}
	m.records[l.Key] = &entry{Lease: m.withoutSteps(e, l), expires: expires}
	if m.bug == releasedRemembered {
		m.records[l.Key].remember = l.Remember
	}
	return nil
}

func (m *model) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := m.ended(ctx); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err := m.refusal(len(l.Steps)); err != nil {
		m.refuse(l)
		return err
	}
	now, e := time.Now(), m.lookUp(l.Key)
	expires := now.Add(l.Retain)
	errs := func(always, byZero bug) bool { return m.bug == always || m.bug == byZero && ttl == 0 }
	switch {
	case e == nil && m.bug == extendOnlyWhatIsKnown:
		return storage.ErrLeaseLost
	case ttl == 0 && (m.bug == extendByZeroDoesNothing && e != nil && !m.foreign(e, l) || m.bug == extendByZeroReleases && e == nil):
		return nil
	case e != nil:
		switch {
		case m.foreign(e, l) && m.bug == stepsUnfenced:
			e.Record.Steps = l.Steps
			return storage.ErrLeaseLost
		case m.foreign(e, l) && !errs(extendWithoutToken, extendByZeroWithoutToken),
			e.State == storage.Expired && m.bug != tombstoneExtended,
			e.isOver() && e.State != storage.Expired && !errs(extendOfFinished, extendByZeroOfFinished),
			e.leaseEnd.Before(now) && errs(extendOnlyInTime, extendByZeroOnlyInTime):
			return storage.ErrLeaseLost
		case m.bug == extendDoesNothing:
			return nil
		case m.bug == extendAddsUp:
			ttl += e.leaseEnd.Sub(now)
		case m.bug == extendKeepsExpiry:
			expires = e.expires
		}
	}
	m.gap(extendNotAtomic)
	l.LockTTL = ttl
	if m.bug == shorterStepsRefused && e != nil && len(l.Steps) < len(e.Lease.Steps) {
		return nil
	}
	l.Steps = m.steps(e, l)
	if m.bug == extendLosesHolder {
		l.Token = storage.Token{}
	}
	m.hold(l, now)
	m.records[l.Key].expires = expires
	if e != nil && m.bug == extendChangesWhatItGave {
		e.Record = m.records[l.Key].Record
	}
	if m.bug == extendForgetsRemember {
		m.records[l.Key].remember = 0
	}
	return nil
}

func (m *model) hold(l storage.Lease, now time.Time) {
	before, current := m.records[l.Key], m.lookUp(l.Key)
	if m.bug == attemptIn32Bits {
		l.Attempt = uint64(uint32(l.Attempt))
	}
	m.records[m.name(l.Key)] = &entry{
		Lease: l, leaseEnd: now.Add(l.LockTTL), expires: now.Add(l.Retain), remember: l.Remember,
		Record: storage.Record{State: storage.InProgress, Fingerprint: l.Fingerprint, Digest: m.digest(l), Attempt: l.Attempt, Steps: l.Steps},
	}
	m.begin(&m.records[m.name(l.Key)].Record, l, current, now)
	if m.bug == forgetsAbandoned {
		m.records[l.Key].expires = now.Add(l.LockTTL)
	}
	switch {
	case before == nil:
	case m.bug == sketchOfRunning:
		m.records[l.Key].Sketch = before.Sketch
	case m.bug == sketchOfTheOneBefore:
		m.records[l.Key].sketchBefore = before.Sketch
	}
}
