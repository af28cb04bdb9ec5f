package foreign

import (
	"cmp"
	"context"
	"database/sql"
	"net/http"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A program is one row of the table: a service with one guarded operation.
type program struct {
	name  string
	mount func(*app) http.Handler

	// What differs from POST /payments with {"amount":n}, 201, and 500 for an error.
	path   string
	body   func(amount int) string
	status int
	failed int // status of an error and of a panic

	aborts bool // no recovery: a panic ends the connection without a response
	deaf   bool // the framework's own context does not end with the run
	remote bool // the handler runs behind a connection, with another context
	store  func(*testing.T, *app) storage.Store
}

// app is what a program gets: the engine, its policy, and the operation to run.
type app struct {
	*testing.T
	engine *core.Engine
	policy []policy.Option
	pay    func(ctx context.Context, amount int64) (id int64, err error)

	// Of a program with a database.
	pool *pgxpool.Pool
	db   *sql.DB
	rows func() (int, error) // payments that are committed
}

// order and payment are the bodies of a request and of its response.
type (
	order struct {
		Amount int64 `json:"amount" binding:"required"`
	}
	payment struct {
		ID int64 `json:"id"`
	}
)

// table is a policy.Table with the program's one guarded route.
func (a *app) table() *policy.Table {
	table, err := policy.NewTable(policy.Row("POST /payments", a.policy...))
	testkit.Must(a, err)
	return table
}

func (p program) pathOf() string { return cmp.Or(p.path, "/payments") }

func (p program) bodyOf(amount int) string {
	if p.body != nil {
		return p.body(amount)
	}
	return `{"amount":` + strconv.Itoa(amount) + `}`
}

func (p program) statusOf() int { return cmp.Or(p.status, http.StatusCreated) }

func (p program) failedOf() int { return cmp.Or(p.failed, http.StatusInternalServerError) }
