package idemgin_test

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// API declares routes and their policies in one place.
type API struct {
	Pay    gin.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce"`
	Update gin.HandlerFunc `route:"PATCH /members/:id" idempotency:"Required=false"`
	List   gin.HandlerFunc `route:"GET /members"`
}

func ExampleMount() {
	pay := func(c *gin.Context) { c.String(http.StatusCreated, "paid") }
	update := func(c *gin.Context) { c.String(http.StatusOK, "updated %s", c.Param("id")) }
	list := func(*gin.Context) {}

	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.ContextWithFallback = true // a handler's c ends with its run
	err = idemgin.Mount(router.Group("/v1"), idemgin.New(engine), API{Pay: pay, Update: update, List: list})
	fmt.Println(err)
	send(router, "/v1/payments", "8e03978e", `{"amount":1999,"clientTimestamp":"12:00:00"}`)
	send(router, "/v1/payments", "8e03978e", `{"amount":1999,"clientTimestamp":"12:00:07"}`)
	// Output:
	// <nil>
	// 201 paid replay: false
	// 201 paid replay: true
}

// A table guards routes that are declared elsewhere.
func ExampleGuard_Table() {
	pay := func(c *gin.Context) { c.String(http.StatusCreated, "paid") }
	table, err := policy.NewTable(policy.Row("POST /v1/payments/:order", policy.TTLHours(48)))
	if err != nil {
		panic(err)
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.ContextWithFallback = true            // a handler's c ends with its run
	router.Use(idemgin.New(engine).Table(table)) // after authentication, before the routes
	router.Group("/v1").POST("/payments/:order", pay)

	send(router, "/v1/payments/o-1", "8e03978e", `{"amount":1999}`)
	send(router, "/v1/payments/o-1", "8e03978e", `{"amount":1999}`)
	// Output:
	// 201 paid replay: false
	// 201 paid replay: true
}

func ExampleAudit() {
	pay := func(*gin.Context) {}
	table, err := policy.NewTable(policy.Row("POST /payments"), policy.Row("POST /payment"))
	if err != nil {
		panic(err)
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	idem := idemgin.New(engine)
	router := gin.New()
	router.ContextWithFallback = true // a handler's c ends with its run
	router.Use(idem.Table(table))
	router.POST("/payments", pay)
	router.POST("/refunds", pay)

	report := idemgin.Audit(router, idem, table)
	fmt.Println(report.Err())
	for _, warning := range report.Warnings {
		fmt.Println(warning)
	}
	// Output:
	// policy: row 2: POST /payment matches no route: use the router's own spelling, with all prefixes
	// POST /refunds is not guarded: no idempotency policy covers it, so a retry runs its handler again
}
