package core_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

// Two tenants have a user named alice each. Their host names tell them apart.
func ExampleScopeByHost() {
	user := func(*http.Request) (string, error) { return "alice", nil }
	engine, err := core.New(memstore.New(), core.ScopeByHost(user))
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := engine.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("runs for", r.Host)
	}))
	for _, host := range []string{"a.example", "b.example", "A.example:443"} {
		request := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
		request.Host = host
		request.Header.Set(core.KeyHeader, "order-42")
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		if response.Header().Get("X-Idempotent-Replay") == "true" {
			fmt.Println("replayed for", host)
		}
	}
	// Output:
	// runs for a.example
	// runs for b.example
	// replayed for A.example:443
}

// The 401 shows the client how to authenticate.
func ExampleChallenge() {
	user := func(*http.Request) (string, error) {
		return "", core.Challenge(`Bearer realm="payments"`, errors.New("the token has expired"))
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(user))
	if err != nil {
		fmt.Println(err)
		return
	}
	request := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
	request.Header.Set(core.KeyHeader, "order-42")
	response := httptest.NewRecorder()
	engine.Handler(http.NotFoundHandler()).ServeHTTP(response, request)
	fmt.Println(response.Code, response.Header().Get("WWW-Authenticate"))
	// Output: 401 Bearer realm="payments"
}
