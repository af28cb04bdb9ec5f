package sqlrows

import (
	"fmt"
	"testing"
)

// Each key that this process has seen lately saves an INSERT that adds no row. Keys whose
// hashes are near each other must not displace each other.
func TestSeenRemembersTheNewestKeys(t *testing.T) {
	t.Parallel()
	const newest = 512 // with any seed, a bucket gets more than its ways of them once in 10⁷ runs
	s := NewSeen()
	for round := range 3 {
		forgotten := 0
		for i := range newest {
			if s.Add(fmt.Sprint("key ", i)) {
				forgotten++
			}
		}
		if want := map[bool]int{true: newest}[round == 0]; forgotten != want {
			t.Errorf("in round %d %d of %d keys were new, want %d", round, forgotten, newest, want)
		}
	}
}
