package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Case 9: a visit that is under way when the page closes is served to its end.
func TestVisitKeepsTheShopOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMall(demoPace)
		s := openShop(t, m)
		if m.enter(s.id) != s {
			t.Fatal("the shop cannot be entered")
		}
		closed := make(chan struct{})
		go func() {
			m.close(s)
			close(closed)
		}()
		synctest.Wait()
		b := &bench{T: t, shop: s}
		b.want(b.pay("k", noFault), http.StatusCreated, "")
		if m.enter(s.id) != nil {
			t.Error("a shop that closes can still be entered")
		}
		s.visits.Done()
		<-closed
		b.want(b.pay("k2", noFault), http.StatusServiceUnavailable, "shutting_down")
	})
}

// A shop's ledger is bounded, and the bank's total still grows.
func TestBankForgetsTheOldest(t *testing.T) {
	t.Parallel()
	var b bank
	for range maxCharges + 3 {
		b.charge("", charge{Order: "1"})
	}
	total, newest := b.statement()
	if total != maxCharges+3 || len(newest) != maxCharges || newest[0].Number != 4 {
		t.Errorf("%d charges of which %d are kept from %d on, want the last %d of %d", total, len(newest), newest[0].Number, maxCharges, maxCharges+3)
	}
}

// A page that does not ask cannot fill the program's memory, and gets the newest notices.
func TestBoardForgetsTheOldest(t *testing.T) {
	t.Parallel()
	var b board
	for i := range maxNotices + 3 {
		b.tell(notice{At: int64(i)})
	}
	for after, first := range map[int]int64{0: 3, 3: 3, maxNotices: maxNotices} {
		newest, all := b.since(after)
		if len(newest) != maxNotices+3-int(first) || newest[0].At != first || all != maxNotices+3 {
			t.Errorf("after %d: %d of %d notices, the first at %d; want those from %d on", after, len(newest), all, newest[0].At, first)
		}
	}
	if newest, _ := b.since(maxNotices + 3); len(newest) != 0 {
		t.Errorf("%d new notices, want 0", len(newest))
	}
}

// A shop whose page has gone without a word closes, and a page that asks keeps its shop.
func TestUnattendedShopCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMall(demoPace)
		defer m.end()
		asked, left := openShop(t, m), openShop(t, m)
		time.Sleep(unattended - time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		ask := httptest.NewRequest(http.MethodGet, "/shops/"+asked.id+"/notices?after=0", http.NoBody)
		routes(m).ServeHTTP(httptest.NewRecorder(), ask)
		time.Sleep(time.Millisecond) //nolint:forbidigo // moves the bubble's clock
		synctest.Wait()
		if m.shops[left.id] != nil {
			t.Error("a shop whose page is gone is open")
		}
		if m.shops[asked.id] == nil {
			t.Error("a shop whose page asks for notices has closed")
		}
	})
}

func openShop(t *testing.T, m *mall) *shop {
	t.Helper()
	s, err := m.open()
	if err != nil || s == nil {
		t.Fatalf("shop %v, error %v", s, err)
	}
	return s
}
