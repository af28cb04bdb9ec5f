package foreign

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core/internal/foreign/graph"
	"github.com/oncekey/oncekey/core/internal/foreign/oapichi"
	"github.com/oncekey/oncekey/core/internal/foreign/oapigin"
	"github.com/oncekey/oncekey/core/internal/foreign/ogenapi"
	"github.com/oncekey/oncekey/core/internal/foreign/rpc"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// generated are programs whose handlers a framework calls with decoded requests.
var generated = []program{
	{name: "huma on chi", mount: humaOnChi},
	{name: "huma on chi, guard in huma's middleware", mount: humaMiddlewareOnChi},
	{name: "huma on gin", mount: humaOnGin},
	{name: "oapi-codegen strict on chi", mount: oapiOnChi},
	{name: "oapi-codegen strict on chi, its Middlewares", mount: oapiMiddlewareOnChi},
	{name: "oapi-codegen strict on gin", mount: oapiOnGin(false), deaf: true},
	{name: "oapi-codegen strict on gin, ContextWithFallback", mount: oapiOnGin(true)},
	{name: "ogen", mount: onOgen, aborts: true},
	{name: "twirp", mount: onTwirp, path: "/twirp/foreign.v1.Payments/Pay", status: http.StatusOK, aborts: true},
	{name: "grpc-gateway in the process", mount: onGateway, status: http.StatusOK, aborts: true},
	{name: "grpc-gateway before a server", mount: onRemoteGateway, status: http.StatusOK, remote: true},
	{name: "gqlgen", mount: onGqlgen, path: "/query", body: mutation, status: http.StatusOK, failed: http.StatusOK},
}

// huma

type humaInput struct {
	Body struct {
		Amount int64 `json:"amount"`
	}
}

type humaOutput struct {
	Body struct {
		ID int64 `json:"id"`
	}
}

func (a *app) register(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "create-payment", Method: http.MethodPost, Path: "/payments", DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, in *humaInput) (*humaOutput, error) {
		id, err := a.pay(ctx, in.Body.Amount)
		if err != nil {
			return nil, err
		}
		out := new(humaOutput)
		out.Body.ID = id
		return out, nil
	})
}

func humaOnChi(a *app) http.Handler {
	router := chi.NewMux()
	router.Use(middleware.Recoverer, idemchi.New(a.engine).Table(a.table()))
	a.register(humachi.New(router, huma.DefaultConfig("Payments", "1.0.0")))
	return router
}

func humaMiddlewareOnChi(a *app) http.Handler {
	router := chi.NewMux()
	router.Use(middleware.Recoverer)
	api := humachi.New(router, huma.DefaultConfig("Payments", "1.0.0"))
	route := a.engine.MustRoute(a.policy...)
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(ctx)
		a.engine.Serve(w, r, route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next(humachi.NewContext(ctx.Operation(), r, w))
		}))
	})
	a.register(api)
	return router
}

func humaOnGin(a *app) http.Handler {
	router := gin.Default()
	router.Use(idemgin.New(a.engine).Table(a.table()))
	a.register(humagin.New(router, huma.DefaultConfig("Payments", "1.0.0")))
	return router
}

// oapi-codegen

type chiServer struct{ *app }

func (s chiServer) CreatePayment(ctx context.Context, request oapichi.CreatePaymentRequestObject) (oapichi.CreatePaymentResponseObject, error) {
	id, err := s.pay(ctx, request.Body.Amount)
	if err != nil {
		return nil, err
	}
	return oapichi.CreatePayment201JSONResponse{Id: id}, nil
}

func oapiOnChi(a *app) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, idemchi.New(a.engine).Table(a.table()))
	return oapichi.HandlerFromMux(oapichi.NewStrictHandler(chiServer{a}, nil), r)
}

func oapiMiddlewareOnChi(a *app) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	return oapichi.HandlerWithOptions(oapichi.NewStrictHandler(chiServer{a}, nil), oapichi.ChiServerOptions{
		BaseRouter:  r,
		Middlewares: []oapichi.MiddlewareFunc{idemchi.New(a.engine).Policy(a.policy...)},
	})
}

type ginServer struct{ *app }

