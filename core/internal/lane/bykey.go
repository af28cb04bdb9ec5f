package lane

import (
	"slices"
	"strings"
)

// ByKey are the calls of a batch, grouped by key, in the order of keys.
type ByKey[Q, R any] struct {
	keys []string
	// Groups are the calls of each key.
	Groups [][]*Call[Q, R]
}

// GroupByKey groups the calls whose callers have not left.
func GroupByKey[Q, R any](batch []*Call[Q, R], key func(Q) string) (b ByKey[Q, R]) {
	rest := make([]*Call[Q, R], 0, len(batch))
	for _, c := range batch {
		if !c.Left() {
			rest = append(rest, c)
		}
	}
	slices.SortFunc(rest, func(a, b *Call[Q, R]) int { return strings.Compare(key(a.Request), key(b.Request)) })
	for len(rest) > 0 {
		first, same := key(rest[0].Request), 1
		for same < len(rest) && key(rest[same].Request) == first {
			same++
		}
		b.keys, b.Groups = append(b.keys, first), append(b.Groups, rest[:same])
		rest = rest[same:]
	}
	return b
}

// Of returns the calls of a key of the batch.
func (b ByKey[Q, R]) Of(key string) []*Call[Q, R] {
	i, _ := slices.BinarySearch(b.keys, key)
	return b.Groups[i]
}
