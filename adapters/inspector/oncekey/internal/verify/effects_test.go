package verify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The count of effects is a number, or has a place in JSON.
func TestNumberAt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text, path string
		want       int64
		says       string
	}{
		{" 42\n", "", 42, ""},
		{`{"data":[{"count":7}]}`, "data.0.count", 7, ""},
		{`{"data":[{"count":7}]}`, "", 0, `no number is at the path ""`},
		{`{"data":[{"count":"7"}]}`, "data.0.count", 0, "no number"},
		{`{"data":[]}`, "data.0.count", 0, `the step "0": give an index below 0`},
		{`{"data":[1]}`, "data.x", 0, `the step "x"`},
		{`{"data":1}`, "data.x.y", 0, "no number"},
		{"1.5", "", 0, "1.5"},
		{"<html>", "", 0, "no number and no JSON"},
		{"", "", 0, "no number and no JSON"},
	} {
		got, err := numberAt([]byte(row.text), row.path)
		if got != row.want || (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q at %q: %d (%v), want %d (%s)", row.text, row.path, got, err, row.want, row.says)
		}
	}
}

func TestEffectsOfACommand(t *testing.T) {
	t.Parallel()
	for command, row := range map[string]struct {
		want int64
		says string
	}{
		`echo '{"n":3}'`:    {3, ""},
		"echo 1; exit 3":    {0, "exit status 3"},
		"echo":              {0, "no number"},
		"cat /dev/zero":     {0, "the command of effects"}, // endless: it is cut off, and ends by its closed output
		"sleep 600; echo 1": {0, "the command of effects"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if strings.HasPrefix(command, "sleep") {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			begun := time.Now()
			got, err := EffectsOf(command, "n")(ctx)
			if got != row.want || (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("%d (%v), want %d (%s)", got, err, row.want, row.says)
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestEffectsAtAURL(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer count" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("5"))
	}))
	t.Cleanup(server.Close)
	got, err := EffectsAt(server.URL, http.Header{"Authorization": {"Bearer count"}}, "", time.Minute)(t.Context())
	if got != 5 || err != nil {
		t.Errorf("%d (%v), want 5", got, err)
	}
	if _, err := EffectsAt(server.URL, nil, "", time.Minute)(t.Context()); err == nil || !strings.Contains(err.Error(), "responds 401") {
		t.Errorf("without its header: %v, want the status", err)
	}
}
