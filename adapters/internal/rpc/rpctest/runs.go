package rpctest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// concurrent sends one payment many times at once to two processes, as a client that
// hedges does: one handler runs.
func (a *Adapter) concurrent(t *testing.T) {
	store := memstore.New()
	begun, release := make(chan struct{}), make(chan struct{})
	slow := func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		close(begun) // a second run panics
		<-release
		return paid(ctx, request)
	}
	services := []*service{a.newService(t, store, slow), a.newService(t, store, slow)}
	var first sync.WaitGroup
	first.Go(func() { wantPaid(t, services[0].pay(t, "k"), false) })
	<-begun
	var others sync.WaitGroup
	for i := range 20 {
		others.Go(func() {
			wantProblem(t, services[i%2].pay(t, "k"), code.Code_ABORTED, problem.InProgress, true)
		})
	}
	others.Wait()
	close(release)
	first.Wait()
	for _, s := range services {
		wantPaid(t, s.pay(t, "k"), true)
	}
	if runs := services[0].runs.Load() + services[1].runs.Load(); runs != 1 {
		t.Errorf("%d handlers ran, want 1", runs)
	}
}

// context checks the values of a handler's context.
func (a *Adapter) context(t *testing.T) {
	charges := 0
	s := a.newService(t, memstore.New(), func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		lease, guarded := core.LeaseFrom(ctx)
		if !guarded || core.KeyFrom(ctx) != "k" || len(core.DeriveKey(ctx, "charge")) != 64 || !core.KeepFor(ctx, time.Hour) {
			t.Errorf("the handler has the lease %v and the key %q", lease, core.KeyFrom(ctx))
		}
		charge, err := core.Step(ctx, "charge", func(context.Context) (string, error) { charges++; return "c1", nil })
		if lease.Attempt == 1 {
			panic("after the step")
		}
		return &shop.Payment{Id: charge}, err
	})
	s.pay(t, "k")
	if r := s.pay(t, "k"); r.Payment.GetId() != "c1" || charges != 1 {
		t.Errorf("got %v %v after %d charges, want c1 after one", r.Payment, r.Status, charges)
	}
}

// deadline checks that a client's deadline does not end a guarded handler, and reaches
// one that is only observed.
func (a *Adapter) deadline(t *testing.T) {
	type seen struct{ limited, ended bool }
	begun, gone, seens := make(chan struct{}), make(chan struct{}), make(chan seen)
	s := a.newServiceOf(t, NewEngine(t, nil, scopeByUser), func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		_, limited := ctx.Deadline()
		begun <- struct{}{}
		<-gone
		seens <- seen{limited, ctx.Err() != nil}
		return paid(ctx, request)
	}, policy.Row("POST "+Pay), policy.Row("POST "+Refund, policy.ObserveOnly(true)))
	send := func(procedure string) seen {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var client sync.WaitGroup
		client.Go(func() { s.call(ctx, procedure, Key("k"), &shop.PayRequest{Amount: 100}) })
		<-begun
		cancel()
		client.Wait()
		gone <- struct{}{}
		return <-seens
	}
	if got := send(Pay); got.limited || got.ended {
		t.Errorf("the guarded handler saw %+v, want no deadline", got)
	}
	if got := send(Refund); !got.limited {
		t.Errorf("the observed handler saw %+v, want the deadline", got)
	}
	testkit.Await(t, "for the replay", func() bool {
		r := s.call(t.Context(), Pay, Key("k"), &shop.PayRequest{Amount: 100})
		return r.Replayed()
	})
}

// metadata checks the metadata of first responses and replays.
func (a *Adapter) metadata(t *testing.T) {
	header := http.Header{"X-Header": {"1", "2"}, "X-Raw-Bin": {"AAH/"}, "X-Content-Type-Options": {"nosniff"}}
	trailer := http.Header{"X-Trailer": {"3"}, "Y-Raw-Bin": {"/////w"}}
	forged := http.Header{"Idempotent-Replay": {"true"}, "X-Idempotent-Replay": {"true"}}
	s := a.newService(t, memstore.New(), func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		sent, last := header.Clone(), trailer.Clone()
		maps.Copy(sent, forged)
		maps.Copy(last, forged)
		a.SetMetadata(ctx, sent, last)
		return paid(ctx, request)
	})
	for _, replayed := range []bool{false, true, true} {
		r := s.pay(t, "k")
		wantPaid(t, r, replayed)
		if !equalValues(r.Metadata, header) || !equalValues(r.Metadata, trailer) {
			t.Errorf("got the metadata %v, want %v and %v, replayed: %t", r.Metadata, header, trailer, replayed)
		}
		if got := r.Metadata.Get("X-Idempotent-Replay"); got != "" {
			t.Errorf("the response has the header of HTTP's replays: %q", got)
		}
	}
}

// keyField checks a key in a field of the request (AIP-155).
func (a *Adapter) keyField(t *testing.T) {
	s := a.newServiceOf(t, NewEngine(t, nil, scopeByUser), paid, policy.Row("POST "+Refund, policy.KeyField("request_id")))
	send := func(key, field string) Response {
		header := Key(key)
		if key == "" {
			delete(header, core.KeyHeader)
		}
		return s.call(t.Context(), Refund, header, &shop.PayRequest{RequestId: field, Amount: 100})
	}
	wantPaid(t, send("", "r1"), false)
	wantPaid(t, send("", "r1"), true)
	wantPaid(t, send("r1", "r1"), true)
	s.wantRuns(t, 1)
	wantProblem(t, send("other", "r1"), code.Code_INVALID_ARGUMENT, problem.KeyInvalid, false)
	wantProblem(t, send("", ""), code.Code_INVALID_ARGUMENT, problem.KeyMissing, false)
	wantProblem(t, send("r2", ""), code.Code_INVALID_ARGUMENT, problem.KeyMissing, false)
	s.wantRuns(t, 1)
}

