package consumers

import (
	"fmt"
	"strings"
)

// The programs that users write.

// shop is a program with a guarded payment.
type shop struct {
	imports []string // beside net/http and core
	opens   string   // the statements before the guard
	store   string
	options string // of the engine
	mounts  string // the handler
}

const (
	onNetHTTP = `http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))`
	onChi     = `chi.NewRouter().With(idemchi.New(guard).Policy()).Post("/payments", pay)`
	onGin     = `gin.New().POST("/payments", idemgin.New(guard).Handle(func(c *gin.Context) { pay(c.Writer, c.Request) }))`

	inMemory  = "memstore.New()"
	overRedis = "redisstore.New(redis.NewClient(&redis.Options{}))"

	orPanic = `
	if err != nil {
		panic(err)
	}`
)

func (s shop) program() string {
	return fmt.Sprintf(`package main

import (
	"net/http"

	"github.com/oncekey/oncekey/core"
	%s
)

func main() {
	%s
	guard, err := core.New(%s, core.ScopeBy(userOf)%s)
	if err != nil {
		panic(err)
	}
	%s
}

func pay(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func userOf(r *http.Request) (string, error) { return r.Header.Get("User"), nil }
`, strings.Join(s.imports, "\n\t"), s.opens, s.store, s.options, s.mounts)
}

var (
	plain = shop{imports: []string{`"github.com/oncekey/oncekey/core/memstore"`}, store: inMemory, mounts: onNetHTTP}.program()
	chi   = shop{imports: []string{
		`"github.com/go-chi/chi/v5"`, `idemchi "github.com/oncekey/oncekey/adapters/chi"`, `"github.com/oncekey/oncekey/core/memstore"`,
	}, store: inMemory, mounts: onChi}.program()
	gin = shop{imports: []string{
		`"github.com/gin-gonic/gin"`, `idemgin "github.com/oncekey/oncekey/adapters/gin"`, `"github.com/oncekey/oncekey/core/memstore"`,
	}, store: inMemory, mounts: onGin}.program()
	redis = shop{imports: []string{
		`"github.com/redis/go-redis/v9"`, `"github.com/oncekey/oncekey/core/redisstore"`,
	}, store: overRedis, mounts: onNetHTTP}.program()
	chiAndRedis = shop{imports: []string{
		`"github.com/go-chi/chi/v5"`, `"github.com/redis/go-redis/v9"`, `idemchi "github.com/oncekey/oncekey/adapters/chi"`,
		`"github.com/oncekey/oncekey/core/redisstore"`,
	}, store: overRedis, mounts: onChi}.program()
	postgres = shop{
		imports: []string{`"context"`, `"github.com/jackc/pgx/v5/pgxpool"`, `"github.com/oncekey/oncekey/core/pgstore"`},
		opens:   `pool, err := pgxpool.New(context.Background(), "")` + orPanic, store: "pgstore.New(pool)", mounts: onNetHTTP,
	}.program()
	databaseSQL = shop{
		imports: []string{`"database/sql"`, `"github.com/oncekey/oncekey/core/sqlstore"`},
		opens:   `db, err := sql.Open("mysql", "")` + orPanic, store: "sqlstore.New(db, sqlstore.MySQL())", mounts: onNetHTTP,
	}.program()
	metrics = shop{
		imports: []string{`oncekeyotel "github.com/oncekey/oncekey/adapters/otel"`, `"github.com/oncekey/oncekey/core/memstore"`},
		opens:   `observer, err := oncekeyotel.New()` + orPanic, store: inMemory, options: ", core.WithObserver(observer)", mounts: onNetHTTP,
	}.program()
)

const grpc = `package main

import (
	"context"

	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"

	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

func main() {
	engine, err := core.New(memstore.New(), idemgrpc.ScopeBy(func(context.Context) (string, error) { return "alice", nil }))
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("POST /grpc.health.v1.Health/Check"))
	if err != nil {
		panic(err)
	}
	guard, err := idemgrpc.New(engine, table)
	if err != nil {
		panic(err)
	}
	health.RegisterHealthServer(grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Intercept)), health.UnimplementedHealthServer{})
}
`

const connect = `package main

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

func main() {
	engine, err := core.New(memstore.New(), idemconnect.ScopeBy(func(context.Context) (string, error) { return "alice", nil }))
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("POST /shop.v1.Payments/Pay"))
	if err != nil {
		panic(err)
	}
	guard, err := idemconnect.New(engine, table)
	if err != nil {
		panic(err)
	}
	pay := func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) { return nil, nil }
	http.Handle("/shop.v1.Payments/Pay", connect.NewUnaryHandler("/shop.v1.Payments/Pay", pay, connect.WithInterceptors(guard)))
}
`

const mcpServer = `package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

type order struct {
	Amount int    ` + "`json:\"amount\"`" + `
	Key    string ` + "`json:\"idempotency_key\"`" + `
}

func main() {
	engine, err := core.New(memstore.New(), core.SharedScope)
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("TOOL charge"))
	if err != nil {
		panic(err)
	}
	guard, err := idemmcp.New(engine, table)
	if err != nil {
		panic(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, func(context.Context, *mcp.CallToolRequest, order) (result *mcp.CallToolResult, payment any, err error) {
		return result, payment, err
	})
	server.AddReceivingMiddleware(guard.Receive)
	if err := server.Run(context.Background(), new(mcp.StdioTransport)); err != nil {
		panic(err)
	}
}
`
