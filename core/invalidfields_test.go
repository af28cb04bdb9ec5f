package core_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// splitting is a value that would split the response.
const splitting = "a\r\nX-Admin: yes"

// Fields that HTTP does not allow reach no store, from wherever they come.
func TestInvalidFieldsAreNotStored(t *testing.T) {
	t.Parallel()
	setInvalid := func(h http.Header) {
		h["X-Note"], h["Bad Name"] = []string{splitting, "b"}, []string{"a"}
	}
	note := storage.Field{Name: "X-Note", Value: "b"}
	abort := func(_ http.ResponseWriter, r *http.Request) {
		failure.MarkExecuted(r.Context())
		panic(http.ErrAbortHandler)
	}
	unsound := core.WithProblemWriter(func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		clear(w.Header())
		setInvalid(w.Header())
		w.WriteHeader(p.Status)
	})
	trailing := storage.Header{note, {Name: http.TrailerPrefix + "X-Sum", Value: "1"}}
	found := policy.Response{Status: http.StatusCreated, Header: make(http.Header)}
	setInvalid(found.Header)
	type row struct {
		handle  http.HandlerFunc
		options []policy.Option
		want    storage.Header
	}
	testkit.EachInBubble(t, map[string]row{
		"header": {func(w http.ResponseWriter, _ *http.Request) { setInvalid(w.Header()) }, nil, storage.Header{note}},
		"trailers": {func(w http.ResponseWriter, _ *http.Request) {
			setInvalid(w.Header())
			w.WriteHeader(http.StatusCreated)
			w.Header()[http.TrailerPrefix+"X-Sum"], w.Header()[http.TrailerPrefix+"Bad Name"] = []string{splitting, "1"}, []string{"2"}
		}, nil, trailing},
		"problem":     {abort, nil, storage.Header{note}},
		"RecoverFunc": {uncertain, []policy.Option{recovering(&found, nil)}, storage.Header{note}},
	}, func(t *testing.T, row row) {
		store := &recording{Store: memstore.New()}
		s := newServiceOf(t, store, row.handle, row.options, unsound)
		for range 2 {
			recovered(func() { s.post(t.Context(), "k", payment) })
		}
		if len(store.results) != 1 || !reflect.DeepEqual(store.results[0].Header, row.want) {
			t.Errorf("stored %+v, want %v", store.results, row.want)
		}
	})
	t.Run("Finish", func(t *testing.T) {
		t.Parallel()
		store := &recording{Store: memstore.New()}
		engine := engineOf(t, store)
		run := engine.Begin(t.Context(), nil, core.Request{Scope: "s", Method: http.MethodPost, Path: "/payments", Key: "k"}).Run
		header := storage.Header{{Name: "X-Note", Value: splitting}, {Name: "Bad Name", Value: "a"}, note}
		response := core.Response{Status: http.StatusCreated, Header: header}
		testkit.Must(t, engine.Finish(run, failure.Outcome{Status: response.Status}, response))
		if got, want := store.results[0].Header, (storage.Header{note}); !reflect.DeepEqual(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		testkit.Equal(t, header[0].Value, splitting, "Finish has changed the caller's header")
	})
}
