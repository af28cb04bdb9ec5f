package main

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

func chiRouter(s *shop, engine *core.Engine, lockTTL time.Duration) http.Handler {
	idem := idemchi.New(engine)
	money := idem.Policy(
		policy.TTLHours(48),
		policy.LockTTL(lockTTL),
		policy.ExcludeFields("clientTimestamp", "requestNonce"),
	)

	r := chi.NewRouter()
	r.Use(middleware.Recoverer) // outside the guard: what panicked is settled first
	r.Get("/ledger", s.ledger.show)
	r.Group(func(r chi.Router) {
		r.Use(authenticate) // before the guard: it asks whose key this is, and replays to nobody else
		r.With(money).Post("/payments", s.pay)
		r.With(money).Post("/refunds", s.refund)
		r.With(idem.Policy()).Post("/members", s.createMember)
		r.With(idem.Policy(policy.Required(false))).Patch("/members/{id}", s.changeMember)
		r.With(idem.Policy(policy.OnStoreError(policy.FailOpen))).Post("/notes", s.createNote)
	})
	return r
}
