package core_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 88: a waiting request holds its body and no parse, whether the handler runs in the
// same process or in another. The buffer of an unknown length is up to twice as long.
func TestWaiterHoldsItsBodyAlone(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const size = 1 << 20
	for _, body := range []largeBody{largeForm(size), largeDocument(size), largeMap(size), largeUpload(size)} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%.30s, elsewhere %t", body.mediaType, elsewhere), func(t *testing.T) {
				wantHeld(t, body, elsewhere, 1.3, body.send)
			})
		}
	}
	t.Run("of unknown length", func(t *testing.T) {
		wantHeld(t, largeDocument(size+size/16), true, 2.1, func(handler http.Handler, text []byte) *httptest.ResponseRecorder {
			return largeDocument(0).send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), -1
				handler.ServeHTTP(w, r)
			}), nil)
		})
	})
}

// wantHeld fails if a waiter holds more than so many times its body.
func wantHeld(t *testing.T, body largeBody, elsewhere bool, most float64, send func(http.Handler, []byte) *httptest.ResponseRecorder) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const waiters = 24
		end := make(chan struct{})
		store := memstore.New()
		handle := createdOnce(end)
		opts := []policy.Option{policy.Wait(time.Hour), policy.MaxRequestBytes(1 << 30)}
		holder := newService(t, store, handle, opts...)
		waiting := holder
		if elsewhere {
			waiting = newService(t, store, handle, opts...)
		}
		var all sync.WaitGroup
		all.Go(func() { body.send(holder.handler, body.text) })
		synctest.Wait()
		text := body.text
		if body.again != nil {
			text = body.again // not a retry by its bytes
		}
		_, before := memoryNow()
		for range waiters {
			all.Go(func() { wantReplay(t, send(waiting.handler, text)) })
		}
		synctest.Wait()
		_, after := memoryNow()
		if held := float64(after-before) / waiters / float64(len(text)); held > most {
			t.Errorf("a waiter holds %.2f times its body, want at most %.1f", held, most)
		} else {
			t.Logf("a waiter holds %.2f times its body", held)
		}
		close(end)
		all.Wait()
		holder.wantRuns(t, 1)
	})
}

// Case 88: so does a waiting call of Do.
func TestWaitingCallHoldsItsInputAlone(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	synctest.Test(t, func(t *testing.T) {
		const waiters, size = 24, 1 << 20
		input := map[string]string{}
		for i := range 2000 {
			input[fmt.Sprintf("m%05d", i)] = strings.Repeat("v", size/2000-12)
		}
		store, end := memstore.New(), make(chan struct{})
		var all sync.WaitGroup
		begin := func(s *service) {
			call := chargeCall("k", input)
			call.Route = s.MustRoute(policy.Wait(time.Hour))
			all.Go(func() {
				if _, _, err := core.Do(t.Context(), s.Engine, call, func(context.Context) (int, error) { <-end; return 1, nil }); err != nil {
					t.Error(err)
				}
			})
		}
		begin(newService(t, store, created))
		synctest.Wait()
		other := newService(t, store, created)
		_, before := memoryNow()
		for range waiters {
			begin(other)
		}
		synctest.Wait()
		_, after := memoryNow()
		if held := float64(after-before) / waiters / size; held > 1.5 {
			t.Errorf("a waiter holds %.2f times its input, want at most twice", held)
		}
		close(end)
		all.Wait()
	})
}
