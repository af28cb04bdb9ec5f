package sqlrows

import (
	"fmt"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
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
		testkit.Equal(t, forgotten, map[bool]int{true: newest}[round == 0], "new keys in round %d of %d keys", round, newest)
	}
}
