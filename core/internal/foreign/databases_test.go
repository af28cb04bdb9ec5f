package foreign

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// withDatabases are programs that write rows in the transaction of their response. The
// tests' operation decides about the id, or fails after the row is written.
var withDatabases = []program{
	{name: "gin with sqlc", mount: onSQLC(true), store: openPGX},
	{name: "gin with sqlc, gin's default settings", mount: onSQLC(false), store: openPGX, deaf: true}, // Case 81
	{name: "chi with bun", mount: onBun, store: openSQL},
}

const schema = `CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)`

func openPGX(t *testing.T, a *app) storage.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.Shared(t))
	testkit.Must(t, err)
	t.Cleanup(pool.Close)
	testkit.Must(t, pgstore.Migrate(t.Context(), pool))
	if _, err := pool.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	a.pool, a.policy = pool, append(a.policy, pgstore.Transactional())
	a.rows = func() (n int, err error) {
		err = pool.QueryRow(t.Context(), `SELECT count(*) FROM payments`).Scan(&n)
		return n, err
	}
	return pgstore.New(pool)
}

func openSQL(t *testing.T, a *app) storage.Store {
	t.Helper()
	db, err := sql.Open("pgx", postgrestest.Shared(t))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Must(t, sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL()))
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	a.db, a.policy = db, append(a.policy, sqlstore.Transactional())
	a.rows = func() (n int, err error) {
		err = db.QueryRowContext(t.Context(), `SELECT count(*) FROM payments`).Scan(&n)
		return n, err
	}
	return sqlstore.New(db, sqlstore.PostgreSQL())
}

// dbtx and queries are as sqlc generates them for pgx.
type dbtx interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

type queries struct{ db dbtx }

func (q *queries) WithTx(tx pgx.Tx) *queries { return &queries{db: tx} }

func (q *queries) CreatePayment(ctx context.Context, amount int64) (id int64, err error) {
	err = q.db.QueryRow(ctx, `INSERT INTO payments (amount) VALUES ($1) RETURNING id`, amount).Scan(&id)
	return id, err
}

// repository is the store of such a service: a method for each operation, in a
// transaction. It takes the run's, and its own where no guard is.
type repository struct {
	*queries
	pool *pgxpool.Pool
}

func (s *repository) execTx(ctx context.Context, fn func(*queries) error) error {
	if tx, err := pgstore.Tx(ctx); err == nil {
		return fn(s.WithTx(tx))
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return fn(s.WithTx(tx)) })
}

func (s *repository) Pay(ctx context.Context, amount int64) (id int64, err error) {
	err = s.execTx(ctx, func(q *queries) error {
		id, err = q.CreatePayment(ctx, amount)
		return err
	})
	return id, err
}

type service struct {
	*app
	store *repository
}

func (s *service) createPayment(c *gin.Context) {
	var in order
	if err := c.ShouldBindJSON(&in); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
		return
	}
	id, err := s.store.Pay(c, in.Amount)
	if err == nil {
		_, err = s.pay(c, in.Amount)
	}
	if err != nil {
		c.JSON(http.StatusInternalServerError, gin.H{"error": err.Error()})
		return
	}
	c.JSON(http.StatusCreated, payment{id})
}

func onSQLC(fallback bool) func(*app) http.Handler {
	return func(a *app) http.Handler {
		router := gin.Default()
		router.ContextWithFallback = fallback
		s := &service{a, &repository{&queries{a.pool}, a.pool}}
		router.POST("/payments", idemgin.New(a.engine).Policy(a.policy...), s.createPayment)
		return router
	}
}

// row is a payment as a model of bun.
type row struct {
	bun.BaseModel `bun:"table:payments"`

	ID     int64 `bun:",pk,autoincrement"`
	Amount int64
}

func onBun(a *app) http.Handler {
	db := bun.NewDB(a.db, pgdialect.New())
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.With(idemchi.New(a.engine).Policy(a.policy...)).Post("/payments", func(w http.ResponseWriter, r *http.Request) {
		var in order
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		paid := &row{Amount: in.Amount}
		tx, err := sqlstore.Tx(r.Context())
		if err == nil {
			_, err = db.NewInsert().Model(paid).Conn(tx).Exec(r.Context())
		}
		if err == nil {
			_, err = a.pay(r.Context(), in.Amount)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(payment{paid.ID})
	})
	return r
}
