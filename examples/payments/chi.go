package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
	"github.com/oncekey/oncekey/policy"
)

func chiRouter(s service, engine *core.Engine, times times) http.Handler {
	idem := idemchi.New(engine)
	money := []policy.Option{
		policy.TTLHours(48),
		policy.LockTTL(times.lockTTL),
		policy.StoreTimeout(times.storeTimeout),
		policy.ExcludeFields("clientTimestamp", "requestNonce"),
	}

	r := chi.NewRouter()
	r.Use(middleware.Recoverer) // outside the guard: the engine settles a panic before this recovers
	r.Get("/ledger", s.ShowLedger)
	r.Get("/attempts", s.ShowAttempts)
	if s.Bank != nil {
		r.Get("/balances", s.ShowBalances)
	}
	r.Group(func(r chi.Router) {
		r.Use(shop.Authenticate) // before the guard: the engine needs the user, and replays only to the same user
		r.With(idem.Policy(money...)).Post("/payments", s.pay)
		r.With(idem.Policy(money...)).Post("/refunds", s.refund)
		r.With(idem.Policy()).Post("/members", s.CreateMember)
		r.With(idem.Policy(policy.Required(false))).Patch("/members/{id}", s.ChangeMember)
		r.With(idem.Policy(policy.OnStoreError(policy.FailOpen))).Post("/notes", s.CreateNote)
		if s.Bank != nil {
			r.With(idem.Policy(append(money, policy.Transactional(true))...)).Post("/transfers", s.transfer)
		}
	})
	return r
}
