package sealedstore_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
)

// Pods that were deployed before the seal have left plain records: ReadPlain reads them
// for the first TTL. A service uses a key set of Tink in the place of newGCM.
func Example() {
	store := sealedstore.New(memstore.New(), newGCM(1), sealedstore.ReadPlain())
	user := func(*http.Request) (string, error) { return "alice", nil }
	engine, err := core.New(store, core.ScopeBy(user))
	if err != nil {
		panic(err)
	}
	pay := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "paid")
	}))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		pay.ServeHTTP(w, r)
		fmt.Printf("%s, replay %q\n", w.Body, w.Header().Get("X-Idempotent-Replay"))
	}
	// Output:
	// paid, replay ""
	// paid, replay "true"
}
