package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 92: a redirect to another place gets neither a request nor the token. A page that moves from http to https of its own
// host, or to another path, is followed.
func TestRedirects(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for _, row := range []struct {
		page, to string
		follows  bool
	}{
		{"http://shop/ops", "/elsewhere/", true},
		{"http://shop/ops", "http://shop:80/elsewhere/", true},
		{"http://shop/ops", "https://shop/ops/", true},
		{"http://shop:80/ops", "https://shop:443/ops/", true},
		{"https://shop:8443/ops", "https://shop:8443/elsewhere/", true},
		{"http://shop/ops", "http://evil/ops/", false},
		{"http://shop/ops", "//evil/ops/", false},
		{"http://shop/ops", "https://evil/ops/", false},
		{"http://shop/ops", "https://shop.evil/ops/", false},
		{"http://shop/ops", "https://a.shop/ops/", false},
		{"http://shop/ops", "http://shop@evil/ops/", false},
		{"https://shop/ops", "http://shop/ops/", false},
		{"http://shop/ops", "http://shop:8080/ops/", false},
		{"http://shop/ops", "https://shop:8443/ops/", false},
		{"http://shop:8080/ops", "https://shop/ops/", false},
		{"https://shop/ops", "ftp://shop/ops/", false},
	} {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			for _, sign := range [][]string{{"--token", "Secret"}, {"--url", strings.Replace(row.page, "://", "://ops:Secret@", 1)}} {
				var places []string
				network := transport(func(r *http.Request) (*http.Response, error) {
					places = append(places, r.URL.Scheme+"://"+r.URL.Host)
					if r.Header.Get("Authorization") == "" {
						t.Errorf("%s gets no sign-in", r.URL)
					}
					header, body := http.Header{"Content-Type": {"application/json"}}, `{"records":[]}`
					if len(places) == 1 {
						header, body = http.Header{"Location": {row.to}}, ""
						return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
					}
					return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
				})
				name := fmt.Sprintf("%s to %s by %d", row.page, row.to, status)
				_, stderr, code := asked(t, network, append([]string{"--url", row.page, "list"}, sign...)...)
				switch {
				case strings.Contains(stderr, "Secret"):
					t.Errorf("%s: the sign-in is in %q", name, stderr)
				case row.follows && (len(places) != 2 || code != exitNothing):
					t.Errorf("%s: exit code %d, the requests are to %q: %s", name, code, places, stderr)
				case !row.follows && (len(places) != 1 || code != exitUsage || !strings.Contains(stderr, "redirects to another place")):
					t.Errorf("%s: exit code %d, the requests are to %q: %s", name, code, places, stderr)
				}
			}
		}
	}
	var n int
	_, stderr, code := asked(t, transport(func(r *http.Request) (*http.Response, error) {
		if n++; n > 100 {
			return nil, errors.New("endless")
		}
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"/ops/"}}, Body: http.NoBody, Request: r}, nil
	}), "list")
	if code != exitUsage || n > 10 {
		t.Errorf("a circle: exit code %d after %d requests: %s", code, n, stderr)
	}
}
