package tiered

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// On every server a late retry is told that its key has expired, another payload is
// told that the key was used, and nothing runs again.
func TestLateRetryOnServers(t *testing.T) {
	t.Parallel()
	_, _, stores := servers(t)
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			handler := service.Engine(t, store, core.SharedScope).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs.Add(1)
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "paid")
			}), policy.TTL(time.Second), policy.LockTTL(time.Second), policy.Remember(time.Hour), policy.StoreTimeout(patience))
			post := func(payload string) string {
				w := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", "late-"+name, payload))
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
		})
	}
}

// pause waits before the next retry.
func pause() {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}