// exclusions checks which requests are equal.
func (a *Adapter) exclusions(t *testing.T) {
	s := a.newServiceOf(t, NewEngine(t, nil, scopeByUser, core.WithDiffers()), paid,
		policy.Row("POST "+Pay, policy.ExcludeFields("client_time", "items.*.nonce")))
	send := func(change func(*shop.PayRequest)) Response {
		request := &shop.PayRequest{
			Amount: 100, ClientTime: timestamppb.Now(), Labels: map[string]string{"a": "1", "b": "2"},
			Items: []*shop.Item{{Sku: "s", Nonce: "n1"}},
		}
		change(request)
		return s.call(t.Context(), Pay, Key("k"), request)
	}
	wantPaid(t, send(func(*shop.PayRequest) {}), false)
	wantPaid(t, send(func(r *shop.PayRequest) { r.Items[0].Nonce, r.ClientTime = "n2", nil }), true)
	for name, change := range map[string]func(*shop.PayRequest){
		"amount":    func(r *shop.PayRequest) { r.Amount++ },
		"sku":       func(r *shop.PayRequest) { r.Items[0].Sku = "other" },
		"presence":  func(r *shop.PayRequest) { r.Tip = new(int32) },
		"the oneof": func(r *shop.PayRequest) { r.Method = &shop.PayRequest_Card{} },
		"an unknown field": func(r *shop.PayRequest) {
			r.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
		},
	} {
		if name == "an unknown field" && a.OnlyKnown {
			continue
		}
		r := send(change)
		if wantProblem(t, r, code.Code_FAILED_PRECONDITION, problem.KeyReused, false); t.Failed() {
			t.Fatal("the case is ", name)
		}
		if name == "amount" && !strings.Contains(r.Status.String(), "amount") {
			t.Errorf("the error does not name the field that differs: %v", r.Status)
		}
	}
	s.wantRuns(t, 1)
}

// letThrough checks calls that a policy does not guard.
func (a *Adapter) letThrough(t *testing.T) {
	for name, opt := range map[string]policy.Option{
		"observed": policy.ObserveOnly(true),
		"skipped":  policy.SkipIf(func(r *http.Request) bool { return r.Header.Get("Authorization") == "alice" }),
	} {
		s := a.newService(t, memstore.New(), paid, opt)
		wantPaid(t, s.pay(t, "k"), false)
		wantPaid(t, s.pay(t, "k"), false)
		if s.wantRuns(t, 2); t.Failed() {
			t.Fatal("the case is ", name)
		}
	}
	s := a.newService(t, memstore.New(), paid, policy.Required(false))
	unkeyed := http.Header{"Authorization": {"alice"}}
	for range 2 {
		wantPaid(t, s.call(t.Context(), Pay, unkeyed, &shop.PayRequest{Amount: 100}), false)
		wantPaid(t, s.call(t.Context(), Find, Key("k"), &shop.PayRequest{Amount: 100}), false) // not in the table
	}
	s.wantRuns(t, 4)
}

// recovered checks the responses of a RecoverFunc.
func (a *Adapter) recovered(t *testing.T) {
	for name, row := range map[string]struct {
		find policy.RecoverFunc
		want func(Response) bool
	}{
		"a message": {func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return a.Recovered(&shop.Payment{Id: "found"}, nil)
		}, func(r Response) bool { return r.Payment.GetId() == "found" }},
		"an error": {func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return a.Recovered(nil, a.Error(failed(code.Code_NOT_FOUND)))
		}, func(r Response) bool {
			return r.Status.GetCode() == int32(code.Code_NOT_FOUND) && len(r.Status.GetDetails()) == 1
		}},
		"a response of HTTP": {func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return &policy.Response{Status: http.StatusForbidden, Body: []byte("no status")}, nil
		}, func(r Response) bool { return r.Status.GetCode() == int32(code.Code_PERMISSION_DENIED) }},
		"another message": {func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return &policy.Response{Status: http.StatusOK, Body: []byte("\xff")}, nil
		}, func(r Response) bool { return r.Status.GetCode() == int32(code.Code_INTERNAL) }},
	} {
		s := a.newService(t, memstore.New(), func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkUncertain(ctx)
			return paid(ctx, request)
		}, policy.OnAbandoned(policy.Recover(row.find)))
		s.pay(t, "k")
		for range 2 {
			if r := s.pay(t, "k"); !row.want(r) || !r.Replayed() {
				t.Errorf("%s: got %v %v %v", name, r.Payment, r.Status, r.Metadata)
			}
		}
		s.wantRuns(t, 1)
	}
}

// callbacks checks that functions of the program that panic leave no key in progress,
// and that a failed scope is no principal.
func (a *Adapter) callbacks(t *testing.T) {
	classifier := a.newService(t, memstore.New(), paid, policy.Classifier(func(failure.Outcome) failure.Class { panic("in the classifier") }))
	wantPaid(t, classifier.pay(t, "k"), false)
	wantPaid(t, classifier.pay(t, "k"), true)

	failing := true
	scope := a.ScopeBy(func(ctx context.Context) (string, error) {
		if failing {
			panic("in the scope")
		}
		return "", errors.New("the context names no principal")
	})
	s := a.newServiceOf(t, NewEngine(t, nil, scope), paid, policy.Row("POST "+Pay))
	if r := s.pay(t, "k"); r.Status.GetMessage() != "recovered" {
		t.Errorf("got %v, want the panic of the scope", r.Status)
	}
	failing = false
	wantProblem(t, s.pay(t, "k"), code.Code_UNAUTHENTICATED, problem.PrincipalMissing, false)
	s.wantRuns(t, 0)
}
