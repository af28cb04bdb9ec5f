package handlertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

const anOrder = `{"amount":42}`

// consuming is a consumer that charges by core.Do. derive gives the provider a key.
func consuming(derive func(ctx context.Context) string, then func(ctx context.Context, receipt string) (string, error), options ...policy.Option) func(*handlertest.World) handlertest.Service {
	return func(w *handlertest.World) handlertest.Service {
		p := newProvider()
		b := bank{&http.Client{Transport: w.Transport(p)}}
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				return handlertest.Consumer(func(ctx context.Context, m handlertest.Message) (any, error) {
					if string(m.Body) != anOrder {
						return nil, fmt.Errorf("the message is %q", m.Body)
					}
					call := core.Call{Scope: "orders", Name: "charge", Key: m.Key, Input: string(m.Body), Route: engine.MustRoute(options...)}
					receipt, _, err := core.Do(ctx, engine, call, func(ctx context.Context) (string, error) {
						receipt, err := b.charge(ctx, derive(ctx))
						if err != nil {
							return "", failure.Uncertain(err)
						}
						return then(ctx, receipt)
					})
					return receipt, err
				})
			},
			Request: handlertest.Request{Path: "/orders", Body: anOrder},
			Effects: p.Charges,
		}
	}
}

func withKey(ctx context.Context) string { return core.DeriveKey(ctx, "charge") }

func withoutKey(context.Context) string { return "" }

func done(_ context.Context, receipt string) (string, error) { return receipt, nil }

func TestConsumer(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, consuming(withKey, done))
	handlertest.Run(t, consuming(withoutKey, done, policy.OnAbandoned(policy.Refuse))) // sets the message aside
	report := handlertest.Examine(t, consuming(withoutKey, done))
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "two effects") {
		t.Errorf("without a key for the provider the kit finds %v, want two effects", err)
	}
}

// An error that is kept ends the deliveries: each delivery gets it, and the effect happens once.
func TestConsumerThatKeepsAnError(t *testing.T) {
	t.Parallel()
	first := true
	report := handlertest.Examine(t, consuming(withKey, func(ctx context.Context, receipt string) (string, error) {
		if first { // the run without a fault has to succeed
			first = false
			return receipt, nil
		}
		failure.MarkExecuted(ctx)
		return "", failure.Permanent(errors.New("no receipt"))
	}))
	if text := report.String(); strings.Contains(text, "no final response") || strings.Contains(text, "two effects") || !strings.Contains(text, "refused, but done") {
		t.Errorf("the report is\n%s", text)
	}
}
