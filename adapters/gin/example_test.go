package idemgin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// userID stands for the result of authentication.
func userID(*http.Request) (string, error) { return "alice", nil }

// send is the client. It sends the same request again when the outcome of a payment is
// unknown.
func send(service http.Handler, path, key, body string) {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	request.SetBasicAuth("alice", "pw")
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Body, "replay:", answer.Header().Get("X-Idempotent-Replay") == "true")
}

// Recovery and authentication stand outside the guard: the engine settles a panic before it is recovered, and a
// stranger gets no stored response. The server's orderly end is in the example of [core.Engine.Shutdown].
func Example() {
	runs := 0
	pay := func(c *gin.Context) {
		runs++                  // the side effect
		failure.MarkExecuted(c) // from here on the response is kept
		c.JSON(http.StatusCreated, gin.H{"payment": runs})
	}
	user := func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth()
		return name, nil // an empty name gets a 401
	}

	engine, err := core.New(memstore.New(), core.ScopeBy(user))
	if err != nil {
		panic(err)
	}
	idem := idemgin.New(engine)
	router := gin.New()
	router.ContextWithFallback = true // a handler's c ends with its run
	router.Use(gin.Recovery(), gin.BasicAuth(gin.Accounts{"alice": "pw"}))
	router.POST("/payments", idem.Handle(pay, policy.TTLHours(48), policy.LockTTL(time.Minute)))

	send(router, "/payments", "8e03978e", `{"amount":1999}`)
	send(router, "/payments", "8e03978e", `{"amount":1999}`) // the retry
	fmt.Println("runs:", runs)
	// Output:
	// 201 {"payment":1} replay: false
	// 201 {"payment":1} replay: true
	// runs: 1
}

// One policy guards many routes. Later handlers in the chain run under the policy. They
// do not run when the response is a replay.
func ExampleGuard_Policy() {
	order := func(c *gin.Context) { c.String(http.StatusAccepted, "ordered %s", c.Param("sku")) }
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.ContextWithFallback = true // a handler's c ends with its run
	v1 := router.Group("/v1", idemgin.New(engine).Policy(policy.ExcludeFields("sentAt")))
	v1.POST("/orders/:sku", order)

	send(router, "/v1/orders/a", "k1", `{"sentAt":"12:00:00"}`)
	send(router, "/v1/orders/a", "k1", `{"sentAt":"12:00:07"}`)
	// Output:
	// 202 ordered a replay: false
	// 202 ordered a replay: true
}

// A Retryable error releases the key, because no side effect happened. The client may
// correct its request and use the same key again.
func Example_retryableError() {
	errDuplicate := errors.New("this e-mail address is taken")
	signUp := func(c *gin.Context) {
		var form struct{ Email string }
		if err := c.BindJSON(&form); err != nil {
			return
		}
		if form.Email == "alice@example.com" {
			_ = c.Error(failure.Retryable(errDuplicate))
			c.String(http.StatusConflict, "%v", errDuplicate)
			return
		}
		c.String(http.StatusCreated, "welcome")
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.ContextWithFallback = true // a handler's c ends with its run
	router.POST("/users", idemgin.New(engine).Handle(signUp))

	send(router, "/users", "k1", `{"email":"alice@example.com"}`)
	send(router, "/users", "k1", `{"email":"bob@example.com"}`)
	// Output:
	// 409 this e-mail address is taken replay: false
	// 201 welcome replay: false
}
