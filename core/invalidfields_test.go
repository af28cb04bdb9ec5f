package core_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// resultStore keeps the last result that it was given.
type resultStore struct {
	*memstore.Store
	result storage.Result
}

func (s *resultStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.result = r
	return s.Store.Complete(ctx, l, r)
}

// splitting is a value that would split the response.
const splitting = "a\r\nX-Admin: yes"

// Fields that HTTP does not allow reach no store, from wherever they come.
func TestInvalidFieldsAreNotStored(t *testing.T) {
	t.Parallel()
	setInvalid := func(h http.Header) {
		h["X-Note"], h["Bad Name"] = []string{splitting, "b"}, []string{"a"}
	}
	respond := func(finish func(w http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			setInvalid(w.Header())
			w.WriteHeader(http.StatusCreated)
			finish(w)
		}
	}
	note := storage.Field{Name: "X-Note", Value: "b"}
	type row struct {
		handle http.HandlerFunc
		want   storage.Header
	}
	each(t, map[string]row{
		"header": {respond(func(http.ResponseWriter) {}), storage.Header{note}},
		"trailers": {respond(func(w http.ResponseWriter) {
			w.Header()[http.TrailerPrefix+"X-Sum"], w.Header()[http.TrailerPrefix+"Bad Name"] = []string{splitting, "1"}, []string{"2"}
		}), storage.Header{note, {Name: http.TrailerPrefix + "X-Sum", Value: "1"}}},
		"problem": {func(w http.ResponseWriter, r *http.Request) {
			failure.MarkExecuted(r.Context())
			panic(http.ErrAbortHandler)
		}, storage.Header{note}},
	}, func(t *testing.T, row row) {
		store := &resultStore{Store: memstore.New()}
		engine, err := core.New(store, core.ScopeBy(bearer), core.WithObserver(discarded{}),
			core.WithProblemWriter(func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
				clear(w.Header())
				setInvalid(w.Header())
				w.WriteHeader(p.Status)
			}))
		if err != nil {
			t.Fatal(err)
		}
		s := &service{handler: engine.Handler(row.handle)}
		recovered(func() { s.post(t.Context(), "k", payment) })
		if got := store.result.Header; !reflect.DeepEqual(got, row.want) {
			t.Errorf("stored %v, want %v", got, row.want)
		}
	})
	t.Run("Finish", func(t *testing.T) {
		t.Parallel()
		store := &resultStore{Store: memstore.New()}
		engine := engineOf(t, store)
		run := engine.Begin(t.Context(), nil, core.Request{Scope: "s", Method: http.MethodPost, Path: "/payments", Key: "k"}).Run
		header := storage.Header{{Name: "X-Note", Value: splitting}, {Name: "Bad Name", Value: "a"}, note}
		response := core.Response{Status: http.StatusCreated, Header: header}
		if err := engine.Finish(run, failure.Outcome{Status: response.Status}, response); err != nil {
			t.Fatal(err)
		}
		if got, want := store.result.Header, (storage.Header{note}); !reflect.DeepEqual(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		if header[0].Value != splitting {
			t.Error("Finish has changed the caller's header")
		}
	})
	t.Run("RecoverFunc", func(t *testing.T) {
		t.Parallel()
		store := &resultStore{Store: memstore.New()}
		found := make(http.Header)
		setInvalid(found)
		s := newService(t, store, func(_ http.ResponseWriter, r *http.Request) {
			failure.MarkUncertain(r.Context(), "no reply")
		}, policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) {
			return &policy.Response{Status: http.StatusCreated, Header: found}, nil
		})))
		s.post(t.Context(), "k", payment)
		s.post(t.Context(), "k", payment)
		if got, want := store.result.Header, (storage.Header{note}); !reflect.DeepEqual(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
	})
}
