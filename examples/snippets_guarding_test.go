package examples_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// send sends a payment under a key, and returns the status, the body and the mark of a
// replay.
func send(t *testing.T, handle func(*http.Request) *http.Response, key string) (status int, body, replay string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
	if key != "" {
		request.Header.Set(core.KeyHeader, key)
	}
	response := handle(request)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, strings.TrimSpace(string(text)), response.Header.Get("X-Idempotent-Replay")
}

// wantStored checks that a first response is replayed.
func wantStored(t *testing.T, handle func(*http.Request) *http.Response, key string, status int) {
	t.Helper()
	firstStatus, firstBody, first := send(t, handle, key)
	againStatus, againBody, again := send(t, handle, key)
	if firstStatus != status || againStatus != status || firstBody != againBody || first != "" || again != "true" {
		t.Errorf("got %d %q %q, then %d %q %q, want %d and its replay", firstStatus, firstBody, first, againStatus, againBody, again, status)
	}
}

// A gateway's guard does not keep the 409 of the guard behind it.
func TestResponseOfAnotherService(t *testing.T) {
	t.Parallel()
	began, proceed := make(chan struct{}), make(chan struct{})
	service := newEngine(t).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-proceed
		pay(w, r)
	}))
	server := httptest.NewServer(service)
	defer server.Close()
	target, err := url.Parse(server.URL)
	testkit.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(response *http.Response) error {
		switch ctx := response.Request.Context(); {
		case response.StatusCode == http.StatusConflict && response.Header.Get("Retry-After") != "":
			failure.MarkRetryable(ctx) // the first request is in progress there: else this 409 is kept
		case response.StatusCode < http.StatusBadRequest:
			failure.MarkExecuted(ctx) // else a response that breaks off panics, and releases the key
		}
		return nil
	}
	through := func(handler http.Handler) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Result()
		}
	}
	gateway, done := through(newEngine(t).Handler(proxy)), make(chan struct{})
	go func() {
		defer close(done)
		send(t, through(service), "k") // an attempt that the gateway has given up
	}()
	<-began
	for range 2 {
		if status, body, replay := send(t, gateway, "k"); status != http.StatusConflict || replay != "" {
			t.Errorf("got %d %q %q, want a 409 that is not stored", status, body, replay)
		}
	}
	close(proceed)
	<-done
	wantStored(t, gateway, "k", http.StatusCreated)
}

// registerShop declares shop.v1.Payments, in place of generated code.
func registerShop(t *testing.T) {
	t.Helper()
	method := &descriptorpb.MethodDescriptorProto{
		Name: new("Pay"), InputType: new(".google.protobuf.StringValue"), OutputType: new(".google.protobuf.StringValue"),
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service:    []*descriptorpb.ServiceDescriptorProto{{Name: new("Payments"), Method: []*descriptorpb.MethodDescriptorProto{method}}},
	}, protoregistry.GlobalFiles)
	if err == nil {
		err = protoregistry.GlobalFiles.RegisterFile(file)
	}
	testkit.Must(t, err)
}

func TestOnRPC(t *testing.T) {
	t.Parallel()
	registerShop(t)
	engine := newEngine(t)
	recovery, authenticate := passUnary, passUnary
	table, err := policy.NewTable(
		policy.Row("POST /shop.v1.Payments/Pay", policy.TTLHours(48), policy.OnAbandoned(policy.Refuse)),
	)
	testkit.Must(t, err)
	guard, err := idemgrpc.New(engine, table)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(recovery, authenticate, guard.Intercept))
	if report := guard.Audit(server); report.Err() == nil {
		t.Error("the server has no service, and the table is accepted")
	}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "rpc"))
	info, runs := &grpc.UnaryServerInfo{FullMethod: "/shop.v1.Payments/Pay"}, 0
	for range 2 {
		paid, err := guard.Intercept(ctx, wrapperspb.String("order"), info, func(context.Context, any) (any, error) {
			runs++
			return wrapperspb.String("paid"), nil
		})
		if paid, is := paid.(*wrapperspb.StringValue); err != nil || !is || paid.GetValue() != "paid" {
			t.Errorf("got %v, %v", paid, err)
		}
	}

	// A retry over Connect finds the record of the call over gRPC.
	payments := func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		runs++
		return wrapperspb.String("paid again"), nil
	}
	newPaymentsHandler := func(handler func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error), opts ...connect.HandlerOption) (string, http.Handler) {
		return info.FullMethod, connect.NewUnaryHandlerSimple(info.FullMethod, handler, opts...)
	}
	mux := http.NewServeMux()
	{
		guard, err := idemconnect.New(engine, table)
		testkit.Must(t, err)
		path, handler := newPaymentsHandler(payments, connect.WithInterceptors(guard))
		mux.Handle(path, handler)
	}
	connected := httptest.NewServer(mux)
	defer connected.Close()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](connected.Client(), connected.URL+info.FullMethod)
	call := connect.NewRequest(wrapperspb.String("order"))
	call.Header().Set(core.KeyHeader, "rpc")
	if paid, err := client.CallUnary(t.Context(), call); err != nil || paid.Msg.GetValue() != "paid" || runs != 1 {
		t.Errorf("over Connect got %v, %v after %d runs", paid, err, runs)
	}
}

func passUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, request)
}
