package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// redirecting responds to a path with its step, and to every other path with 200.
type redirecting struct {
	*realServer
	mu   sync.Mutex
	sent []hop
}

// hop is one request that the server received.
type hop struct{ method, path, key, body string }

func redirectingServer(t *testing.T, steps map[string]int) *redirecting {
	t.Helper()
	s := &redirecting{}
	s.realServer = startServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, hop{r.Method, r.URL.Path, strings.Join(r.Header["Idempotency-Key"], ","), string(body)})
		if status := steps[r.URL.Path]; status != 0 {
			http.Redirect(w, r, r.URL.Path+"x", status)
		}
	}, (*httptest.Server).Start)
	return s
}

// follow sends a request through redirects, and returns the requests that arrived.
func (s *redirecting) follow(t *testing.T, method, body, key string, opts ...httpclient.Option) []hop {
	t.Helper()
	var sent io.Reader = http.NoBody
	if body != "" {
		sent = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/a", sent)
	testkit.Must(t, err)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	client := &http.Client{Transport: transportTo(t, s.Client().Transport, append(opts, quickly())...)}
	response, err := client.Do(request)
	testkit.Must(t, err)
	response.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Case 66: a redirect keeps its key only if method and body are kept.
func TestRedirectKeepsTheKeyOfTheSameOperation(t *testing.T) {
	t.Parallel()
	const post, get, put = http.MethodPost, http.MethodGet, http.MethodPut
	type row struct {
		method, body, key string
		steps             map[string]int
		kept              []bool // by request that arrived
	}
	testkit.Each(t, map[string]row{
		"307":                       {post, "{}", "", map[string]int{"/a": 307}, []bool{true, true}},
		"308":                       {post, "{}", "", map[string]int{"/a": 308}, []bool{true, true}},
		"307 twice":                 {post, "{}", "", map[string]int{"/a": 307, "/ax": 308}, []bool{true, true, true}},
		"307, own key":              {post, "{}", "mine", map[string]int{"/a": 307}, []bool{true, true}},
		"301":                       {post, "{}", "", map[string]int{"/a": 301}, []bool{true, false}},
		"302, own key":              {post, "{}", "mine", map[string]int{"/a": 302}, []bool{true, false}},
		"303, own key":              {post, "{}", "mine", map[string]int{"/a": 303}, []bool{true, false}},
		"303 without a body":        {post, "", "mine", map[string]int{"/a": 303}, []bool{true, false}},
		"303 of PUT, own key":       {put, "{}", "mine", map[string]int{"/a": 303}, []bool{true, false}},
		"303, then 307, own key":    {post, "{}", "mine", map[string]int{"/a": 303, "/ax": 307}, []bool{true, false, false}},
		"307, then 303, own key":    {post, "{}", "mine", map[string]int{"/a": 307, "/ax": 303}, []bool{true, true, false}},
		"302 of GET, own key":       {get, "", "mine", map[string]int{"/a": 302}, []bool{true, true}},
		"302 of GET with a body":    {get, "{}", "mine", map[string]int{"/a": 302}, []bool{true, false}},
		"307 of GET, without a key": {get, "", "", map[string]int{"/a": 307}, []bool{false, false}},
	}, func(t *testing.T, row row) {
		got := redirectingServer(t, row.steps).follow(t, row.method, row.body, row.key)
		if len(got) != len(row.kept) {
			t.Fatalf("%d requests arrived, want %d: %+v", len(got), len(row.kept), got)
		}
		for i, kept := range row.kept {
			if want := got[0].key; kept && got[i].key != want || !kept && got[i].key != "" {
				t.Errorf("request %d was %+v, want the first request's key %q: %t", i+1, got[i], want, kept)
			}
		}
		if row.key != "" && got[0].key != row.key || row.method == post && got[0].key == "" {
			t.Errorf("the first request has the key %q", got[0].key)
		}
	})
}

// After a dropped key the redirect gets a new key, if its method gets keys.
func TestRedirectToAnotherOperationGetsItsOwnKey(t *testing.T) {
	t.Parallel()
	got := redirectingServer(t, map[string]int{"/a": 303}).
		follow(t, http.MethodPost, "{}", "mine", httpclient.Methods("POST", "GET"))
	if len(got) != 2 || got[0].key != "mine" || !uuidV7.MatchString(got[1].key) {
		t.Errorf("got %+v, want another key for the second request", got)
	}
}

// Case 66: the response to a redirected POST is lost after the payment. The server's twin
// knows the key. The next RoundTripper leaves out Response.Request, as net/http allows.
func TestRedirectAfterALostResponseChargesOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	charged := map[string]int{} // by key, on both servers
	lost := false
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch key := r.Header.Get("Idempotency-Key"); {
		case r.URL.Path == "/twin":
			charged[key] = max(charged[key], 1)
			fmt.Fprint(w, "paid")
		case !lost:
			lost = true
			charged[key]++
			panic(http.ErrAbortHandler)
		default:
			http.Redirect(w, r, "/twin", http.StatusTemporaryRedirect)
		}
	}, (*httptest.Server).Start)
	next := roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := server.Client().Transport.RoundTrip(request)
		if err == nil {
			response.Request = nil
		}
		return response, err
	})
	post(t, transportTo(t, next, quickly()), server.URL, "{}").expect(t, http.StatusOK, "paid")
	mu.Lock()
	defer mu.Unlock()
	testkit.Equal(t, len(charged), 1, "keys of one payment")
}
