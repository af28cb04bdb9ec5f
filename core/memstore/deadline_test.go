package memstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// schedule is deadlines, and the positions that their records received.
type schedule struct {
	deadlines
	positions map[place]uint32
	expiries  map[place]time.Duration
}

func newSchedule() *schedule {
	s := &schedule{positions: map[place]uint32{}, expiries: map[place]time.Duration{}}
	s.init(func(p place, position uint32) { s.positions[p] = position })
	return s
}

func (s *schedule) add(p place, expires time.Duration) {
	s.expiries[p] = expires
	s.push(deadline{expires, p})
}

func (s *schedule) take(p place) {
	s.drop(s.positions[p])
	delete(s.positions, p)
	delete(s.expiries, p)
}

func (s *schedule) check(t *testing.T) {
	t.Helper()
	if s.length != len(s.expiries) {
		t.Fatalf("there are %d deadlines, want %d", s.length, len(s.expiries))
	}
	for p, expires := range s.expiries {
		if one := s.at(int(s.positions[p])); one.place != p || one.expires != expires {
			t.Fatalf("place %d expires at %d and received position %d, which holds %+v", p, expires, s.positions[p], *one)
		}
		if s.first().expires > expires || !s.anyExpired(expires) {
			t.Fatalf("the first deadline is %d, known as %d, and place %d expires at %d", s.first().expires, s.earliest.Load(), p, expires)
		}
	}
}

// Whatever comes, goes and is put off, the earliest is first, and each record
// knows its position.
func TestDeadlinesAgainstMap(t *testing.T) {
	t.Parallel()
	const most, steps = 3 * blockSize, 30_000
	random := rand.New(rand.NewPCG(1, 6)) // the same each time
	s := newSchedule()
	for step := range steps {
		p, when := 1+place(random.IntN(2*most)), time.Duration(random.IntN(most))
		switch _, held := s.expiries[p]; {
		case !held && s.length < most:
			s.add(p, when)
		case held && random.IntN(2) == 0:
			s.expiries[p] = when
			s.fix(s.positions[p], when)
		case held:
			s.take(p)
		}
		if step%500 == 0 {
			s.check(t)
		}
	}
	for s.length > 0 {
		expired := s.expired(most)
		if expired == nowhere {
			t.Fatalf("%d deadlines are left, and none has passed", s.length)
		}
		s.take(expired)
		if s.length%100 == 0 {
			s.check(t)
		}
	}
	if s.first() != (deadline{}) || s.expired(most) != nowhere || s.anyExpired(most) {
		t.Errorf("without deadlines the first is %+v", s.first())
	}
}

// The memory of many deadlines is released, except one block for new deadlines.
func TestDeadlinesGiveBlocksBack(t *testing.T) {
	t.Parallel()
	s := newSchedule()
	for p := range place(5 * blockSize) {
		s.add(p+1, time.Duration(p))
	}
	for s.length > blockSize/2 {
		s.take(s.expired(5 * blockSize))
	}
	testkit.Equal(t, len(s.blocks), 2, "blocks of half a block of deadlines")
}
