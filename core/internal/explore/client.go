package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
)

type requestKey struct{}

// response is the http.ResponseWriter that a pod's server passes to its handlers.
type response struct {
	world  *world
	header http.Header
	status int
	began  time.Duration // when the status was written
	body   strings.Builder
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status, r.began = status, r.world.since()
	}
}

func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *response) Flush() { r.WriteHeader(http.StatusOK) }

// send carries out one request of a client.
func (w *world) send(p *pod, plan *Request, flags Flags) {
	sleep(plan.At - w.since())
	base := Fact{Pod: p.ID, Request: plan.ID, Key: plan.Key, Source: -1, Flags: flags}
	if p.isDead() {
		return
	}
	sent := base
	sent.Kind, sent.Text = Sent, w.plan.bodyOf(plan)
	w.add(sent)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), requestKey{}, plan.ID))
	defer cancel()
	if plan.Leave > 0 {
		left := base
		left.Kind = Left
		timer := time.AfterFunc(plan.Leave, func() {
			w.add(left)
			cancel()
		})
		defer timer.Stop()
	}
	writer := &response{world: w, header: http.Header{}}
	aborted := w.exchange(ctx, p, plan, writer)
	base.Since = w.since()
	if writer.status != 0 {
		base.Since = writer.began
	}
	p.hold(plan.ID, 3_000_000)
	base.Kind, base.Status = Shown, writer.status
	switch {
	case aborted != nil:
		base.Kind, base.Err = Unshown, aborted
	case ctx.Err() != nil:
		base.Kind, base.Text = Unshown, "the client is gone"
	}
	describe(&base, writer)
	w.add(base)
}

// exchange serves the request, and returns the value of a planned panic.
func (w *world) exchange(ctx context.Context, p *pod, plan *Request, writer *response) (aborted error) {
	defer func() {
		if cause := recover(); cause != nil {
			err, ok := cause.(error)
			if !ok || !isPlanned(err) {
				panic(cause)
			}
			aborted = err
		}
	}()
	p.hold(plan.ID, 1_000_000)
	body := w.plan.bodyOf(plan)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Pattern = path
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(versionHeader, "1")
	if plan.Skip {
		r.Header.Set(skipHeader, "yes")
	}
	// With a key field, each second client sends the header too.
	if !plan.NoKey && (!w.plan.Policy.KeyField || plan.ID%2 == 0) {
		r.Header.Set(w.keyHeader(), keyName(plan.Key))
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(plan, w, r) })
	p.engine.Serve(writer, r, p.route, handler)
	w.spoil(writer, r, handler)
	return nil
}

// keyHeader is the name of the header that has the key.
func (w *world) keyHeader() string {
	if w.plan.Policy.OtherHeaders {
		return otherHeader
	}
	return core.KeyHeader
}

// spoil applies the plan's sabotage of the engine.
func (w *world) spoil(writer *response, r *http.Request, handler http.Handler) {
	switch refused := writer.status >= http.StatusBadRequest; {
	case w.plan.sabotage == escapes:
		panic(errClient)
	case refused && w.plan.sabotage == breaksProblems:
		writer.status = brokenStatus
	case refused && w.plan.sabotage == hidesRollback:
		writer.body.Reset()
	case refused && w.plan.sabotage == opensAlways:
		handler.ServeHTTP(writer, r)
	}
}

// isPlanned reports whether a panic belongs to the plan. The judge decides which of
// these panics may reach the server.
func isPlanned(err error) bool {
	return errors.Is(err, errPanic) || errors.Is(err, errKilled) || errors.Is(err, errCallback) || errors.Is(err, errClient)
}

const path = "/payments"

func keyName(key int) string { return "key-" + strconv.Itoa(key) }

// describe adds the client's view of the response.
func describe(f *Fact, r *response) {
	if r.header.Get("X-Idempotent-Replay") != "" {
		f.Flags |= Replayed
	}
	if source, err := strconv.Atoi(r.header.Get(sourceHeader)); err == nil {
		f.Source = source
	}
	body := r.body.String()
	if strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json") {
		f.Flags |= Problem
		var problem struct{ Code string }
		_ = json.Unmarshal([]byte(body), &problem) // an unreadable problem has no code, and the judge sees that
		body = problem.Code
	}
	if f.Text == "" {
		f.Text = body
	}
}

// bodyOf is the body of a request, with its key if the policy looks for it there.
func (p *Plan) bodyOf(r *Request) string {
	text := r.Body.text()
	if !p.Policy.KeyField || r.NoKey {
		return text
	}
	return fmt.Sprintf(`{%q:%q,%s`, keyMember, keyName(r.Key), text[1:])
}

// text is the body without a key. The spellings are canonically equal.
func (b Body) text() string {
	amount, nonce := 10+b.Payload, b.Nonce
	switch b.Spelling {
	case 1:
		return fmt.Sprintf(`{"nonce": %d, "amount": %d}`, nonce, amount)
	case 2:
		return fmt.Sprintf("{\"amount\":\t%d,\n\"nonce\":%d}", amount, nonce)
	default:
		return fmt.Sprintf(`{"amount":%d,"nonce":%d}`, amount, nonce)
	}
}
