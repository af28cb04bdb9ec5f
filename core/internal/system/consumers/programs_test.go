package consumers

// The programs that users write.

const pay = `
func pay(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func userOf(r *http.Request) (string, error) { return r.Header.Get("User"), nil }
`

const plain = `package main

import (
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func main() {
	guard, err := core.New(memstore.New(), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))
}
` + pay

const chi = `package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func main() {
	guard, err := core.New(memstore.New(), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	router := chi.NewRouter()
	router.With(idemchi.New(guard).Policy()).Post("/payments", pay)
}
` + pay

const gin = `package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func main() {
	guard, err := core.New(memstore.New(), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	idem := idemgin.New(guard)
	gin.New().POST("/payments", idem.Handle(func(c *gin.Context) { pay(c.Writer, c.Request) }))
}
` + pay

const redis = `package main

import (
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/redisstore"
)

func main() {
	guard, err := core.New(redisstore.New(redis.NewClient(&redis.Options{})), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))
}
` + pay

const chiAndRedis = `package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/redisstore"
)

func main() {
	guard, err := core.New(redisstore.New(redis.NewClient(&redis.Options{})), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	router := chi.NewRouter()
	router.With(idemchi.New(guard).Policy()).Post("/payments", pay)
}
` + pay

const postgres = `package main

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
)

func main() {
	pool, err := pgxpool.New(context.Background(), "")
	if err != nil {
		panic(err)
	}
	guard, err := core.New(pgstore.New(pool), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))
}
` + pay

const databaseSQL = `package main

import (
	"database/sql"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/sqlstore"
)

func main() {
	db, err := sql.Open("mysql", "")
	if err != nil {
		panic(err)
	}
	guard, err := core.New(sqlstore.New(db, sqlstore.MySQL()), core.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))
}
` + pay

const metrics = `package main

import (
	"net/http"

	oncekeyotel "github.com/oncekey/oncekey/adapters/otel"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func main() {
	observer, err := oncekeyotel.New()
	if err != nil {
		panic(err)
	}
	guard, err := core.New(memstore.New(), core.ScopeBy(userOf), core.WithObserver(observer))
	if err != nil {
		panic(err)
	}
	http.Handle("POST /payments", guard.Handler(http.HandlerFunc(pay)))
}
` + pay

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
