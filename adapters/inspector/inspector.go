package inspector

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/oncekey/oncekey/core"
)

var templates = template.Must(template.New("").Funcs(functions).Funcs(template.FuncMap{
	"choices": choices, "without": without, "nextPage": nextPage, "farPage": farPage, "filterWords": filterWords,
	"lookAt": func() int { return lookAt }, "maySettle": func(o Operator) bool { return o.may(Settle) },
}).ParseFS(web, "web/*.html"))

// New returns the inspector of an engine. Mount it under a prefix of its own, with
// http.StripPrefix, outside the guarded routes. New returns an error if the engine's store
// cannot be inspected.
//
//	page, err := inspector.New(engine, authorize)
//	mux.Handle("/ops/idempotency/", http.StripPrefix("/ops/idempotency", page))
func New(engine *core.Engine, authorize Authorize, opts ...Option) (*Page, error) {
	switch {
	case engine == nil:
		return nil, errors.New("inspector: the Engine is nil: make it with core.New")
	case authorize == nil:
		return nil, errors.New("inspector: authorize is nil: give a function that returns the operator of a request")
	}
	records, err := engine.Inspector()
	if err != nil {
		return nil, err
	}
	p := &Page{engine: engine, records: records, authorize: authorize, headers: []string{"Content-Type", "Location"}, templates: templates}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("inspector: option %d of New is nil: leave it out", i+1)
		}
		if err := opt(p); err != nil {
			return nil, err
		}
	}
	p.handler = p.handlers()
	return p, nil
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	p.handler.ServeHTTP(w, r)
}

// handlers returns the page's routes. Each names the right that it needs.
func (p *Page) handlers() http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, needed Right, show func(visit) (screen, error)) {
		mux.Handle(pattern, p.endpoint(needed, func(v visit) (screen, error) {
			v, end := v.within(examineWithin)
			defer end()
			return show(v)
		}))
	}
	mux.Handle("GET /{$}", p.endpoint(Read, p.list)) // which knows how long it looks
	on("POST /find", Read, p.find)
	on("GET /records/{id}", Read, p.record)
	on("POST /records/{id}/reveal", Read|Reveal, p.reveal)
	on("POST /records/{id}/settle", Read|Settle, p.settle)
	on("POST /records/{id}/forget", Read|Settle, p.forget)
	on("GET /explain", Read, p.askExplain)
	on("POST /explain", Read, p.explain)
	on("GET /running", Read, p.running)
	on("GET /routes", Read, p.routes)
	on("GET /doctor", Read, p.doctor)
	on("GET /events", Read, p.tail)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, web, "web/style.css")
	})
	mux.Handle("/", p.endpoint(Read, func(visit) (screen, error) {
		return screen{}, fault(http.StatusNotFound, "There is no such page", "The address is wrong, it is a page of another version, or http.StripPrefix does not remove the prefix of the page.")
	}))
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(p.endpoint(Read, func(visit) (screen, error) {
		return screen{}, fault(http.StatusForbidden, "The form is of another site",
			"The browser names another host than the request. If there is no other site, the proxy in front of this page has to pass the header Host on.")
	}))
	guarded := sameSite.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent := requested(r); r.URL.Path == "" && !strings.HasSuffix(sent, "/") { // StripPrefix has removed the rest
			query := strings.TrimPrefix(r.RequestURI, sent) // has the filters
			w.Header().Set("Location", "./"+path.Base(sent)+"/"+query)
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/") { // StripPrefix of "/ops/" has removed the slash too
			below := *r.URL
			below.Path, below.RawPath = "/"+r.URL.Path, ""
			r = r.WithContext(r.Context())
			r.URL = &below
		}
		guarded.ServeHTTP(w, r)
	})
}

// requested returns the path that the client sent.
func requested(r *http.Request) string {
	sent, _, _ := strings.Cut(r.RequestURI, "?")
	return sent
}
