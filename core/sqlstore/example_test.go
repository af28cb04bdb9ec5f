package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/sqlstore"
)

// A database in a file is the durable store that needs no server.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := sql.Open("sqlite", "file:payments.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite()); err != nil {
		fmt.Println(err)
		return
	}
	store := sqlstore.New(db, sqlstore.SQLite())
	go store.RunSweeper(ctx, 10*time.Minute)

	engine, err := core.New(store, core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
	http.Handle("POST /payments", engine.Handler(http.HandlerFunc(pay)))
}

// The handler's writes and its response are committed together.
func ExampleTx() {
	pay := func(w http.ResponseWriter, r *http.Request) {
		tx, err := sqlstore.Tx(r.Context())
		if err != nil {
			http.Error(w, "no transaction", http.StatusInternalServerError)
			return
		}
		if _, err := tx.ExecContext(r.Context(), `INSERT INTO payments (amount) VALUES (?)`, 4200); err != nil {
			http.Error(w, "not paid", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	db, err := sql.Open("mysql", "shop@tcp(localhost)/shop?autocommit=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	engine, err := core.New(sqlstore.New(db, sqlstore.MySQL()), core.SharedScope)
	if err != nil {
		fmt.Println(err)
		return
	}
	http.Handle("POST /transfers", engine.Handler(http.HandlerFunc(pay), sqlstore.Transactional()))
}
