package pgstore_test

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil {
		panic(err)
	}
	store := pgstore.New(pool)
	go store.RunSweeper(ctx, 10*time.Minute)

	userID := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	engine, err := core.New(store, core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	_ = engine // wraps handlers, see package core
}

// The payment and its response are committed together.
func ExampleTx() {
	pay := func(w http.ResponseWriter, r *http.Request) {
		tx, err := pgstore.Tx(r.Context())
		if err != nil {
			http.Error(w, "no transaction", http.StatusInternalServerError)
			return
		}
		if _, err := tx.Exec(r.Context(), `INSERT INTO payments (amount) VALUES (42)`); err != nil {
			http.Error(w, "not paid", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	var engine *core.Engine // over a pgstore.Store, as in the package's example
	http.Handle("POST /payments", engine.Handler(http.HandlerFunc(pay), pgstore.Transactional()))
}
