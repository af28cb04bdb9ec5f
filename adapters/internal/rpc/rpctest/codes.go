package rpctest

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// fate is the end of a key.
type fate string

const (
	kept     fate = "kept"     // the error is replayed
	released fate = "released" // the next call runs the handler
	unknown  fate = "unknown"  // the next call gets outcome_unknown
)

// fates are the table of docs/rpc.md: after a handler's error, by default and where the
// policy refuses abandoned keys.
var fates = map[code.Code]struct{ byDefault, refusing fate }{
	code.Code_INVALID_ARGUMENT:    {kept, kept},
	code.Code_NOT_FOUND:           {kept, kept},
	code.Code_ALREADY_EXISTS:      {kept, kept},
	code.Code_PERMISSION_DENIED:   {kept, kept},
	code.Code_FAILED_PRECONDITION: {kept, kept},
	code.Code_ABORTED:             {kept, kept},
	code.Code_OUT_OF_RANGE:        {kept, kept},
	code.Code_RESOURCE_EXHAUSTED:  {released, released},
	code.Code_UNAUTHENTICATED:     {released, released},
	code.Code_CANCELLED:           {released, unknown},
	code.Code_UNKNOWN:             {released, unknown},
	code.Code_DEADLINE_EXCEEDED:   {released, unknown},
	code.Code_UNIMPLEMENTED:       {released, unknown},
	code.Code_INTERNAL:            {released, unknown},
	code.Code_UNAVAILABLE:         {released, unknown},
	code.Code_DATA_LOSS:           {released, unknown},
}

func (a *Adapter) codes(t *testing.T) {
	for refuses, name := range map[bool]string{false: "Reexecute", true: "Refuse"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []policy.Option
			if refuses {
				opts = append(opts, policy.OnAbandoned(policy.Refuse))
			}
			s := a.newService(t, memstore.New(), a.failing, opts...)
			for c, fates := range fates {
				want := fates.byDefault
				if refuses {
					want = fates.refusing
				}
				a.wantFate(t, s, c, want)
			}
		})
	}
}

// failing is a handler that fails with the code in the amount of the request.
func (a *Adapter) failing(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
	a.SetMetadata(ctx, http.Header{"X-Header": {"1", "2"}}, http.Header{"X-Trailer": {"3"}})
	return nil, a.Error(failed(code.Code(request.GetAmount())))
}

// failed is a status with details.
func failed(c code.Code) *status.Status {
	detail, err := anypb.New(&errdetails.ErrorInfo{Reason: "REASON", Domain: "shop.example"})
	if err != nil {
		panic(err)
	}
	return &status.Status{Code: int32(c), Message: "no: 50 %", Details: []*anypb.Any{detail}}
}

// fateAt returns the fate of a key by the response to its second call.
func fateAt(second *Response) fate {
	switch {
	case second.Replayed():
		return kept
	case second.Reason() == "outcome_unknown":
		return unknown
	default:
		return released
	}
}

func (a *Adapter) wantFate(t *testing.T, s *service, c code.Code, want fate) {
	t.Helper()
	request := &shop.PayRequest{Amount: int64(c)}
	first := s.call(t.Context(), Pay, Key(c.String()), request)
	runs := s.runs.Load()
	second := s.call(t.Context(), Pay, Key(c.String()), request)
	ran := s.runs.Load() > runs

	got := fateAt(&second)
	if got != want || ran != (want == released) {
		t.Errorf("%v: the key was %s (%v, ran again: %t), want %s", c, got, second.Status, ran, want)
	}
	for _, response := range []Response{first, second} {
		if got == unknown && response.Reason() != "" {
			continue
		}
		metadata := http.Header{"X-Header": {"1", "2"}, "X-Trailer": {"3"}}
		if !proto.Equal(response.Status, failed(c)) || !equalValues(response.Metadata, metadata) {
			t.Errorf("%v: got %v %v, want %v with its metadata", c, response.Status, response.Metadata, failed(c))
		}
	}
	if first.Replayed() {
		t.Errorf("%v: the first response is marked as a replay", c)
	}
}

// marks checks that marks and marking errors decide before the code.
func (a *Adapter) marks(t *testing.T) {
	notFound := func() error { return a.Error(failed(code.Code_NOT_FOUND)) }
	for name, row := range map[string]struct {
		handle Handler
		want   fate
	}{
		"MarkExecuted": {func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkExecuted(ctx)
			return nil, a.Error(failed(code.Code_UNAVAILABLE))
		}, kept},
		"MarkRetryable": {func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
			failure.MarkRetryable(ctx)
			return nil, notFound()
		}, released},
		"Retryable": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
			return nil, failure.Retryable(notFound())
		}, released},
		"Uncertain": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
			return nil, failure.Uncertain(notFound())
		}, unknown},
		"an error without a status": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) { return nil, errDown }, unknown},
		"a context's error": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
			return nil, context.DeadlineExceeded
		}, unknown},
		"a panic": {func(context.Context, *shop.PayRequest) (*shop.Payment, error) { panic("in the handler") }, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := a.newService(t, memstore.New(), row.handle, policy.OnAbandoned(policy.Refuse))
			s.pay(t, "k")
			second := s.pay(t, "k")
			if got := fateAt(&second); got != row.want {
				t.Errorf("the key was %s, want %s: %v", got, row.want, second.Status)
			}
		})
	}
}

// notUTF8 checks that a replay has an error's text too if that is not UTF-8, which protobuf
// cannot hold. Protocols write such bytes as U+FFFD, or send them as they are.
func (a *Adapter) notUTF8(t *testing.T) {
	s := a.newService(t, memstore.New(), func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
		return nil, a.Error(&status.Status{Code: int32(code.Code_INVALID_ARGUMENT), Message: "the name \xff\xfe is wrong"})
	})
	for _, replayed := range []bool{false, true} {
		got := s.pay(t, "k")
		if text := string([]rune(got.Status.GetMessage())); text != "the name \uFFFD\uFFFD is wrong" || got.Replayed() != replayed {
			t.Errorf("got %q, replayed: %t", got.Status.GetMessage(), got.Replayed())
		}
	}
	s.wantRuns(t, 1)
}
