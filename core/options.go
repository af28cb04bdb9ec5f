package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// WithObserver sends events to observer. Default event.Log(nil).
func WithObserver(observer event.Observer) Option {
	return func(e *Engine) error {
		if observer == nil {
			return errors.New("oncekey: WithObserver is given nil: give an Observer, or leave the option out")
		}
		e.observer = guardedObserver{observer}
		return nil
	}
}

// WithProblemWriter writes the engine's own responses in another form. Default:
// application/problem+json. The writer should keep Problem.Status, unless the clients
// follow another convention, as the senders of webhooks do (examples/webhooks).
func WithProblemWriter(write problem.Writer) Option {
	return func(e *Engine) error {
		if write == nil {
			return errors.New("oncekey: WithProblemWriter is given nil: give a function, or leave the option out")
		}
		e.responder.write, e.responder.custom = write, true
		return nil
	}
}

// WithReplayHeader names the header that marks a replayed response. Default
// X-Idempotent-Replay.
func WithReplayHeader(name string) Option {
	return func(e *Engine) error {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("oncekey: WithReplayHeader is given %q: give a header name, such as Idempotent-Replayed", name)
		}
		e.responder.replayHeader = http.CanonicalHeaderKey(name)
		return nil
	}
}

// WithExpiryHeader names a header that carries the end of a stored response, as an HTTP
// date: on first responses that are kept, and on replays. A first response has the end by
// the clock of this process, a replay the end by the store's. A replay of a record
// without a known end has no such header, and neither has a problem. Default: no header.
// Pass the name to openapi.ExpiryHeader.
//
//	core.WithExpiryHeader("Idempotency-Expires")
func WithExpiryHeader(name string) Option {
	return func(e *Engine) error {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("oncekey: WithExpiryHeader is given %q: give a header name, such as Idempotency-Expires", name)
		}
		e.responder.expiryHeader = http.CanonicalHeaderKey(name)
		return nil
	}
}

// WithTrace names the trace of each run: records keep the text for operators, and the
// event of a replay has it as Event.Trace. The engine calls trace with the context of the
// request that claims a key, and keeps at most 100 bytes. If trace panics, the record has
// no trace, and the event is callback_panicked. trace must be safe for concurrent use.
// Default: no trace.
//
//	core.WithTrace(idemotel.TraceOf) // of adapters/otel
func WithTrace(trace func(context.Context) string) Option {
	return func(e *Engine) error {
		if trace == nil {
			return errors.New("oncekey: WithTrace is given nil: give a function, or leave the option out")
		}
		e.trace = trace
		return nil
	}
}

// WithInstance names this process in events and in its records. Default the host name.
func WithInstance(name string) Option {
	return func(e *Engine) error {
		e.instance = name
		return nil
	}
}

// WithSettleBudget bounds the time for which the engine tries to store a response in
// the background, after the store failed. Default 1 hour.
func WithSettleBudget(budget time.Duration) Option {
	return func(e *Engine) error {
		if budget < time.Millisecond {
			return fmt.Errorf("oncekey: WithSettleBudget is given %v: give at least 1ms", budget)
		}
		e.ledger.SettleBudget = budget
		return nil
	}
}

// WithMaxUnsettled bounds the number of responses that wait in memory while the
// store fails. While n wait, other keys get 503, finished ones and with FailOpen too. Default 1024.
func WithMaxUnsettled(n int) Option {
	return func(e *Engine) error {
		if n <= 0 {
			return fmt.Errorf("oncekey: WithMaxUnsettled is given %d: give more than zero", n)
		}
		e.ledger.MaxUnsettled = n
		return nil
	}
}

// WithService names the service that the keys belong to. Two services that share a
// Redis or a database then never see each other's records. The name is a part of
// every storage key and of DeriveKey's keys. Choose the name before the first
// deployment, because with another name every key is new. Default: no name.
func WithService(name string) Option {
	return func(e *Engine) error {
		if name == "" {
			return errors.New(`oncekey: WithService is given "": give the service's name, such as "payments"`)
		}
		e.service = name
		return nil
	}
}

