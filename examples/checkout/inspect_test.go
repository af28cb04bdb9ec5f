package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A pod killed after the charge leaves an abandoned record: the other pod's page shows it.
func TestInspector(t *testing.T) {
	t.Parallel()
	inShop(t, func(b *bench) {
		b.pay("k", killAfterCharge)
		for path, want := range map[string]string{"/": `"state":"in_progress"`, "/routes": `"onStoreError":"FailClosed"`} {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/shops/"+b.shop.id+"/inspector"+path, http.NoBody)
			r.Header.Set("Accept", "application/json")
			w := httptest.NewRecorder()
			b.shop.inspect(w, r)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				b.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
			}
		}
	})
}
