package memstore

import (
	"math/rand/v2"
	"testing"
)

// Whatever comes, goes and is moved, and however many have the same hash or the same
// home, each place is found by its hash, and no other.
func TestIndexAgainstMap(t *testing.T) {
	NeedsNoRaceDetector(t)
	t.Parallel()
	const steps = 20_000
	for name, hashes := range map[string][]uint64{
		"spread":     spread(5_000),
		"few hashes": spread(20),
		"one home":   {1 << 40, 2 << 40, 3 << 40, 4 << 40, 5 << 40, 6 << 40, 7 << 40},
		"last home":  {1<<64 - 1, 1<<64 - 1<<41, 1<<64 - 1<<42, 1<<63 | 1}, // it goes on at the first one
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 4)) // the same each time
			var x index
			there := map[place]uint64{}
			free := place(1)
			for step := range steps {
				p := 1 + place(random.Uint64N(uint64(free)))
				hash, held := there[p]
				switch {
				case !held && len(there) < 500:
					hash = hashes[random.IntN(len(hashes))]
					x.insert(hash, free)
					there[free] = hash
					free++
				case held && step%3 == 0:
					x.replace(hash, p, free)
					delete(there, p)
					there[free] = hash
					free++
				case held:
					x.remove(hash, p)
					delete(there, p)
				}
				if step%100 == 0 {
					checkIndex(t, &x, there)
				}
			}
		})
	}
}

func spread(n int) []uint64 {
	random := rand.New(rand.NewPCG(1, 5))
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = random.Uint64()
	}
	return hashes
}

// checkIndex finds each place once, and as many as are counted.
func checkIndex(t *testing.T, x *index, there map[place]uint64) {
	t.Helper()
	for p, hash := range there {
		times := 0
		table := x.table(hash)
		for i, found := table.first(hash); found != nowhere; i, found = table.next(i, hash) {
			if found == p {
				times++
			}
		}
		if times != 1 {
			t.Fatalf("place %d of hash %x is found %d times", p, hash, times)
		}
	}
	used, filled := 0, 0
	for i := range x.tables {
		used += int(x.tables[i].used)
		for _, s := range x.tables[i].slots {
			if s != 0 {
				filled++
			}
		}
	}
	if used != len(there) || filled != len(there) {
		t.Fatalf("%d slots are filled and %d are counted, want %d", filled, used, len(there))
	}
}

// No table is large, and so none takes long to grow, as long as the hashes spread.
func TestTablesStaySmall(t *testing.T) {
	t.Parallel()
	const records, most = 100_000, 256
	s := New()
	for n := range uint64(records) {
		hash := s.hash(identity{byte(n), byte(n >> 8), byte(n >> 16)})
		s.shardOf(hash).index.insert(hash, place(n+1))
	}
	for i := range s.shards {
		for j := range s.shards[i].index.tables {
			if slots := len(s.shards[i].index.tables[j].slots); slots > most {
				t.Errorf("with %d records a table has %d slots, want at most %d", records, slots, most)
			}
		}
	}
}
