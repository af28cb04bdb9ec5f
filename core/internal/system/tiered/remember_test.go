package tiered

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/policy"
)

// On every server a late retry is told that its key has expired, another payload is
// told that the key was used, and nothing runs again.
func TestLateRetryOnServers(t *testing.T) {
	t.Parallel()
	_, _, stores := servers(t)
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			guard, err := core.New(store, core.SharedScope, core.WithObserver(event.Log(silent)))
			must(t, err)
			var runs atomic.Int64
			handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs.Add(1)
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "paid")
			}), policy.TTL(time.Second), policy.LockTTL(time.Second), policy.Remember(time.Hour), policy.StoreTimeout(patience))
			post := func(payload string) string {
				request := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(payload))
				request.Header.Set(core.KeyHeader, "late-"+name)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, request)
				for _, code := range []string{"key_expired", "key_reused"} {
					if strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
						return code
					}
				}
				return w.Body.String()
			}
			first := post("1")
			replays := 0
			late := post("1")
			for ; late == "paid"; late = post("1") {
				replays++
				pause()
			}
			if first != "paid" || late != "key_expired" {
				t.Errorf("the first response is %s, and after %d replays a late retry gets %s", first, replays, late)
			}
			if other := post("2"); other != "key_reused" {
				t.Errorf("another payload gets %s", other)
			}
			if runs.Load() != 1 {
				t.Errorf("the handler ran %d times, want once", runs.Load())
			}
			must(t, guard.Shutdown(t.Context()))
		})
	}
}

// pause waits before the next retry.
func pause() {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}