func (s ginServer) CreatePayment(ctx context.Context, request oapigin.CreatePaymentRequestObject) (oapigin.CreatePaymentResponseObject, error) {
	id, err := s.pay(ctx, request.Body.Amount) // ctx is gin's own
	if err != nil {
		return nil, err
	}
	return oapigin.CreatePayment201JSONResponse{Id: id}, nil
}

func oapiOnGin(fallback bool) func(*app) http.Handler {
	return func(a *app) http.Handler {
		r := gin.Default()
		r.ContextWithFallback = fallback
		r.Use(idemgin.New(a.engine).Table(a.table()))
		oapigin.RegisterHandlers(r, oapigin.NewStrictHandler(ginServer{a}, nil))
		return r
	}
}

// ogen

type ogenServer struct{ *app }

func (s ogenServer) CreatePayment(ctx context.Context, request *ogenapi.Order) (*ogenapi.Payment, error) {
	id, err := s.pay(ctx, request.Amount)
	if err != nil {
		return nil, err
	}
	return &ogenapi.Payment{ID: id}, nil
}

func onOgen(a *app) http.Handler {
	server, err := ogenapi.NewServer(ogenServer{a})
	testkit.Must(a, err)
	return a.engine.Handler(server, a.policy...)
}

// twirp and grpc-gateway

type rpcServer struct {
	rpc.UnimplementedPaymentsServer
	*app
}

func (s rpcServer) Pay(ctx context.Context, request *rpc.Order) (*rpc.Payment, error) {
	id, err := s.pay(ctx, request.GetAmount())
	if err != nil {
		return nil, err
	}
	return &rpc.Payment{Id: id}, nil
}

func onTwirp(a *app) http.Handler {
	server := rpc.NewPaymentsServer(rpcServer{app: a})
	mux := http.NewServeMux()
	mux.Handle(server.PathPrefix(), a.engine.Handler(server, a.policy...))
	return mux
}

func onGateway(a *app) http.Handler {
	mux := runtime.NewServeMux()
	testkit.Must(a, rpc.RegisterPaymentsHandlerServer(a.Context(), mux, rpcServer{app: a}))
	return a.engine.Handler(mux, a.policy...)
}

// onRemoteGateway declares the 499 that the gateway makes of a call that was cut off.
func onRemoteGateway(a *app) http.Handler {
	server, listener := grpc.NewServer(grpc.UnaryInterceptor(recovered)), bufconn.Listen(1<<16)
	rpc.RegisterPaymentsServer(server, rpcServer{app: a})
	go func() { _ = server.Serve(listener) }()
	a.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///payments", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	testkit.Must(a, err)
	a.Cleanup(func() { _ = conn.Close() })
	mux := runtime.NewServeMux()
	testkit.Must(a, rpc.RegisterPaymentsHandler(a.Context(), mux, conn))
	return a.engine.Handler(mux, append(a.policy, policy.Uncertain("499"))...)
}

// recovered is an interceptor, because gRPC recovers no panic.
func recovered(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return handler(ctx, request)
}

// gqlgen

func mutation(amount int) string {
	return fmt.Sprintf(`{"query":"mutation($n: Int!) { pay(amount: $n) { id } }","variables":{"n":%d}}`, amount)
}

type resolver struct{ *app }

func (r resolver) Query() graph.QueryResolver       { return r }
func (r resolver) Mutation() graph.MutationResolver { return r }

func (r resolver) Version(context.Context) (string, error) { return "1", nil }

func (r resolver) Pay(ctx context.Context, amount int) (*graph.Payment, error) {
	id, err := r.pay(ctx, int64(amount))
	if err != nil {
		return nil, err
	}
	return &graph.Payment{ID: int(id)}, nil
}

// onGqlgen marks errors and panics, because gqlgen responds to both with 200.
func onGqlgen(a *app) http.Handler {
	srv := handler.New(graph.NewExecutableSchema(graph.Config{Resolvers: resolver{a}}))
	srv.AddTransport(transport.POST{})
	srv.SetErrorPresenter(func(ctx context.Context, err error) *gqlerror.Error {
		failure.MarkRetryable(ctx, "error of a resolver")
		return graphql.DefaultErrorPresenter(ctx, err)
	})
	srv.SetRecoverFunc(func(context.Context, any) error { return gqlerror.Errorf("internal system error") })
	mux := http.NewServeMux()
	mux.Handle("/query", a.engine.Handler(srv, a.policy...))
	return mux
}
