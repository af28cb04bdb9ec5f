package adapters_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
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
