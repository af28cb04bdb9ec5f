package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkTag finds mistakes that package reflect ignores: a route or idempotency tag that is
// misspelled or given twice, and a tag that cannot be parsed.
func checkTag(tag string) error {
	names, rest := tagNames(tag)
	for i, name := range names {
		for _, ours := range []string{routeTag, policyTag} {
			if name == ours && slices.Contains(names[:i], name) {
				return fmt.Errorf("the tag %s is given twice: once is enough", name)
			}
			// A third of the letters may differ: idempotence and Route are mistakes, json is not.
			if name != ours && distance(strings.ToLower(name), ours) <= len(ours)/3 {
				return fmt.Errorf("the tag %s is unknown: did you mean %s?", name, ours)
			}
		}
	}
	if strings.Contains(rest, routeTag) || strings.Contains(rest, policyTag) {
		return fmt.Errorf("the tag `%s` cannot be parsed: write name:\"value\" pairs separated by spaces", tag)
	}
	return nil
}

// tagNames returns the names in a struct tag, as package reflect defines tags, and
// the rest that cannot be parsed.
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

// distance is the Levenshtein distance: the number of letters to insert, delete or
// change to turn a into b.
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
