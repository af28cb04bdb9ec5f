package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkTag finds the slips that Go's own reading of a tag passes over in silence:
// a name that is nearly one of ours, and a tag that cannot be parsed.
func checkTag(tag string) error {
	names, rest := tagNames(tag)
	for _, name := range names {
		for _, ours := range []string{routeTag, policyTag} {
			// A third of the letters: idempotence and Route are meant to be ours, json is not.
			if name != ours && distance(strings.ToLower(name), ours) <= len(ours)/3 {
				return fmt.Errorf("the tag %s is unknown: did you mean %s?", name, ours)
			}
		}
	}
	if strings.Contains(rest, routeTag) || strings.Contains(rest, policyTag) {
		return fmt.Errorf("the tag `%s` cannot be parsed: write name:\"value\" pairs parted by spaces", tag)
	}
	return nil
}

// tagNames returns the names in a struct tag, as package reflect defines it, and
// the rest from where it cannot be parsed.
func tagNames(tag string) (names []string, rest string) {
	for {
		tag = strings.TrimLeft(tag, " ")
		name, value, found := strings.Cut(tag, ":")
		quoted, err := strconv.QuotedPrefix(value)
		if !found || name == "" || strings.ContainsAny(name, " \"") || err != nil {
			return names, tag
		}
		names, tag = append(names, name), value[len(quoted):]
	}
}

// distance is how many letters must be put in, left out or changed to make b of
// a (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
