package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/jackc/pgx/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The programs of this file answer the questions of a team that adopts the library (case 102).

// sent sends a payment of 1 with a header, as "Authorization: alice", and returns the response.
func sent(t *testing.T, handler http.Handler, key string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(`{"amount":1}`))
	r.Header.Set(core.KeyHeader, key)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// userOfToken stands for the program's own sign-in.
func userOfToken(token string) (string, error) {
	if token == "" {
		return "", errors.New("no token")
	}
	return token, nil
}

type userKey struct{}

func signIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := userOfToken(r.Header.Get("Authorization"))
		if err != nil {
			http.Error(w, "sign in first", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func signedIn(r *http.Request) (string, error) {
	user, _ := r.Context().Value(userKey{}).(string)
	return user, nil // an empty name gets a 401
}

func signInGin(c *gin.Context) {
	user, err := userOfToken(c.GetHeader("Authorization"))
	if err != nil {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Set("user", user) // handlers may read it, but a scope function has the request alone
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), userKey{}, user))
}

func TestScopeOfTheProgramsOwnSignIn(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.ScopeBy(signedIn))
	testkit.Must(t, err)
	gin.SetMode(gin.TestMode)
	routers := map[string]http.Handler{}
	{
		r := chi.NewRouter()
		r.Use(signIn)
		r.With(idemchi.New(engine).Policy()).Post("/payments", pay)
		routers["chi"] = r
	}
	{
		r := gin.New()
		r.Use(signInGin)
		r.POST("/payments", idemgin.New(engine).Handle(payGin))
		routers["gin"] = r
	}
	for name, router := range routers {
		for _, row := range []struct {
			user, replay string
			status       int
		}{{"alice", "", 201}, {"bob", "", 201}, {"alice", "true", 201}, {"", "", 401}} {
			w := sent(t, router, name, "Authorization: "+row.user)
			if replay := w.Header().Get("X-Idempotent-Replay"); w.Code != row.status || replay != row.replay {
				t.Errorf("%s: %q got %d and the mark %q, want %d and %q", name, row.user, w.Code, replay, row.status, row.replay)
			}
		}
	}
}

// chi's Timeout sets a deadline, and responds only if the handler has not.
func TestTimeoutOfChi(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, idem, runs := chi.NewRouter(), idemchi.New(newEngine(t)), 0
		pay := func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 {
				<-r.Context().Done() // the provider takes too long
				return
			}
			w.WriteHeader(http.StatusCreated)
		}
		r.Use(middleware.Timeout(10 * time.Second)) // outside of the guard
		r.With(idem.Policy()).Post("/payments", pay)
		if w := sent(t, r, "k"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("the time-out got %d %v, want 503 with Retry-After", w.Code, w.Header())
		}
		if w := sent(t, r, "k"); w.Code != http.StatusCreated || runs != 2 {
			t.Errorf("the retry got %d after %d runs, want 201 after 2", w.Code, runs)
		}
	})
}

var errTimeout = errors.New("the database did not respond")

// A service that responds with 422 to each error keeps the 422 of a time-out.
func TestErrorThatIsNotFinal(t *testing.T) {
	t.Parallel()
	runs := 0
	validate := func() error {
		if runs++; runs == 1 {
			return errTimeout
		}
		return nil
	}
	pay := func(w http.ResponseWriter, r *http.Request) {
		if err := validate(); err != nil {
			if errors.Is(err, errTimeout) {
				failure.MarkRetryable(r.Context()) // nothing has happened: the client may try again
			}
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	handler := newEngine(t).Handler(http.HandlerFunc(pay))
	for try, want := range []int{http.StatusUnprocessableEntity, http.StatusCreated, http.StatusCreated} {
		testkit.Equal(t, sent(t, handler, "k").Code, want, "the status of try %d", try+1)
	}
	testkit.Equal(t, runs, 2, "runs")
}

// resolve stands for a GraphQL library: its responses have status 200.
func resolve(r *http.Request, pay func(context.Context) error) (data any, err error) {
	var request struct{ Query string }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return nil, err
	}
	if strings.HasPrefix(request.Query, "mutation") {
		return "paid", pay(r.Context())
	}
	return "balance", nil
}

func TestGraphQL(t *testing.T) {
	t.Parallel()
	engine, mux, runs := newEngine(t), http.NewServeMux(), 0
	charge := func(context.Context) error {
		if runs++; runs == 1 {
			return errTimeout
		}
		return nil
	}
	payResolver := func(ctx context.Context) error {
		if core.KeyFrom(ctx) == "" {
			return errors.New("send an Idempotency-Key with a mutation")
		}
		if err := charge(ctx); err != nil {
			failure.MarkRetryable(ctx) // status 200 would keep the error
			return err
		}
		failure.MarkExecuted(ctx) // from here on, an error of another field does not release the key
		return nil
	}
	graphql := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := resolve(r, payResolver)
		response := map[string]any{"data": data}
		if err != nil {
			response = map[string]any{"errors": []string{err.Error()}}
		}
		json.NewEncoder(w).Encode(response)
	})
	mux.Handle("POST /graphql", engine.Handler(graphql, policy.Required(false))) // queries need no key

	for _, row := range []struct{ key, query, want string }{
		{"", "{ balance }", `{"data":"balance"}`},
		{"", "mutation { pay }", `{"errors":["send an Idempotency-Key with a mutation"]}`},
		{"k", "mutation { pay }", `{"errors":["the database did not respond"]}`},
		{"k", "mutation { pay }", `{"data":"paid"}`},
		{"k", "mutation { pay }", `{"data":"paid"}`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", strings.NewReader(`{"query":"`+row.query+`"}`))
		if row.key != "" {
			r.Header.Set(core.KeyHeader, row.key)
		}
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); strings.TrimSpace(w.Body.String()) != row.want {
			t.Errorf("%s with key %q got %s, want %s", row.query, row.key, w.Body, row.want)
		}
	}
	testkit.Equal(t, runs, 2, "charges")
}

func keyOfForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if key := r.PostForm.Get("idempotency_key"); key != "" {
			r.Header.Set(core.KeyHeader, key)
		}
		if len(r.PostForm) > 0 { // ParseForm has read the body, here or in the CSRF middleware
			body := r.PostForm.Encode()
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		next.ServeHTTP(w, r)
	})
}

// csrf stands for a package that reads the token from the form, as most do.
func csrf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("csrf_token") == "" {
			http.Error(w, "reload the page", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A form that is sent twice, by two clicks at once too, has one key, and another CSRF token where the page was loaded again.
func TestForm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testForm)
}

func testForm(t *testing.T) {
	r, idem, orders := chi.NewRouter(), idemchi.New(newEngine(t)), 0
	order := func(w http.ResponseWriter, r *http.Request) {
		orders++
		time.Sleep(time.Second) //nolint:forbidigo // inside testing/synctest, so no real time passes
		http.Redirect(w, r, "/orders/"+r.PostFormValue("item"), http.StatusSeeOther)
	}
	r.With(csrf, keyOfForm, idem.Policy(policy.Wait(20*time.Second), policy.ExcludeFields("csrf_token"))).Post("/orders", order)

	for _, row := range []struct {
		key, token, item, location string
		status                     int
	}{
		{"k", "t1", "book", "/orders/book", 303},
		{"k", "t2", "book", "/orders/book", 303},
		{"k", "t2", "pen", "", 422},
		{"k", "", "book", "", 403},
		{"", "t1", "book", "", 400},
		{"j", "t1", "book", "/orders/book", 303},
	} {
		click := func() {
			form := url.Values{"item": {row.item}, "csrf_token": {row.token}, "idempotency_key": {row.key}}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader(form.Encode()))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			if r.ServeHTTP(w, request); w.Code != row.status || w.Header().Get("Location") != row.location {
				t.Errorf("%+v got %d and the location %q", row, w.Code, w.Header().Get("Location"))
			}
		}
		var clicks sync.WaitGroup
		clicks.Go(click)
		clicks.Go(click)
		clicks.Wait()
	}
	testkit.Equal(t, orders, 2, "orders")
}

// A script sends JSON to the form's route, and its body stays.
func TestJSONBesideAForm(t *testing.T) {
	t.Parallel()
	handler := keyOfForm(newEngine(t).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })))
	if w := sent(t, handler, "k", "Content-Type: application/json"); w.Body.String() != `{"amount":1}` {
		t.Errorf("the handler read %q", w.Body)
	}
}

// transferRoute is the route, for the program and for its unit test.
func transferRoute(engine *core.Engine, save func(ctx context.Context, id string) error, opts ...policy.Option) http.Handler {
	return engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := save(r.Context(), core.DeriveKey(r.Context(), "transfer")); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}), opts...)
}

// saveTransfer is the repository of the program.
func saveTransfer(ctx context.Context, id string) error {
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO transfers (id) VALUES (@id)", pgx.NamedArgs{"id": id})
	return err
}

func TestUnitOfATransactionalRoute(t *testing.T) {
	t.Parallel()
	saved := 0
	save := func(context.Context, string) error { saved++; return nil }
	handler := transferRoute(newEngine(t), save) // a memstore
	payTwice(t, handler, "/payments")
	testkit.Equal(t, saved, 1, "saved records")

	if _, err := newEngine(t).Route(pgstore.Transactional()); err == nil {
		t.Error("a memstore accepts a transactional route")
	}
	program := func(engine *core.Engine) http.Handler {
		return transferRoute(engine, saveTransfer, pgstore.Transactional())
	}
	_ = program // runs over PostgreSQL, as in transactions.md
}