// WithObserveOnly makes every route of the engine observe, as policy.ObserveOnly does
// for one route.
func WithObserveOnly() Option {
	return func(e *Engine) error {
		e.observeOnly = true
		return nil
	}
}

// WithDiffers tells the client which members of the request differ from the key's
// first request. The problem key_reused gets a member differs with their names. Only
// text that looks like a name is listed (fingerprint.LooksLikeName), and a member
// others counts the rest. Default: only the event contains the names.
func WithDiffers() Option {
	return func(e *Engine) error {
		e.explain = true
		return nil
	}
}

// WithDocs names the page of your API's documentation that explains idempotency keys.
// Every problem then has the page in a Link header, with the relation describedby, and
// as its type, with the problem's code as the fragment. Give an absolute URL without a
// fragment. Default: no Link, and the type is a page of this project.
//
//	core.WithDocs("https://docs.example.com/idempotency")
func WithDocs(page string) Option {
	return func(e *Engine) error {
		parsed, err := url.Parse(page)
		if err != nil || !parsed.IsAbs() || parsed.Host == "" || strings.ContainsAny(page, "#<>\" \t") {
			return fmt.Errorf("oncekey: WithDocs is given %q: give an absolute URL without a fragment, such as https://docs.example.com/idempotency", page)
		}
		e.responder.docs = page
		return nil
	}
}

// WithOnReplay calls change before each replay is written. change gets the header of
// the response, which it may change, the client's request and the stored record, which
// it must not change. The replay header and the expiry header are set afterwards. If
// change panics, the replay is sent with the header as it is, and the event is
// callback_panicked. change must be safe for concurrent use.
func WithOnReplay(change func(header http.Header, r *http.Request, record *storage.Record)) Option {
	return func(e *Engine) error {
		if change == nil {
			return errors.New("oncekey: WithOnReplay is given nil: give a function, or leave the option out")
		}
		e.responder.onReplay = change
		return nil
	}
}

// WithKeyHeader names the request headers that carry the idempotency key. Default
// Idempotency-Key. Problem texts use the first name. A request gives its key in one of
// the headers: the engine refuses a request with two of them, also where both have the
// same value. Pass the first name to openapi.KeyHeader.
//
//	core.WithKeyHeader("Idempotency-Key", "X-Request-Id") // the second for old clients
func WithKeyHeader(names ...string) Option {
	return func(e *Engine) error {
		if len(names) == 0 {
			return errors.New("oncekey: WithKeyHeader is given no names: give at least one header name, such as Idempotency-Key")
		}
		headers := make([]string, 0, len(names))
		for _, name := range names {
			canonical := http.CanonicalHeaderKey(name)
			switch {
			case !httpguts.ValidHeaderFieldName(name), canonical == "Host": // net/http removes Host from the header
				return fmt.Errorf("oncekey: WithKeyHeader is given %q: give a header name, such as Idempotency-Key", name)
			case slices.Contains(headers, canonical):
				return fmt.Errorf("oncekey: WithKeyHeader is given %q twice: once is enough", name)
			}
			headers = append(headers, canonical)
		}
		e.keyHeaders, e.responder.keyHeader = headers, headers[0]
		return nil
	}
}

// WithKeyEcho sends the key of a request back, in the header that carried it, with every
// response of a guarded route: the handler's own, replays and problems, also for a method
// that the policy does not guard. The header is as the client wrote it. An invalid key, a
// header with several, and a key in the body (policy.KeyField) are not sent back. A
// handler cannot change the header. Default: no echo.
func WithKeyEcho() Option {
	return func(e *Engine) error {
		e.echo = true
		return nil
	}
}

// WithPolicyCheck refuses policies that the rules of a protocol or of a team forbid. check
// gets the policy of each route when the route is declared, also from a table or a tag, and
// its error is the error of the declaration: return a *policy.FieldError. Several checks all
// apply. A call of Do without a policy is not checked. Default: no check.
func WithPolicyCheck(check func(*policy.Policy) error) Option {
	return func(e *Engine) error {
		if check == nil {
			return errors.New("oncekey: WithPolicyCheck is given nil: give a function, or leave the option out")
		}
		e.checks = append(e.checks, check)
		return nil
	}
}
