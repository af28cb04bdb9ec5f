package idemchi_test

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// API declares routes and their policies in one place.
type API struct {
	Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce"`
	Update http.HandlerFunc `route:"PATCH /members/{id}" idempotency:"Required=false"`
	List   http.HandlerFunc `route:"GET /members"`
}

func ExampleMount() {
	pay := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "paid") }
	update := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "updated ", chi.URLParam(r, "id")) }
	list := func(http.ResponseWriter, *http.Request) {}

	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	err = idemchi.Mount(r, idemchi.New(engine), API{Pay: pay, Update: update, List: list})
	fmt.Println(err)
	send(r, "/payments", "8e03978e", `{"amount":1999,"clientTimestamp":"12:00:00"}`)
	send(r, "/payments", "8e03978e", `{"amount":1999,"clientTimestamp":"12:00:07"}`)
	// Output:
	// <nil>
	// 200 paid replay: false
	// 200 paid replay: true
}

// Mount reports all faults at once, and declares no route.
func ExampleMount_mistakes() {
	type API struct {
		Pay  http.HandlerFunc `route:"POST payments" idempotency:"TtlHours=48"`
		List http.HandlerFunc `route:"GET /members" idempotency:""`
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	list := func(http.ResponseWriter, *http.Request) {}
	fmt.Println(idemchi.Mount(chi.NewRouter(), idemchi.New(engine), API{List: list}))
	// Output:
	// policy: API.Pay: route:"POST payments": "POST payments" is not a route: the pattern must begin with a slash, as in "POST /payments"
	// policy: API.Pay: idempotency:"TtlHours=48": policy: unknown name "TtlHours": did you mean TTLHours?
	// policy: API.List: idempotency:"": a policy on GET, which is safe to repeat as it is: declare policies on POST, PATCH, PUT or DELETE
}

// A table guards routes that are declared elsewhere.
func ExampleGuard_Table() {
	pay := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "paid") }
	table, err := policy.NewTable(policy.Row("POST /v1/payments", policy.TTLHours(48)))
	if err != nil {
		panic(err)
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	r.Use(idemchi.New(engine).Table(table)) // inside authentication
	r.Route("/v1", func(r chi.Router) { r.Post("/payments", pay) })

	send(r, "/v1/payments", "8e03978e", `{"amount":1999}`)
	send(r, "/v1/payments", "8e03978e", `{"amount":1999}`)
	// Output:
	// 200 paid replay: false
	// 200 paid replay: true
}

func ExampleAudit() {
	pay := func(http.ResponseWriter, *http.Request) {}
	table, err := policy.NewTable(policy.Row("POST /payments"), policy.Row("POST /payment"))
	if err != nil {
		panic(err)
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	idem := idemchi.New(engine)
	r := chi.NewRouter()
	r.Use(idem.Table(table))
	r.Post("/payments", pay)
	r.Post("/refunds", pay)

	report := idemchi.Audit(r, idem, table)
	fmt.Println(report.Err())
	for _, warning := range report.Warnings {
		fmt.Println(warning)
	}
	// Output:
	// policy: row 2: POST /payment matches no route: use the router's own spelling, with all prefixes
	// POST /refunds is not guarded: no idempotency policy covers it, so a retry runs its handler again
}
