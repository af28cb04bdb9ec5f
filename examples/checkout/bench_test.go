package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/internal/testkit"
)

// bench is a shop in a bubble, and the shopper in front of it.
type bench struct {
	*testing.T
	shop     *shop
	requests int
	told     []notice
}

func inShop(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := newShop("shop-1", demoPace)
		testkit.Must(t, err)
		defer s.close()
		test(&bench{T: t, shop: s})
	})
}

// pay sends the one order of these tests. The response is nil if the connection broke.
func (b *bench) pay(key string, f fault) *httptest.ResponseRecorder {
	b.Helper()
	b.requests++
	return b.send(b.requests, key, f)
}

func (b *bench) send(number int, key string, f fault) *httptest.ResponseRecorder {
	b.Helper()
	return respondTo(b.shop, b.request(number, key, f))
}

func (b *bench) request(number int, key string, f fault) *http.Request {
	request := httptest.NewRequest(http.MethodPost, "/shops/shop-1/payments", strings.NewReader(`{"order":"1001","amount":3200}`))
	request.SetPathValue("shop", b.shop.id)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(requestHeader, strconv.Itoa(number))
	request.Header.Set(faultHeader, string(f))
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	return request
}

func respondTo(s *shop, request *http.Request) (response *httptest.ResponseRecorder) {
	recorder := httptest.NewRecorder()
	defer func() {
		switch why := recover(); why {
		case nil:
			response = recorder
		case http.ErrAbortHandler: // net/http closes the connection on this panic
		default:
			panic(why)
		}
	}()
	s.balance(recorder, request)
	return nil
}

func (b *bench) wantCharges(want int) {
	b.Helper()
	if total, charges := b.shop.bank.statement(); total != want || len(charges) != want {
		b.Errorf("%d charges (%+v), want %d", total, charges, want)
	}
}

func (b *bench) want(response *httptest.ResponseRecorder, status int, part string) {
	b.Helper()
	if response == nil {
		b.Fatalf("no response, want %d", status)
	}
	if response.Code != status || !strings.Contains(response.Body.String(), part) {
		b.Errorf("%d %s, want %d with %q", response.Code, response.Body, status, part)
	}
}

func (b *bench) wantReplay(response *httptest.ResponseRecorder) {
	b.Helper()
	b.want(response, http.StatusCreated, `"number":1,`)
	testkit.Equal(b, response.Header().Get("X-Idempotent-Replay"), "true", "the response's header is %v", response.Header())
}

func (b *bench) wantNoResponse(response *httptest.ResponseRecorder) {
	b.Helper()
	if response != nil {
		b.Fatalf("%d %s, want a broken connection", response.Code, response.Body)
	}
}

func (b *bench) runs(place int) bool {
	b.shop.mu.Lock()
	defer b.shop.mu.Unlock()
	return b.shop.pods[place] != nil && !b.shop.pods[place].isDead()
}

// notices returns all notices to the page so far.
func (b *bench) notices() []notice {
	b.told, _ = b.shop.notices.since(0)
	return b.told
}

func (b *bench) wantTold(want ...string) {
	b.Helper()
	var whats []string
	for _, n := range b.notices() {
		if slices.Contains(want, n.What) {
			whats = append(whats, n.What)
		}
	}
	if !slices.Equal(whats, want) {
		b.Errorf("the page got %v, want %v of %+v", whats, want, b.told)
	}
}
