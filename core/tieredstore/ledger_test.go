package tieredstore_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// ledger has the results that callers got for one key, and finds contradictions.
type ledger struct {
	mutex   sync.Mutex
	holders []*holder
	// releases are of first attempts, done or perhaps done.
	releases int
	// answer is the response that was accepted or replayed first.
	answer  string
	replays int
	wrong   error
}

// holder is a caller that got the lease, and runs.
type holder struct {
	lease storage.Lease
	until time.Time // the lease does not end before
	done  bool
}

func (l *ledger) granted(lease storage.Lease, asked time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now, firsts := time.Now(), 0
	for _, other := range l.holders {
		if !other.done && now.Before(other.until) {
			l.contradicted("attempt %d runs, and attempt %d has a lease for another %s", lease.Attempt, other.lease.Attempt, other.until.Sub(now))
		}
		if other.lease.Attempt == lease.Attempt && lease.Attempt > 1 {
			l.contradicted("attempt %d was given out twice", lease.Attempt)
		}
		if other.lease.Attempt == 1 {
			firsts++
		}
	}
	if lease.Attempt == 1 && firsts > l.releases {
		l.contradicted("attempt 1 was given out %d times before, and released %d times", firsts, l.releases)
	}
	if l.answer != "" {
		l.contradicted("attempt %d runs, although the key has the %s", lease.Attempt, l.answer)
	}
	l.holders = append(l.holders, &holder{lease: lease, until: asked.Add(lease.LockTTL)})
}

func (l *ledger) renewed(lease storage.Lease, asked time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.holder(lease).until = asked.Add(lease.LockTTL)
}

// settling is called before the holder settles: the lease may end at any time.
func (l *ledger) settling(lease storage.Lease) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.holder(lease).done = true
}

func (l *ledger) releasing(lease storage.Lease) {
	l.settling(lease)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if lease.Attempt == 1 {
		l.releases++
	}
}

func (l *ledger) saw(record *storage.Record) {
	if record.State == storage.InProgress {
		return
	}
	l.accepted(string(record.Body))
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.replays++
}

// accepted records the key's response from now on.
func (l *ledger) accepted(answer string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.answer != "" && l.answer != answer {
		l.contradicted("the %s was replaced by the %s", l.answer, answer)
	}
	l.answer = answer
}

func (l *ledger) holder(lease storage.Lease) *holder {
	for _, h := range l.holders {
		if h.lease.Token == lease.Token {
			return h
		}
	}
	panic("no caller was given this lease")
}

func (l *ledger) contradicted(format string, details ...any) {
	l.wrong = errors.Join(l.wrong, fmt.Errorf(format, details...))
}

func (l *ledger) verdict(total *tally) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	total.runs += len(l.holders)
	total.replays += l.replays
	for _, h := range l.holders {
		if h.lease.TookOver {
			total.takeOvers++
		}
	}
	return l.wrong
}
