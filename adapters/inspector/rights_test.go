package inspector_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// addresses are all addresses of the page, with the right that each needs.
func (s *service) addresses() map[string]inspector.Right {
	return map[string]inspector.Right{
		"GET /": inspector.Read, "POST /find": inspector.Read, "GET /records/" + s.id("done"): inspector.Read,
		"POST /records/" + s.id("done") + "/reveal":      inspector.Reveal,
		"POST /records/" + s.id("abandoned") + "/settle": inspector.Settle,
		"POST /records/" + s.id("done") + "/forget":      inspector.Settle,
		"GET /explain": inspector.Read, "POST /explain": inspector.Read,
		"GET /running": inspector.Read, "GET /routes": inspector.Read, "GET /doctor": inspector.Read, "GET /nowhere": inspector.Read,
	}
}

// Each address checks its right itself, whatever the page shows.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	for address, needed := range s.addresses() {
		method, path, _ := strings.Cut(address, " ")
		form := s.changedForm("abandoned", "happened")
		if w := s.call(method, path, form, "Stranger", "yes"); w.Code != http.StatusUnauthorized || w.Header().Get("Www-Authenticate") != `Basic realm="ops"` {
			t.Errorf("%s without a sign-in: %d, with the challenge %q", address, w.Code, w.Header().Get("Www-Authenticate"))
		}
		s.may = everything &^ needed
		testkit.Equal(t, s.call(method, path, form).Code, http.StatusForbidden, "%s without the right to %s: the status", address, needed)
		s.may = inspector.Read | needed
		if w := s.call(method, path, form); w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized {
			t.Errorf("%s with the right to %s: %d", address, needed, w.Code)
		}
	}
}

func TestReadersSeeNoForms(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	s.may = inspector.Read
	for _, key := range []string{"abandoned", "done"} {
		w := s.get("/records/" + s.id(key))
		s.wantPage(w, http.StatusOK, "You may look, not change")
		if strings.Contains(w.Body.String(), `method="post"`) {
			t.Errorf("a reader's page of %s has a form", key)
		}
	}
	if record := s.recordOf("abandoned"); record.MaySettle || record.MayForget || record.MayReveal {
		t.Errorf("a reader may %+v", record)
	}
}

// Case 93: a page names the store, the process and the operators to its readers only. Every page, also one with a fault,
// names them to a reader.
func TestStrangersLearnNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	for address, needed := range s.addresses() {
		method, path, _ := strings.Cut(address, " ")
		for _, accept := range []string{"text/html", "application/json"} {
			s.may = everything
			strangers := s.call(method, path, nil, "Stranger", "yes", "Accept", accept)
			s.may = inspector.Reveal | inspector.Settle
			forbidden := s.call(method, path, nil, "Accept", accept)
			for _, w := range []*httptest.ResponseRecorder{strangers, forbidden} {
				if text := regexp.MustCompile(`memstore|pod-1|/payments`).FindString(w.Body.String()); text != "" || w.Code < http.StatusUnauthorized {
					t.Errorf("%s as %s: %d names %s to a stranger", address, accept, w.Code, text)
				}
			}
		}
		s.may = inspector.Read
		if w := s.call(method, path, nil); needed == inspector.Read && (!strings.Contains(w.Body.String(), "memstore") || !strings.Contains(w.Body.String(), "pod-1")) {
			t.Errorf("%s names no store or no process to a reader", address)
		}
	}
}

func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.pay("abandoned", "uncertain")
	w := s.post("/records/"+s.id("abandoned")+"/settle", s.changedForm("abandoned", "happened"), "Sec-Fetch-Site", "cross-site")
	if w.Code != http.StatusForbidden || s.recordOf("abandoned").State != "abandoned" {
		t.Errorf("a form of another site: %d, and the record is %s", w.Code, s.recordOf("abandoned").State)
	}
	s.wantPage(w, http.StatusForbidden, "The form is of another site", "pass the header Host on")
	foreign := s.post("/find", nil, "Origin", "http://ops.example", "Accept", "application/json") // over plain HTTP, and a proxy has replaced Host
	if fault := read[inspector.Fault](s, foreign, http.StatusForbidden); fault.Status != http.StatusForbidden || fault.Title == "" {
		t.Errorf("the fault of a form of another origin is %+v", fault)
	}
}

func TestHeadersOfEveryPage(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	for address := range s.addresses() {
		method, path, _ := strings.Cut(address, " ")
		w := s.call(method, path, nil)
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex",
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		} {
			testkit.Equal(t, w.Header().Get(name), want, "%s: %s", address, name)
		}
		if body := w.Body.String(); regexp.MustCompile(`(?i)<script|style="|<[^>]*\son[a-z]+=|alice|4111111`).MatchString(body) {
			t.Errorf("%s has a script, a style of its own, a scope or a card:\n%s", address, body)
		}
	}
}

// Every link and form of every page leads to a page, below the prefix.
func TestLinksAreRelative(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	link := regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	seen, left := map[string]bool{}, []string{prefix + "/"}
	for len(left) > 0 {
		address := left[0]
		left = left[1:]
		w := testkit.Serve(s.mux, httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody))
		if w.Code >= http.StatusBadRequest && !strings.Contains(address, "/find") && !strings.Contains(address, "settle") && !strings.Contains(address, "forget") && !strings.Contains(address, "reveal") {
			t.Errorf("%s is %d", address, w.Code)
		}
		base, err := url.Parse(address)
		testkit.Must(t, err)
		for _, found := range link.FindAllStringSubmatch(w.Body.String(), -1) {
			target, err := base.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
			if err != nil || strings.HasPrefix(found[1], "/") || !strings.HasPrefix(target.Path, prefix+"/") {
				t.Errorf("%s links to %s", address, found[1])
				continue
			}
			target.Fragment = ""
			if !seen[target.String()] {
				seen[target.String()] = true
				left = append(left, target.String())
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d addresses were found", len(seen))
	}
}

// Without its last slash the address leads to the page with the same filters, behind any
// prefix.
func TestLastSlash(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	page, err := inspector.New(s.engine, s.authorize)
	testkit.Must(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a/b?x=1", http.NoBody)
	w := httptest.NewRecorder()
	http.StripPrefix("/a/b", page).ServeHTTP(w, r)
	if got := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || got != "./b/?x=1" {
		t.Errorf("%d to %q, want ./b/?x=1", w.Code, got)
	}
	for _, address := range []string{"/a/b/", "/a/b/style.css", "/a/b/records/" + strings.Repeat("ab", 32)} { // a prefix with the last slash
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody), httptest.NewRecorder()
		if http.StripPrefix("/a/b/", page).ServeHTTP(w, r); w.Code >= 300 && w.Code < 400 {
			t.Errorf("%s leads to %q", address, w.Header().Get("Location"))
		}
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	engine, err := core.New(memstore.New(), core.SharedScope)
	testkit.Must(t, err)
	s := &service{T: t}
	for name, opt := range map[string]inspector.Option{
		"a nil option": nil, "a nil Redact": inspector.Redact(nil), "a cookie": inspector.Headers("set-cookie"), "nil events": inspector.Remembered(nil),
		"a link without a place": inspector.LogLink("https://logs.example.com"), "a script": inspector.LogLink("javascript:%s"),
	} {
		if _, err := inspector.New(engine, s.authorize, opt); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := inspector.New(nil, s.authorize); err == nil {
		t.Error("a nil engine is accepted")
	}
	if _, err := inspector.New(engine, nil); err == nil {
		t.Error("a nil authorize is accepted")
	}
}
