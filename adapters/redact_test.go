package adapters_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// The first response is complete, and a replay lacks the redacted fields and names them.
func TestRedactFields(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ media, first, replay, redacted string }{
		"a name":       {"application/json", `{"id":1,"client_secret":"s3cr3t","a":{"Client_Secret":1}}`, `{"id":1,"a":{}}`, "client_secret"},
		"a path":       {"application/json", `{"cards":[{"pan":"4111"},{"pan":"4222","n":2}],"pan":1}`, `{"cards":[{},{"n":2}],"pan":1}`, "cards.*.pan"},
		"both":         {"application/problem+json", `{"cards":[{"pan":1}],"client_secret":2}`, `{"cards":[{}]}`, "client_secret, cards.*.pan"},
		"none present": {"application/json", `{"id":1}`, `{"id":1}`, ""},
		"without type": {"", `{"client_secret":"s3cr3t"}`, `{}`, "client_secret"},
		"no JSON":      {"text/plain", `client_secret=s3cr3t`, `client_secret=s3cr3t`, ""},
		"empty":        {"application/json", "", "", ""},
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{
				policy: []policy.Option{policy.RedactFields("client_secret", "cards.*.pan")},
				handler: func(w http.ResponseWriter, _ *http.Request) {
					if row.media != "" {
						w.Header().Set("Content-Type", row.media)
					}
					w.Header().Set("Content-Length", strconv.Itoa(len(row.first)))
					w.Header().Set("Etag", `"1"`)
					w.WriteHeader(http.StatusCreated)
					w.Write([]byte(row.first))
				},
			})
			first := s.runsAgain(payment("k"))
			if first.Body.String() != row.first || first.Header().Get("X-Idempotent-Redacted") != "" {
				t.Errorf("the first response is %v %s", first.Header(), first.Body)
			}
			again := s.replays(payment("k"))
			if again.Body.String() != row.replay || again.Header().Get("X-Idempotent-Redacted") != row.redacted {
				t.Errorf("the replay is %v %s, want %s without %q", again.Header(), again.Body, row.replay, row.redacted)
			}
			if length := again.Header().Get("Content-Length"); length != "" && length != strconv.Itoa(len(row.replay)) {
				t.Errorf("the replay has the length %s", length)
			}
			if again.Code != http.StatusCreated || again.Header().Get("Etag") != `"1"` {
				t.Errorf("the replay is %d %v", again.Code, again.Header())
			}
		})
	}
}

// A JSON response in which the fields cannot be found is not stored.
func TestRedactFieldsThatCannotBeFound(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ media, text string }{
		"malformed":    {"application/json", `{"client_secret":"s3cr3t"`},
		"two":          {"application/json", `{"client_secret":"s3cr3t"} {}`},
		"deeply":       {"", `{"client_secret":"s3cr3t","a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`},
		"not the type": {"application/merge-patch+json; charset=utf-8", "client_secret"},
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{
				policy: []policy.Option{policy.RedactFields("client_secret")},
				handler: func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", row.media)
					w.Write([]byte(row.text))
				},
			})
			s.gets(s.runsAgain(payment("k")), anyStatus, row.text)
			s.refuses(payment("k"), http.StatusConflict, problem.NotReplayable)
		})
	}
}
