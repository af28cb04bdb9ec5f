package tink_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
)

// A service reads its key set from where it keeps secrets, with package keyset of Tink.
// Here it is new.
func Example() {
	keys, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		panic(err)
	}
	primitive, err := aead.New(keys)
	if err != nil {
		panic(err)
	}
	store := sealedstore.New(memstore.New(), primitive)
	user := func(*http.Request) (string, error) { return "alice", nil }
	guard, err := core.New(store, core.ScopeBy(user))
	if err != nil {
		panic(err)
	}
	pay := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
