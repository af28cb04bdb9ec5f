package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Case 1: of two clicks one charges, and the other gets its response.
func TestClickedTwice(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- b.send(1, "k", noFault) }()
		synctest.Wait()
		second := b.send(2, "k", noFault)
		b.want(second, http.StatusConflict, `"code":"in_progress"`)
		b.want(<-first, http.StatusCreated, `"number":1,`)
		b.wantReplay(b.send(3, "k", noFault))
		b.wantCharges(1)
		b.wantTold("execute", "in_progress", "charged", "completed", "replay")
	})
}

func TestWithoutAKeyEveryRequestCharges(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{noFault, dropResponse, killAfterCharge} {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			inShop(t, func(b *bench) {
				b.pay("", f)
				b.want(b.pay("", noFault), http.StatusCreated, `"number":2,`)
				b.wantCharges(2)
			})
		})
	}
}

// Case 8: a retry gets the response that the client lost.
func TestLostResponseIsReplayed(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.wantNoResponse(b.pay("k", dropResponse))
		b.wantReplay(b.pay("k", noFault))
		b.wantCharges(1)
		b.wantTold("charged", "completed", "no_response", "replay")
	})
}

// Case 3: the other pod runs the key after the end of the lease, and not before.
func TestPodKilledBeforeTheCharge(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		start := time.Now()
		b.wantNoResponse(b.pay("k", killBeforeCharge))
		b.wantCharges(0)
		time.Sleep(time.Until(start.Add(demoPace.lockTTL - time.Millisecond))) //nolint:forbidigo // moves the bubble's clock
		b.want(b.pay("k", noFault), http.StatusConflict, `"code":"in_progress"`)
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		b.want(b.pay("k", noFault), http.StatusCreated, `"pod":"B","attempt":2`)
		b.wantCharges(1)
		b.wantTold("killed", "no_response", "in_progress", "lease_expired", "charged", "completed")
	})
}

// Case 4: only the bank knows of the charge, and recognises it by the second attempt's
// equal derived key.
func TestPodKilledAfterTheCharge(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.wantNoResponse(b.pay("k", killAfterCharge))
		b.wantCharges(1)
		time.Sleep(demoPace.lockTTL) //nolint:forbidigo // moves the bubble's clock
		b.want(b.pay("k", noFault), http.StatusCreated, `"number":1,`)
		b.wantCharges(1)
		b.wantTold("charged", "killed", "lease_expired", "recognised", "completed")
	})
}

// A killed pod settles and reports no run, and another pod takes its place.
func TestKilledPodIsGone(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.wantNoResponse(b.pay("k", killBeforeCharge))  // at pod A
		time.Sleep(demoPace.restart - time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		killed := slices.IndexFunc(b.notices(), func(n notice) bool { return n.What == "killed" })
		for _, n := range b.told[killed+1:] {
			if n.Pod == "A" && n.What != "no_response" {
				b.Errorf("pod A is dead and there is %+v", n)
			}
		}
		if b.runs(0) {
			b.Error("pod A is back too early")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		synctest.Wait()
		b.wantTold("killed", "started")
		if !b.runs(0) {
			b.Error("no other pod took the place of pod A")
		}
	})
}

func TestKilledPodSendsNoResponse(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		responses := make(chan *httptest.ResponseRecorder, 1)
		b.shop.turn = 1
		b.shop.pods[1] = nil // so that both come to pod A
		go func() { b.send(1, "k1", killBeforeCharge) }()
		synctest.Wait()
		time.Sleep(time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		go func() { responses <- b.send(2, "k2", noFault) }()
		b.wantNoResponse(<-responses)
		b.wantCharges(0)
	})
}

// A response that is ready when its pod is killed is not sent.
func TestDeadPodSendsNoResponse(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		p := b.shop.pods[0]
		p.kill()
		b.shop.pods[0] = p // killed a moment after it was picked
		b.wantNoResponse(b.pay("k", noFault))
		b.wantCharges(0)
	})
}

func TestClosedShopStartsNoPod(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.pay("k", killBeforeCharge)
		b.shop.close()
		time.Sleep(demoPace.restart) //nolint:forbidigo // moves the bubble's clock
		synctest.Wait()
		if b.runs(0) {
			b.Error("the shop is closed, and a pod was started")
		}
	})
}

// Case 8, and its opposite: with a key, the handler of a client that hangs up still
// charges, and a retry gets the response. Without a key the handler stops.
func TestClientThatHangsUp(t *testing.T) {
	t.Parallel()
	for key, charges := range map[string]int{"k": 1, "": 0} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			inShop(t, func(b *bench) {
				ctx, hangUp := context.WithCancel(b.Context())
				time.AfterFunc(demoPace.bank/4, hangUp)
				respondTo(b.shop, b.request(1, key, noFault).WithContext(ctx))
				b.wantCharges(charges)
			})
		})
	}
}

func TestNoPodIsLeft(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.pay("k1", killBeforeCharge)
		b.pay("k2", killBeforeCharge)
		response := b.pay("k1", noFault)
		b.want(response, http.StatusServiceUnavailable, "no pod is running")
		testkit.Equal(b, response.Header().Get("Retry-After"), "1", "the header is %v", response.Header())
		time.Sleep(demoPace.restart) //nolint:forbidigo // moves the bubble's clock
		synctest.Wait()
		b.want(b.pay("k1", noFault), http.StatusCreated, `"attempt":2`)
	})
}

// A browser may repeat a request by itself when its connection breaks. The fault struck
// the first request, and kills no second pod.
func TestFaultStrikesOnce(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.wantNoResponse(b.send(1, "k", killBeforeCharge))
		b.wantNoResponse(b.send(1, "k", killBeforeCharge))
		b.wantTold("arrived", "killed", "no_response")
	})
}

func TestWrongRequestsAreRefused(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		for name, change := range map[string]func(*http.Request){
			faultHeader:   func(r *http.Request) { r.Header.Set(faultHeader, "earthquake") },
			requestHeader: func(r *http.Request) { r.Header.Set(requestHeader, "first") },
			`"order"`:     func(r *http.Request) { r.Body = http.NoBody },
		} {
			request := httptest.NewRequest(http.MethodPost, "/shops/shop-1/payments", strings.NewReader(`{"order":"1","amount":1}`))
			change(request)
			response := respondTo(b.shop, request)
			text := strings.ReplaceAll(response.Body.String(), `\"`, `"`)
			if response.Code != http.StatusBadRequest || !strings.Contains(text, name) {
				b.Errorf("%d %s, want 400 that names %s", response.Code, text, name)
			}
		}
		b.wantCharges(0)
	})
}

func TestCutLinkReachesNoStore(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		p := b.shop.pods[0]
		p.kill()
		l := &link{pod: p, store: nil} // which would panic
		for name, call := range linkCalls(b.Context(), l) {
			if err := call(); !errors.Is(err, errCut) {
				b.Errorf("%s: %v, want %v", name, err, errCut)
			}
		}
	})
}

func linkCalls(ctx context.Context, l *link) map[string]func() error {
	return map[string]func() error{
		"Acquire":  func() error { _, _, err := l.Acquire(ctx, storage.Claim{}); return err },
		"Complete": func() error { return l.Complete(ctx, storage.Lease{}, storage.Result{}) },
		"Release":  func() error { return l.Release(ctx, storage.Lease{}) },
		"Extend":   func() error { return l.Extend(ctx, storage.Lease{}, time.Second) },
	}
}
