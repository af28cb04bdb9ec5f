package fingerprint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

func readingOf(query, body string) *fingerprint.Reading {
	r := jsonRequest(body)
	r.RawQuery = query
	return fingerprint.Read(r, nil)
}

// Same and Differences name each member once, between them.
func TestSame(t *testing.T) {
	t.Parallel()
	first := readingOf("app=web", `{"amount":4200,"card":{"token":"t"},"items":[1,1,2],"gone":1,"4111 1111":"x"}`)
	sketch := first.AppendSketch(nil, [16]byte{1})
	first.Close()

	retry := readingOf("app=web", `{"amount":9900,"card":{"token":"t"},"items":[1,1,3],"4111 1111":"x"}`)
	defer retry.Close()
	testkit.EqualSlices(t, retry.Same(sketch, [16]byte{1}), []string{"app", "card.token", "items.*"}, "the same members")
	differs, others, missing := retry.Differences(sketch, [16]byte{1})
	if !slices.Equal(differs, []string{"amount", "items.*"}) || others != 0 || missing != 1 {
		t.Errorf("after Same, the differences are %q, %d others, %d missing, want amount and items.*, 0, 1", differs, others, missing)
	}
	many := readingOf("", "{"+strings.TrimSuffix(many(20), ",")+"}")
	defer many.Close()
	if got := many.Same(many.AppendSketch(nil, [16]byte{1}), [16]byte{1}); len(got) != 20 {
		t.Errorf("%d members are the same, want all 20: %q", len(got), got)
	}
	if got := retry.Same([]byte("no sketch"), [16]byte{1}); got != nil {
		t.Errorf("the same members as in no sketch are %q, want none", got)
	}
}
