package adapters_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

const card = "4242424242424242"

// Case 43: logs and problems contain no value of a payload, of a path, or of a
// handler's error, for any content type.
func TestPayloadIsNeverShown(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		for _, claimed := range []string{"", "application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=b", "text/xml"} {
			for _, body := range []string{`{"card":"` + card + `"}`, `{"` + card + `":1}`, card, card + "=1", "<c>" + card + "</c>", "--b\r\nContent-Disposition: form-data; name=" + card + "\r\n\r\n1\r\n--b--"} {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				s := m.start(t, program{options: []core.Option{core.WithDiffers(), core.WithObserver(event.Log(logger))}})
				s.do(post("/payments", "k", "a=1&b=2", claim(claimed)))
				s.refuses(post("/payments", "k", body, claim(claimed)), http.StatusUnprocessableEntity, problem.KeyReused)
				refused := s.do(post("/payments?q="+card, "k", body, claim(claimed)))
				if shown := log.String() + refused.Body.String(); strings.Contains(shown, card) {
					t.Errorf("%q as %q is shown: %s", body, claimed, shown)
				}
			}
		}
	})
}

func claim(contentType string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", contentType)
		if contentType == "" {
			r.Header.Del("Content-Type")
		}
	}
}

// Case 43: a handler's error quotes the request; the log names its type.
func TestErrorsOfHandlersAreNotShown(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := m.start(t, program{
			handler: answering(http.StatusTooManyRequests),
			native: func(c *gin.Context) {
				_ = c.Error(failure.Retryable(fmt.Errorf("%q is no number", card)))
				c.Status(http.StatusConflict)
			},
			options: []core.Option{core.WithObserver(event.Log(logger))},
		})
		s.do(post("/payments", "k", `{"card":"`+card+`"}`))
		if text := log.String(); strings.Contains(text, card) || !strings.Contains(text, "result=retryable") {
			t.Errorf("logged %s", text)
		}
	})
}

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
