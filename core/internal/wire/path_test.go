package wire

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestCanonicalPath(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{"/members/A", "/members/%41"},
		{"/caf%C3%A9", "/café", "/caf%c3%a9"},
		{"/a%2Fb", "/a%2fb"},
		{"/100%25", "/%3100%25"},
	}
	var all []string
	for _, spellings := range same {
		first := pathOf(t, spellings[0])
		for _, spelling := range spellings {
			if got := pathOf(t, spelling); got != first {
				t.Errorf("%s is %s, but %s is %s", spelling, got, spellings[0], first)
			}
		}
		all = append(all, first)
	}
	all = append(all, pathOf(t, "/a/b"), pathOf(t, "/a%252Fb"), pathOf(t, "/"), pathOf(t, "/a//b"))
	seen := map[string]bool{}
	for _, path := range all {
		if seen[path] {
			t.Errorf("two resources are both %s", path)
		}
		seen[path] = true
	}
}

// Middleware that cleans a path is no mount: one key at two spellings is one operation.
func TestRequestPath(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ target, path, want string }{
		{"/v1/pay", "/pay", "/v1/pay"}, // a mount: http.StripPrefix
		{"/pay", "pay", "/pay"},
		{"/pay/", "/pay", "/pay"},
		{"//pay", "/pay", "/pay"},
		{"/./pay", "/pay", "/pay"},
		{"/a/../pay/", "/pay/", "/pay/"},
	} {
		request := &http.Request{RequestURI: row.target, URL: &url.URL{Path: row.path}}
		if got := RequestPath(request); got != row.want {
			t.Errorf("%s as %s is %s, want %s", row.target, row.path, got, row.want)
		}
	}
}

// Case 89: a path costs a few allocations, whatever its segments are.
func TestLongPathIsCheap(t *testing.T) { //nolint:paralleltest // others would allocate in between
	for _, segment := range []string{"/", "/a", "/%2F", "/%25"} {
		u, err := url.ParseRequestURI(strings.Repeat(segment, 10_000) + "%2F")
		testkit.Must(t, err)
		most := 10.0
		if strings.Contains(segment, "%") {
			most += 2 * 10_000 // each such segment is unescaped, and escaped again
		}
		if got := testing.AllocsPerRun(10, func() { CanonicalPath(u) }); got > most {
			t.Errorf("10,000 segments %s take %v allocations, want at most %v", segment, got, most)
		}
	}
}

func pathOf(t *testing.T, spelling string) string {
	t.Helper()
	u, err := url.ParseRequestURI(spelling)
	testkit.Must(t, err)
	return CanonicalPath(u)
}
