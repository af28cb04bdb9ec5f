package main

import (
	"embed"
	"net/http"
)

//go:embed web pod.go
var web embed.FS

// routes serves the page and the shops. A page of another site cannot pay.
func routes(m *mall) http.Handler {
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/{$}":       "web/index.html",
		"/style.css": "web/style.css",
		"/app.js":    "web/app.js",
		"/draw.js":   "web/draw.js",
		"/log.js":    "web/log.js",
		"/view.js":   "web/view.js",
		"/words.js":  "web/words.js",
		"/pod.go":    "pod.go",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			// The page loads no resource of another origin, and the browser enforces that.
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "+
					"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-cache")
			if path == "/pod.go" {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			}
			http.ServeFileFS(w, r, web, file)
		})
	}
	mux.HandleFunc("POST /shops", m.openShop)
	mux.HandleFunc("DELETE /shops/{shop}", m.closeShop)
	mux.HandleFunc("GET /shops/{shop}/notices", m.withShop((*shop).showNotices))
	mux.HandleFunc("GET /shops/{shop}/ledger", m.withShop((*shop).showLedger))
	mux.HandleFunc("/shops/{shop}/inspector/", m.withShop((*shop).inspect))
	mux.HandleFunc("POST /shops/{shop}/payments", m.withShop((*shop).balance))
	return http.NewCrossOriginProtection().Handler(mux)
}
