package ginservice

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // the debug mode prints every route
	goleak.VerifyTestMain(postgrestest.Main(mysqltest.Main(m)))
}

// repository writes transfers in the transaction of ctx, or else in a transaction of its
// own. Each database has one.
type repository interface {
	Transfer(ctx context.Context, id string) error
}

// database is a store with a repository of the same database.
type database struct {
	name string
	open func(t *testing.T) (storage.Store, repository, *sql.DB)
	// noTransaction is the error of the store's Tx.
	noTransaction error
	tx            func(context.Context) error
}

// bank is the service: its handlers pass c on, as most code for gin does.
type bank struct {
	repository
	db     *sql.DB
	runs   atomic.Int32
	unused atomic.Int32 // events about transactions that were not taken
}

// Observe implements event.Observer.
func (b *bank) Observe(_ context.Context, happened event.Event) {
	if happened.Result == event.TransactionUnused {
		b.unused.Add(1)
	}
}

type someKey struct{}

// derivations are the contexts that code makes of a handler's c. The handler ends them.
var derivations = map[string]func(*gin.Context) (context.Context, context.CancelFunc){
	"c":              func(c *gin.Context) (context.Context, context.CancelFunc) { return c, func() {} },
	"with a timeout": func(c *gin.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(c, time.Minute) },
	"with a value": func(c *gin.Context) (context.Context, context.CancelFunc) {
		return context.WithValue(c, someKey{}, 1), func() {}
	},
	"without cancellation": func(c *gin.Context) (context.Context, context.CancelFunc) {
		return context.WithoutCancel(c), func() {}
	},
	"a copy":         func(c *gin.Context) (context.Context, context.CancelFunc) { return c.Copy(), func() {} },
	"of the request": func(c *gin.Context) (context.Context, context.CancelFunc) { return c.Request.Context(), func() {} },
}

var inTransaction = []policy.Option{policy.Transactional(true), policy.StoreTimeout(20 * time.Second), policy.LockTTL(time.Minute)}

// start runs the service over gin's own settings.
func start(t *testing.T, d database) (*bank, http.Handler) {
	t.Helper()
	store, repo, db := d.open(t)
	b := &bank{repository: repo, db: db}
	engine := service.Engine(t, store, core.SharedScope, core.WithObserver(b))
	router, idem := gin.New(), idemgin.New(engine)
	router.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
	router.Use(func(c *gin.Context) {
		c.Next()
		if d.tx(c) == nil {
			t.Error("middleware outside of the guard finds the transaction of a run that has ended")
		}
	})
	for name, derive := range derivations {
		router.POST("/"+name, idem.Handle(func(c *gin.Context) {
			b.runs.Add(1)
			ctx, cancel := derive(c)
			defer cancel()
			if err := b.Transfer(ctx, c.GetHeader(core.KeyHeader)); err != nil {
				_ = c.AbortWithError(http.StatusInternalServerError, err)
				return
			}
			switch c.Query("end") {
			case "panic":
				panic("the handler panics")
			case "error":
				c.String(http.StatusInternalServerError, "no")
			default:
				c.JSON(http.StatusCreated, gin.H{"id": c.GetHeader(core.KeyHeader)})
			}
		}, inTransaction...))
	}
	router.POST("/outside", idem.Handle(func(c *gin.Context) { // a repository that gets another context
		if err := b.Transfer(context.WithoutCancel(t.Context()), c.GetHeader(core.KeyHeader)); err != nil {
			t.Error(err)
		}
		c.Status(http.StatusCreated)
	}, inTransaction...))
	router.POST("/step", idem.Handle(func(c *gin.Context) {
		_, err := core.Step(c, "charge", func(ctx context.Context) (int, error) {
			if err := d.tx(ctx); !errors.Is(err, d.noTransaction) {
				t.Errorf("a step gets %v, want %v", err, d.noTransaction)
			}
			return 1, nil
		})
		if err == nil {
			err = b.Transfer(c, c.GetHeader(core.KeyHeader))
		}
		if err != nil {
			t.Error(err)
		}
		c.Status(http.StatusCreated)
	}, inTransaction...))
	return b, router
}

func (b *bank) send(t *testing.T, router http.Handler, path, key string) *httptest.ResponseRecorder {
	t.Helper()
	return testkit.Serve(router, testkit.Post(t.Context(), strings.ReplaceAll(path, " ", "%20"), key, `{"amount":7}`))
}

// written counts the transfers of a key.
func (b *bank) written(t *testing.T, key string) (n int) {
	t.Helper()
	testkit.Must(t, b.db.QueryRowContext(t.Context(), `SELECT count(*) FROM transfers WHERE id = '`+key+`'`).Scan(&n))
	return n
}

// Case 81: the repository finds the transaction of the run in c, and in each context that
// is derived from it. Its work is committed together with the record, or not at all. Case
// 82: work outside of the transaction is reported.
func TestRepositoryGetsC(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b, router := start(t, d)
			for name := range derivations {
				key := strings.ReplaceAll(name, " ", "-")
				for _, end := range []string{"panic", "error"} {
					testkit.Equal(t, b.send(t, router, "/"+name+"?end="+end, key).Code, http.StatusInternalServerError, "%s: the status", name)
					testkit.Equal(t, b.written(t, key), 0, "%s: transfers of a run that ended with %s", name, end)
				}
				b.runs.Store(0)
				first, again := b.send(t, router, "/"+name, key), b.send(t, router, "/"+name, key)
				if first.Code != http.StatusCreated || again.Code != http.StatusCreated || again.Header().Get("X-Idempotent-Replay") == "" {
					t.Errorf("%s: got %d, and then %d %v", name, first.Code, again.Code, again.Header())
				}
				if n := b.written(t, key); n != 1 || b.runs.Load() != 1 {
					t.Errorf("%s: %d transfers and %d runs, want 1 of each", name, n, b.runs.Load())
				}
			}
			if w := b.send(t, router, "/step", "step"); w.Code != http.StatusCreated || b.written(t, "step") != 1 {
				t.Errorf("after a step got %d and %d transfers", w.Code, b.written(t, "step"))
			}
			testkit.Equal(t, b.unused.Load(), 0, "transactions that were not taken")
			b.send(t, router, "/outside", "outside")
			b.send(t, router, "/outside", "outside")
			testkit.Equal(t, b.unused.Load(), 1, "events about a repository that gets another context")
		})
	}
}
